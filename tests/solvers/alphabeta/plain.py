"""What the search is held against: plain negamax over every move, and random positions."""

from __future__ import annotations

import random
from typing import Any

import chess
import numpy as np
from numba import int64

from graphsearch.evaluators.builtin.evaluator import BuiltinEvaluator
from graphsearch.jit.compiler import inner, kernel
from graphsearch.jit.pointers import adv
from graphsearch.position.board import pack
from graphsearch.position.board_kernel import PW, clock_of, generate_moves, in_check, is_dead, make_move
from graphsearch.position.tables import load_tables
from graphsearch.position.values import FAR, MATE
from graphsearch.solvers.alphabeta.search import new_search
from graphsearch.solvers.alphabeta.search_kernel import Search, quiesce

MEMORY: Any = new_search(load_tables(), BuiltinEvaluator().weights, 1 << 16)


@inner
def _is_drawn(S: Any, s: Any, ply: Any) -> Any:
    """Returns whether a position that has moves is a draw by material, clock or repetition."""
    if is_dead(s) or clock_of(s) >= 100:
        return True
    repeated = False
    for back in range(2, ply + 1):
        repeated |= S.positions[(ply - back) * PW + 9] == s[9]
    return repeated


@inner
def _valued(S: Any, s: Any, ply: Any, depth: Any) -> Any:
    """Returns the value of a position that is not searched further, FAR for one that is; lists its moves."""
    n = int64(generate_moves(S.table, s, adv(S.moves, ply * 256)))
    S.frames[2 * ply] = -FAR
    S.frames[2 * ply + 1] = n
    if is_dead(s):
        return int64(0)
    if n == 0:
        return ply - MATE if in_check(S.table, s) else int64(0)
    if _is_drawn(S, s, ply):
        return int64(0)
    if ply == depth:
        return quiesce(S, s, ply, int64(-FAR), int64(FAR))
    return int64(FAR)


@kernel
def _negamax(S: Search, depth: Any) -> Any:
    """Returns the negamax value of the position at ply 0, every move tried, no window, no table."""
    ply = int64(0)
    value = _valued(S, S.positions, ply, depth)
    while True:
        if value != FAR:
            ply -= 1
            if ply < 0:
                return value
            S.frames[2 * ply] = max(S.frames[2 * ply], -value)
        if S.frames[2 * ply + 1] == 0:
            value = S.frames[2 * ply]
            continue
        n = S.frames[2 * ply + 1] - 1
        S.frames[2 * ply + 1] = n
        s = adv(S.positions, ply * PW)
        make_move(S.table, s, adv(s, PW), S.moves[ply * 256 + n])
        ply += 1
        value = _valued(S, adv(s, PW), ply, depth)


def negamax(board: chess.Board, depth: int) -> int:
    MEMORY.positions[:PW] = pack(board)
    return int(_negamax(MEMORY, np.int64(depth)))


def sparse_position(rng: random.Random, men: int) -> chess.Board:
    """Returns a random legal position of so many men, the game not over."""
    while True:
        board = chess.Board(None)
        squares = rng.sample(range(64), men)
        board.set_piece_at(squares[0], chess.Piece(chess.KING, chess.WHITE))
        board.set_piece_at(squares[1], chess.Piece(chess.KING, chess.BLACK))
        for square in squares[2:]:
            kind = rng.choice((chess.PAWN, chess.PAWN, chess.KNIGHT, chess.BISHOP, chess.ROOK, chess.QUEEN))
            if kind != chess.PAWN or 8 <= square < 56:
                board.set_piece_at(square, chess.Piece(kind, rng.random() < 0.5))
        board.turn = rng.random() < 0.5
        if rng.random() < 0.2:
            board.halfmove_clock = rng.randrange(100)
        if board.is_valid() and not board.is_game_over():
            return board
