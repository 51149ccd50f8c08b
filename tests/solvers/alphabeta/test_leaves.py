"""The value of a leaf, held against quiescence written down with python-chess."""

from __future__ import annotations

import random
from typing import Any

import chess
import numpy as np

from graphsearch.evaluators.builtin.evaluation_kernel import AREA_WORDS, static_score
from graphsearch.evaluators.builtin.evaluator import BuiltinEvaluator
from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import ptr
from graphsearch.position.board import pack
from graphsearch.position.scores import MATE
from graphsearch.position.tables import load_tables
from graphsearch.solvers.alphabeta.search import AlphaBeta
from graphsearch.store.record.transposition import EntryTable
from tests.support.exchange import exchanged

from .plain import sparse_position


@kernel
def _static(T: Any, W: Any, words: Any, area: Any) -> Any:
    return static_score(ptr(T, 0), ptr(W, 0), ptr(words, 0), ptr(area, 0))


def static(board: chess.Board) -> int:
    area = np.zeros(AREA_WORDS, np.uint64)
    return int(_static(load_tables(), BuiltinEvaluator().weights, pack(board), area))


def is_worth_it(board: chess.Board, move: chess.Move) -> bool:
    """Returns whether a move takes, or becomes a queen, and does not lose by exchange."""
    if move.promotion not in (None, chess.QUEEN) or not (board.is_capture(move) or move.promotion):
        return False
    return exchanged(board, move) >= 0


def plain_quiescence(board: chess.Board, ply: int = 0) -> int:
    """Returns the value without any window: the best of standing pat and of every move worth it."""
    if board.is_insufficient_material():
        return 0
    moves = list(board.legal_moves)
    if not moves:
        return ply - MATE if board.is_check() else 0
    scores = []
    if not board.is_check() or ply == 16:
        scores.append(static(board))
    if ply < 16:
        for move in moves:
            if board.is_check() or is_worth_it(board, move):
                board.push(move)
                scores.append(-plain_quiescence(board, ply + 1))
                board.pop()
    return max(scores)


def test_a_leaf_is_worth_what_quiescence_without_windows_says() -> None:
    rng = random.Random(3)
    engine = AlphaBeta(EntryTable(1 << 16))
    for _ in range(40):
        board = sparse_position(rng, rng.choice((4, 5, 6, 7, 8)))
        board.halfmove_clock = 0
        value = plain_quiescence(board)
        assert engine.search(board, 0).value == value, board.fen()
        below = engine.search(board, 0, value - 900, value - 500)
        assert below.bound == "lower"
        assert value - 500 <= below.value <= value
        above = engine.search(board, 0, value + 500, value + 900)
        assert above.bound == "upper"
        assert value <= above.value <= value + 500
