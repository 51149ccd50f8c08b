"""Legal moves and the positions behind them, for many positions at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import kernel
from ..jit.pointers import U, adv, ptr
from ..jit.types import int16, int64, uint8, uint64
from .board import MAX_MOVES
from .board_kernel import PW, generate_moves, in_check, make_move, position_key
from .legality_kernel import ROOM

CHECK, MATE = 1, 2  # marks of a move


@kernel
def list_moves(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    counts: NDArray[np.int16],
    moves: NDArray[np.uint16],
    marks: NDArray[np.uint8],
) -> uint64:
    """Fills the legal moves of positions in canonical order, and whether each gives check or mate.

    Args:
      T: the table of `tables.py`. words: `[R * 10]` uint64.
      counts: `[R]` int16, filled; more than MAX_MOVES are cut off.
      moves: `[R * MAX_MOVES]` uint16, filled up to each count.
      marks: `[R * MAX_MOVES]` uint8 likewise, CHECK | MATE.
    """
    out = np.zeros(ROOM, np.uint16)
    replies = np.zeros(ROOM, np.uint16)
    child = np.zeros(PW, np.uint64)
    table = ptr(T, 0)
    c = ptr(child, 0)
    for i in range(len(counts)):
        s = adv(ptr(words, 0), PW * i)
        n = min(int64(generate_moves(table, s, ptr(out, 0))), int64(MAX_MOVES))
        counts[i] = int16(n)
        for k in range(n):
            moves[MAX_MOVES * i + k] = out[k]
            make_move(table, s, c, out[k])
            mark = int64(0)
            if in_check(table, c):
                mark = CHECK
                if generate_moves(table, c, ptr(replies, 0)) == 0:
                    mark = CHECK | MATE
            marks[MAX_MOVES * i + k] = uint8(mark)
    return U(child[0]) + U(out[0] + replies[0])  # keeps the arrays alive until here


@kernel
def make_steps(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    of: NDArray[np.int64],
    moves: NDArray[np.uint16],
    children: NDArray[np.uint64],
    keys: NDArray[np.uint64],
) -> None:
    """Fills the positions after legal moves, and their keys.

    Args:
      T: the table of `tables.py`. words: `[R * 10]` uint64.
      of: `[K]` int64, which position each move is of. moves: `[K]` uint16.
      children: `[K * 10]` uint64, filled. keys: `[K]` uint64, filled.
    """
    table = ptr(T, 0)
    for k in range(len(of)):
        c = adv(ptr(children, 0), PW * k)
        make_move(table, adv(ptr(words, 0), PW * int64(of[k])), c, moves[k])
        keys[k] = position_key(table, c)
