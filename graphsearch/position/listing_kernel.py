"""The legal moves of many positions.

words    position 0 | position 1 | ...
moves    moves of 0 ----| moves of 1 --| ...
offsets  0              ^              ^
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import kernel
from ..jit.pointers import ptr
from ..jit.types import int64
from .board_kernel import PW, generate_moves
from .legality_kernel import kind_of


@kernel
def list_all(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    moves: NDArray[np.uint16],
    kinds: NDArray[np.uint8],
) -> None:
    """Lists the legal moves of positions, and the kind of the terminal ones.

    Args:
      T: the table of `tables.py`. words: `[10 B]` uint64.
      offsets: `[B + 1]` int64 out, where the moves of each position begin.
      moves: `[256 B]` uint16 out, in canonical order.
      kinds: `[B]` uint8 out, as of `terminal_kind` in `board.py`.
    """
    offsets[0] = 0
    for b in range(len(kinds)):
        s, at = ptr(words, int64(b) * PW), offsets[b]
        count = generate_moves(ptr(T, 0), s, ptr(moves, at))
        offsets[b + 1] = at + count
        kinds[b] = kind_of(ptr(T, 0), s, count)
