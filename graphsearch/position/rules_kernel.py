"""The rules on arrays, for the Python callers of `board.py`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, ptr
from ..jit.types import Pointer, int64, uint16, uint64
from .board_kernel import PW, generate_moves, in_check, is_dead, make_move
from .words import BoardTable

MAX_LEGAL_MOVES = 256  # room for a move list; no legal position has more than 253


@inner
def _perft(
    T: BoardTable, stack: Pointer[uint64], moves: Pointer[uint16], cursor: Pointer[int64], depth: int64
) -> int64:
    """Counts leaf positions with an explicit stack: position and move list by ply, next move in `cursor`."""
    total = 0
    ply = 0
    cursor[0] = 0
    cursor[1] = generate_moves(T, stack, moves)
    if depth == 1:
        return cursor[1]
    while ply >= 0:
        i = cursor[2 * ply]
        if i == cursor[2 * ply + 1]:
            ply -= 1
            continue
        cursor[2 * ply] = i + 1
        child = adv(stack, (ply + 1) * PW)
        make_move(T, adv(stack, ply * PW), child, moves[ply * MAX_LEGAL_MOVES + i])
        n = generate_moves(T, child, adv(moves, (ply + 1) * MAX_LEGAL_MOVES))
        if ply + 2 == depth:
            total += n
        else:
            ply += 1
            cursor[2 * ply] = 0
            cursor[2 * ply + 1] = n
    return total


@kernel
def perft(T: NDArray[np.uint64], words: NDArray[np.uint64], depth: int64) -> int64:
    """Returns the number of positions `depth` plies below `words` (`uint64[10]`); 1 for depth 0."""
    if depth <= 0:
        return int64(1)
    stack = np.zeros((depth + 1) * PW, np.uint64)
    for i in range(PW):
        stack[i] = words[i]
    moves = np.zeros((depth + 1) * MAX_LEGAL_MOVES, np.uint16)
    cursor = np.zeros(2 * (depth + 1), np.int64)
    total = _perft(ptr(T, 0), ptr(stack, 0), ptr(moves, 0), ptr(cursor, 0), depth)
    # reading them here keeps the arrays alive while the pointers are in use
    return (
        int64(total) + int64(stack[0] ^ stack[0]) + int64(moves[0] ^ moves[0]) + int64(cursor[0] - cursor[0])
    )


@kernel
def list_moves(T: NDArray[np.uint64], words: NDArray[np.uint64], out: NDArray[np.uint16]) -> int64:
    """Returns the number of legal moves of `words`, written to `out` (`uint16[256]`) in canonical order."""
    return generate_moves(ptr(T, 0), ptr(words, 0), ptr(out, 0))


@kernel
def play(T: NDArray[np.uint64], words: NDArray[np.uint64], move: uint16, child: NDArray[np.uint64]) -> None:
    """Writes the position after `move` to `child` (`uint64[10]`)."""
    make_move(ptr(T, 0), ptr(words, 0), ptr(child, 0), move)


@kernel
def verdict(T: NDArray[np.uint64], words: NDArray[np.uint64], out: NDArray[np.uint16]) -> int64:
    """Returns the terminal kind (0 none, 1 checkmate, 2 stalemate, 3 dead), as `board.terminal_kind`."""
    s = ptr(words, 0)
    if is_dead(s):
        return 3
    if generate_moves(ptr(T, 0), s, ptr(out, 0)):
        return 0
    return 1 if in_check(ptr(T, 0), s) else 2
