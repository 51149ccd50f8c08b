"""Reads the records that a wave needs from the file into the arena, without Python.

    positions -> not in memory -> room? -> `store/reading_kernel.py` -> columns -> arena

It evicts nothing. If eviction is due, or a kernel cannot read a record, it returns to the caller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, ptr
from ..jit.types import int64
from ..position.board_kernel import hashes_of
from ..position.words import BoardTable, Position
from ..store.index.locate_kernel import FilterArrays, FilterPointers, filter_pointers
from ..store.reading_kernel import BUDGET, FOUND, READ, REFUSED, ReaderArrays, read_record
from . import arena_kernel as arena
from .arena_kernel import ArenaArrays, ArenaPointers
from .guards_kernel import ThreadArrays, pointers_of_thread
from .heap_kernel import find
from .space_kernel import has_freed
from .transfer_kernel import enter_record, has_room_for_record

BYTES_PER_NODE = 140  # of a node read from the file: record, block, table place


@inner
def _has_room(A: ArenaPointers, budget: int64) -> bool:
    """Returns whether one more record fits without an eviction."""
    used = 8 * (int64(A.size) + A.space[arena.RECORD_WORDS]) + 4 * A.space[arena.BLOCK_WORDS]
    if not has_freed(A, used + BYTES_PER_NODE - budget):
        return False
    return has_room_for_record(A)


@inner
def _bring_one(T: BoardTable, A: ArenaPointers, F: FilterPointers, R: ReaderArrays, s: Position) -> bool:
    """Inserts the record of a position, if there is one; returns False if the caller must do it."""
    key, check = hashes_of(T, s)
    if find(A, key, check):
        return True
    if not _has_room(A, R.states[BUDGET]):
        return False
    found = read_record(T, F, R, s, key)
    if found == REFUSED:
        return False
    if found == FOUND:
        if not enter_record(T, A, ptr(R.columns.words, 0), key, check, R.columns, int64(0)):
            return False
        R.states[READ] += 1
    return True


@kernel
def bring(
    T: NDArray[np.uint64],
    A: ArenaArrays,
    H: ThreadArrays,
    F: FilterArrays,
    R: ReaderArrays,
    words: NDArray[np.uint64],
    stride: int64,
    which: NDArray[np.int64],
    counts: NDArray[np.int64],
    at: int64,
) -> int64:
    """Inserts the records of some positions; returns 1, or 0 if the caller must load one of them.

    Args:
      T: the table of `position/tables.py`.
      H: arrays of the calling thread; only one thread may read at a time.
      F, R: filters and reader of the same state of the file.
      words: a position every `stride` words.
      which: indices of the wanted positions; the first `counts[at]` count.
    """
    Ap = pointers_of_thread(A, H)
    Fp = filter_pointers(F)
    Tp = ptr(T, 0)
    for i in range(counts[at]):
        if not _bring_one(Tp, Ap, Fp, R, adv(ptr(words, 0), which[i] * stride)):
            return int64(0)
    return int64(1)
