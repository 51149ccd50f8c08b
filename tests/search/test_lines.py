"""By which line an evaluator is told that a leaf was reached."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.assess import assess_boards
from graphsearch.evaluators.factory import CombinedEvaluator
from graphsearch.evaluators.pool import PooledEvaluator
from graphsearch.evaluators.protocol import LINE_PLIES, Lines, PositionBatch
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.position.board import key_of, pack
from graphsearch.search.params import GATHERERS

from ..conftest import ROOT
from ..support.evaluators import LineEvaluator, boards_of
from ..support.positions import after_line

SHUFFLES = "Nf3 Nf6 Ng1 Ng8 e3 e6 Nf3 Nf6 Ng1"  # Black to move may repeat the position after e6
BOARDS = [after_line(line) for line in ("e4", "e4 e5", SHUFFLES, "d4 d5")]


def searched(board: chess.Board, visits: int = 200, **fields: Any) -> LineEvaluator:
    evaluator = LineEvaluator()
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, board, Limits(visits=visits), SearchParams(**fields))
    return evaluator


def same(a: Lines, b: Lines) -> bool:
    return np.array_equal(a.words, b.words) and np.array_equal(a.repeated, b.repeated)


def steps(before: chess.Board, after: chess.Board) -> list[chess.Move]:
    """Returns the legal moves from one position to another."""
    gone = before.occupied & ~after.occupied
    moves = []
    for move in before.generate_legal_moves(from_mask=gone):
        child = before.copy(stack=False)
        child.push(move)
        if np.array_equal(pack(child), pack(after)):
            moves.append(move)
    return moves


def replayed(root: chess.Board, boards: list[chess.Board]) -> chess.Board | None:
    """Returns the game with the line added, None if the root is no longer among the line's positions."""
    at = next((i for i, board in enumerate(boards) if key_of(board) == key_of(root)), None)
    if at is None:
        return None
    board = root.copy()
    for before, after in zip(boards[at:], boards[at + 1 :], strict=False):
        board.push(steps(before, after)[0])
    return board


@pytest.mark.parametrize(
    ("sans", "fields"),
    [
        ("", {"minibatch_size": 1}),
        (SHUFFLES, {"minibatch_size": 1}),
        *((SHUFFLES, {"minibatch_size": 32, "gather": gather}) for gather in GATHERERS),
        (SHUFFLES, {"minibatch_size": 32, "overlap": 0}),
    ],
    ids=str,
)
def test_a_leaf_has_the_line_that_reached_it(sans: str, fields: dict[str, Any]) -> None:
    board, known = after_line(sans), 0
    for lines in searched(board, 60, **fields).lines.values():
        boards = boards_of(lines)
        assert all(steps(a, b) for a, b in pairwise(boards))
        whole = replayed(board, boards)
        if whole is None:
            assert len(boards) == LINE_PLIES
            continue
        known += 1
        assert same(lines, Lines.from_boards([whole])), whole.fen()
    assert known > 15


def test_a_repetition_may_lie_further_back_than_the_line() -> None:
    moves = "Ra2 Ke7 Ra3 Ke6 Ra4 Ke7 Ra5 Ke8 Ra6 Kd8 Ra1 Ke8"
    board = after_line(moves, "4k3/8/8/8/8/8/8/R3K3 w - - 0 1")
    assert Lines.from_boards([board]).repeated[0].tolist() == [True] + 7 * [False]
    (lines,) = searched(board, visits=1).lines.values()
    assert lines.repeated[0].tolist() == [True] + 7 * [False]


def test_a_line_begins_with_the_game_before_the_root() -> None:
    for board, count in ((game := after_line("e4 c5 Nf3 d6 d4"), 6), (game.copy(stack=False), 1)):
        lines = searched(board, visits=1).lines[key_of(board)]
        assert same(lines, Lines.from_boards([board]))
        assert len(boards_of(lines)) == count
        evaluator = LineEvaluator()
        list(assess_boards(evaluator, [board]))
        assert same(evaluator.lines[key_of(board)], lines)


def test_who_comes_later_shares_what_the_first_line_was_told() -> None:
    first, second = after_line("e3 e6 d3"), after_line("d3 e6 e3")
    assert key_of(first) == key_of(second)
    evaluator = LineEvaluator()
    with Graph.open(None, evaluator=evaluator) as graph:
        for board in (first, second):  # asked twice, LineEvaluator would fail
            analyze(graph, board, Limits(visits=1), SearchParams(minibatch_size=1))
    assert same(evaluator.lines[key_of(first)], Lines.from_boards([first]))
    assert not same(evaluator.lines[key_of(first)], Lines.from_boards([second]))


def test_parts_of_an_evaluator_and_workers_get_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    batch = PositionBatch.from_boards(BOARDS, with_lines=True)
    expected = LineEvaluator().evaluate(batch).wdl
    both = CombinedEvaluator(UniformEvaluator(), LineEvaluator())
    assert both.wants_lines
    assert np.array_equal(both.evaluate(batch).wdl, expected)
    both.close()
    with PooledEvaluator(partial(LineEvaluator), 2) as pool:
        assert pool.wants_lines
        assert np.array_equal(pool.evaluate(batch).wdl, expected)
