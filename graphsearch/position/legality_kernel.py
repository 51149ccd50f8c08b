"""Legal moves of many positions at once, for checking a whole file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int16, int64, uint8

from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, ctz, ptr
from .board_kernel import PW, generate_moves, in_check, is_attacked, is_dead, side_to_move
from .words import BLACK, KINGS, WHITE

ROOM = 1024  # sixteen men have at most 16 * 28 moves; a damaged position may have more than a legal one
EXPOSED = 4  # the side that has moved is in check


@inner
def _kind(T: Any, s: Any, moves: Any) -> Any:
    """Returns the terminal kind, as `position.terminal_kind`."""
    if is_dead(s):
        return int64(3)
    if moves:
        return int64(0)
    return int64(1) if in_check(T, s) else int64(2)


@kernel
def examine(T: Any, words: Any, moves: Any, kinds: Any) -> Any:
    """Fills the number of legal moves and the terminal kind (or EXPOSED) of positions with one king a side.

    Args:
      T: the table of `tables.py`. words: `[R * 10]` uint64.
      moves: `[R]` int16, filled. kinds: `[R]` uint8, filled.
    """
    out = np.zeros(ROOM, np.uint16)
    table = ptr(T, 0)
    for i in range(len(moves)):
        s = adv(ptr(words, 0), PW * i)
        stm = side_to_move(s)
        n = generate_moves(table, s, ptr(out, 0))
        moves[i] = int16(n)
        king = ctz(s[KINGS] & s[BLACK - stm])
        if is_attacked(table, s, king, s[WHITE] | s[BLACK], 1 - stm):
            kinds[i] = uint8(EXPOSED)
        else:
            kinds[i] = uint8(_kind(table, s, n))
    return out[0]
