"""The hash table of a record pool (position -> record), and the assignment of ids to positions of a walk.

table   as in `graph/sweeps/sweep_kernel.py`; the upper half of its second word is the record plus 1
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..graph.sweeps.sweep_kernel import PLACE_WORDS, known, place_of, set_known, table_of
from ..jit.compiler import kernel
from ..jit.pointers import ZERO, ptr
from ..jit.types import int64
from ..position.board_kernel import PW, hashes_of, make_child
from ..position.words import META


@kernel
def enter(T: NDArray[np.uint64], table: NDArray[np.uint64], words: NDArray[np.uint64], first: int64) -> None:
    """Inserts positions with consecutive record numbers from `first` on; the table must have room.

    Args:
      T: the table of `position/tables.py`. table: `[places * 2]` uint64. words: `[R * 10]` uint64.
    """
    Tp, t = ptr(T, 0), table_of(table)
    for i in range(len(words) // PW):
        key, check = hashes_of(Tp, ptr(words, PW * i))
        place, tag = place_of(t, key, check)
        t.words[PLACE_WORDS * place] = tag
        set_known(t, place, first + i + 1)


@kernel
def find(
    T: NDArray[np.uint64], table: NDArray[np.uint64], words: NDArray[np.uint64], numbers: NDArray[np.int64]
) -> None:
    """Fills the record number of each position, -1 without a record.

    Args:
      T, table, words: as for `enter`. numbers: `[R]` int64.
    """
    Tp, t = ptr(T, 0), table_of(table)
    for i in range(len(numbers)):
        key, check = hashes_of(Tp, ptr(words, PW * i))
        numbers[i] = known(t, place_of(t, key, check)[0]) - 1


@kernel
def find_children(
    T: NDArray[np.uint64],
    table: NDArray[np.uint64],
    words: NDArray[np.uint64],
    of: NDArray[np.int64],
    codes: NDArray[np.uint16],
    numbers: NDArray[np.int64],
    metas: NDArray[np.uint64],
    unknown: NDArray[np.uint64],
) -> int64:
    """Fills the record numbers of the positions after moves, -1 without a record; returns the count of -1.

    Args:
      T, table: as for `enter`. words: `[R * 10]` uint64.
      of: `[M]` int64, the position of each move. codes: `[M]` uint16.
      numbers: `[M]` int64, filled. metas: `[M]` uint64, filled: META of the positions after the moves.
      unknown: `[M * 10]` uint64, filled with the positions without a record, in order.
    """
    Tp, t = ptr(T, 0), table_of(table)
    child = np.zeros(PW, np.uint64)
    c = ptr(child, 0)
    missing = int64(0)
    for k in range(len(of)):
        key, check = make_child(Tp, ptr(words, PW * int64(of[k])), c, codes[k])
        numbers[k] = known(t, place_of(t, key, check)[0]) - 1
        metas[k] = c[META]
        if numbers[k] < 0:
            for w in range(PW):
                unknown[PW * missing + w] = c[w]
            missing += 1
    return missing + int64(child[0] & ZERO)


@kernel
def meet(
    numbers: NDArray[np.int64],
    follow: NDArray[np.uint8],
    ids: NDArray[np.int64],
    next_id: int64,
    met: NDArray[np.int64],
) -> int64:
    """Assigns the next ids to positions met for the first time; returns their number.

    Args:
      numbers: `[M]` int64, records of the positions, in order. follow: `[M]` uint8, 0 to ignore a move.
      ids: int64 by record number, 0 for a position not met; updated. next_id: the first id to assign.
      met: `[M]` int64, filled: indices of the moves that met a new position.
    """
    new = int64(0)
    for k in range(len(numbers)):
        if follow[k] and ids[numbers[k]] == 0:
            ids[numbers[k]] = next_id + new
            met[new] = int64(k)
            new += 1
    return new
