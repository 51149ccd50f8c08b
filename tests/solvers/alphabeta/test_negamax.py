"""The value is that of plain negamax, whatever the table holds; bounds in it are true on every path."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import chess
import numpy as np
import pytest

from graphsearch.evaluators.builtin.evaluation_kernel import AREA_WORDS, static_at
from graphsearch.evaluators.builtin.evaluator import BuiltinEvaluator
from graphsearch.evaluators.quiescence_kernel import STACK_WORDS
from graphsearch.jit.compiler import kernel
from graphsearch.jit.pointers import ptr
from graphsearch.jit.types import int64
from graphsearch.position.board import POSITION_WORDS, pack
from graphsearch.position.tables import load_tables
from graphsearch.position.values import FAR, MATE
from graphsearch.solvers.alphabeta.search import AlphaBeta
from graphsearch.store.entries import Entry, EntryTable
from tests.support.nnue_kernel import exchanged
from tests.support.positions import after_each_move, random_games

from .plain import negamax, sparse_position

SIZE = 1 << 20


def positions(count: int, seed: int, men: tuple[int, ...] = (3, 4, 4, 5, 5, 6, 7, 8)) -> list[chess.Board]:
    """Returns random positions, most of few men: plain negamax looks at every line."""
    rng = random.Random(seed)
    out = [sparse_position(rng, rng.choice(men)) for _ in range(count - count // 40)]
    return out + [board.copy(stack=False) for board in random_games(seed, count // 40, 21)]


def below(board: chess.Board, plies: int) -> Iterator[chess.Board]:
    """Yields a position and all that moves lead to, without their games."""
    yield board.copy(stack=False)
    if plies:
        for after in after_each_move(board):
            yield from below(after, plies - 1)


@pytest.fixture
def engine() -> AlphaBeta:
    return AlphaBeta(EntryTable(SIZE))


def test_the_value_is_that_of_plain_negamax(engine: AlphaBeta) -> None:
    for board in positions(40, 1):
        assert engine.search(board, 3).value == negamax(board, 3), board.fen()


def test_iterations_before_leave_the_value_as_it_is(engine: AlphaBeta) -> None:
    for board in positions(10, 2, (3, 4)):
        values = [engine.search(board, depth).value for depth in range(1, 5)]
        assert values[-1] == negamax(board, 4), board.fen()


def test_entries_of_other_depths_never_give_the_value(engine: AlphaBeta) -> None:
    for board in positions(4, 3, (4, 5, 6, 7)):
        for depth in (9, 0):  # 3 to 1 are those needed
            for position in below(board, 2):
                move = next(iter(position.legal_moves), None)
                engine.table.put(position, Entry(7777, depth, "exact", move, "pv", 0))
            assert engine.search(board, 3).value == negamax(board, 3), board.fen()


def test_the_window_never_changes_what_is_true(engine: AlphaBeta) -> None:
    for board in positions(6, 4):
        value = negamax(board, 3)
        low = engine.search(board, 3, max(-FAR, value - 400), value)
        assert low.bound == "lower"
        assert low.value == value
        high = engine.search(board, 3, value, min(FAR, value + 400))
        assert high.bound == "upper"
        assert high.value == value
        inside = engine.search(board, 3, value - 1, value + 1)
        assert (inside.bound, inside.value) == ("exact", value)


def test_every_bound_in_the_table_holds_for_its_position_alone(engine: AlphaBeta) -> None:
    checked = 0
    for board in positions(4, 5, (3, 4, 4)):
        engine.search(board, 5)
        for position in below(board, 2):
            entry = engine.table.get(position)
            if entry is None or not entry.bound or not 1 <= entry.depth <= 3:
                continue
            value = negamax(position, entry.depth)
            checked += 1
            assert entry.bound != "exact" or entry.value == value, position.fen()
            assert entry.bound != "lower" or entry.value <= value, position.fen()
            assert entry.bound != "upper" or entry.value >= value, position.fen()
    assert checked > 60


# ------------------------------------------------------------------ leaves
@kernel
def _static(T: Any, W: Any, stack: Any, area: Any) -> Any:
    return static_at(ptr(T, 0), ptr(W, 0), ptr(stack, 0), int64(0), ptr(area, 0))


def static(board: chess.Board) -> int:
    stack, area = np.zeros(STACK_WORDS, np.uint64), np.zeros(AREA_WORDS, np.uint64)
    stack[:POSITION_WORDS] = pack(board)
    return int(_static(load_tables(), BuiltinEvaluator().weights, stack, area))


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
