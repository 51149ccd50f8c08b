"""Applies the rules to arrays of positions: perft, legal moves, and the positions after them.

words    position 0 | position 1 | ...
moves    moves of 0 ----| moves of 1 --| ...
offsets  0              ^              ^
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, ptr, zeros
from ..jit.types import Pointer, int16, int64, uint8, uint16, uint64
from .board import MAX_MOVES
from .board_kernel import PW, generate_moves, in_check, make_move, position_key
from .legality_kernel import ROOM, kind_of
from .words import BoardTable

CHECK, MATE = 1, 2  # bits of a move's mark
MAX_LEGAL_MOVES = 256  # room for a move list; no legal position has more than 253


@inner
def _perft(
    T: BoardTable, stack: Pointer[uint64], moves: Pointer[uint16], cursor: Pointer[int64], depth: int64
) -> int64:
    """Counts leaf positions with an explicit stack: a position, a move list and a cursor per ply."""
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
    stack = zeros(uint64, (depth + 1) * PW)
    for i in range(PW):
        stack[i] = words[i]
    moves, cursor = zeros(uint16, (depth + 1) * MAX_LEGAL_MOVES), zeros(int64, 2 * (depth + 1))
    return _perft(ptr(T, 0), stack, moves, cursor, depth)


@kernel
def list_all(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    moves: NDArray[np.uint16],
    kinds: NDArray[np.uint8],
) -> None:
    """Lists the legal moves and the terminal kind of every position.

    Args:
      T: the table of `tables.py`. words: `[10 B]` uint64.
      offsets: `[B + 1]` int64 out, start of each position's moves.
      moves: `[256 B]` uint16 out, in canonical order.
      kinds: `[B]` uint8 out, as `terminal_kind` of `board.py` returns them.
    """
    offsets[0] = 0
    for b in range(len(kinds)):
        s, at = ptr(words, int64(b) * PW), offsets[b]
        count = generate_moves(ptr(T, 0), s, ptr(moves, at))
        offsets[b + 1] = at + count
        kinds[b] = kind_of(ptr(T, 0), s, count)


@kernel
def list_moves(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    counts: NDArray[np.int16],
    moves: NDArray[np.uint16],
    marks: NDArray[np.uint8],
) -> None:
    """Lists the legal moves of positions in canonical order, and marks those that give check or mate.

    Args:
      T: the table of `tables.py`. words: `[R * 10]` uint64.
      counts: `[R]` int16 out, at most MAX_MOVES; further moves are dropped.
      moves: `[R * MAX_MOVES]` uint16 out, filled up to each count.
      marks: `[R * MAX_MOVES]` uint8 likewise, CHECK | MATE.
    """
    out, replies, c = zeros(uint16, ROOM), zeros(uint16, ROOM), zeros(uint64, PW)
    table = ptr(T, 0)
    for i in range(len(counts)):
        s = adv(ptr(words, 0), PW * i)
        n = min(int64(generate_moves(table, s, out)), int64(MAX_MOVES))
        counts[i] = int16(n)
        for k in range(n):
            moves[MAX_MOVES * i + k] = out[k]
            make_move(table, s, c, out[k])
            mark = int64(0)
            if in_check(table, c):
                mark = CHECK
                if generate_moves(table, c, replies) == 0:
                    mark = CHECK | MATE
            marks[MAX_MOVES * i + k] = uint8(mark)


@kernel
def make_steps(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    of: NDArray[np.int64],
    moves: NDArray[np.uint16],
    children: NDArray[np.uint64],
    keys: NDArray[np.uint64],
) -> None:
    """Writes the positions after legal moves, and their keys.

    Args:
      T: the table of `tables.py`. words: `[R * 10]` uint64.
      of: `[K]` int64, index of each move's position. moves: `[K]` uint16.
      children: `[K * 10]` uint64 out. keys: `[K]` uint64 out.
    """
    table = ptr(T, 0)
    for k in range(len(of)):
        c = adv(ptr(children, 0), PW * k)
        make_move(table, adv(ptr(words, 0), PW * int64(of[k])), c, moves[k])
        keys[k] = position_key(table, c)
