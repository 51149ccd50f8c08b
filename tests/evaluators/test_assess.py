"""What an evaluator says of many positions: each one's answer, in their order, whatever is asked at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import chess
import pytest

from graphsearch.evaluators import assess as module
from graphsearch.evaluators.assess import assess, assess_boards
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.protocol import PositionBatch
from graphsearch.position.board import fen_of, legal_moves, terminal_kind, unpack

from ..support.positions import random_words
from ..support.reference import HashEvaluator

ENDED = ["7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", "8/8/8/8/8/8/8/K1k5 w - - 3 80"]


def boards() -> list[chess.Board]:
    """Returns positions of random games, with clocks and numbers of moves, and ended ones between them."""
    found = [unpack(words) for words in random_words()[:150]]
    for number, board in enumerate(found):
        board.fullmove_number = 1 + number
    for place, fen in enumerate(ENDED):
        found.insert(40 * place + 7, chess.Board(fen))
    return found


@pytest.mark.parametrize("size", [1, 64])
def test_every_position_gets_its_own_answer_in_order(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(module, "OUTSIDE_BATCH", size)
    evaluator = HashEvaluator()
    for board, found in zip(boards(), assess(evaluator, boards()), strict=True):
        assert found.position == fen_of(board)
        assert found.terminal == terminal_kind(board)
        if found.terminal:
            assert found.priors == {}
            continue
        batch = PositionBatch.from_boards([board])
        said = evaluator.evaluate(batch)
        assert found.wdl.as_list() == pytest.approx(said.wdl[0].tolist(), abs=1e-6)
        expected = dict(zip([move.uci() for move in legal_moves(board)], said.priors.tolist(), strict=True))
        assert found.priors == pytest.approx(expected, abs=1e-6)
        assert list(found.priors.values()) == sorted(found.priors.values(), reverse=True)


def test_positions_are_taken_as_they_are_needed() -> None:
    def endless() -> Iterator[chess.Board]:
        yield from itertools.cycle(boards())

    found = list(itertools.islice(assess_boards(create("uniform"), endless()), 5))
    assert len(found) == 5
