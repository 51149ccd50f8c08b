"""Records that a wave waits for, read from the file and entered in the arena, without Python.

    positions -> not in memory -> room? -> `store/reading_kernel.py` -> columns -> arena

Nothing is evicted here: where that is due, or where a record cannot be read so, the caller does it.
"""

from __future__ import annotations

from typing import Any

from numpy import int64

from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, ptr
from ..position.board_kernel import hashes_of
from ..store.index.locate_kernel import filter_pointers
from ..store.reading_kernel import BUDGET, FOUND, READ, REFUSED, read_record
from . import arena_kernel as arena
from .arena_kernel import pointers
from .heap_kernel import find
from .transfer_kernel import enter_record, has_room_for_record

BYTES_PER_NODE = 140  # of a node read back: record, block, place in the table


@inner
def _has_room(A: Any, budget: Any) -> Any:
    """Returns whether one more record may be entered without evicting any."""
    counters = A.counters
    records = 8 * counters[arena.RECORD_WORDS]
    blocks = 4 * counters[arena.BLOCK_WORDS]
    free_records = 8 * counters[arena.FREED_RECORD_WORDS]
    free_blocks = 4 * counters[arena.FREED_WORDS]
    wanted = 8 * int64(A.size) + records + blocks + BYTES_PER_NODE - budget  # that must be free
    if wanted > free_records + free_blocks:
        return False
    if wanted > BYTES_PER_NODE and min(free_records, free_blocks) < wanted // 2:  # in pieces of no use
        return False
    return has_room_for_record(A)


@inner
def _bring_one(T: Any, A: Any, F: Any, R: Any, s: Any) -> Any:
    """Enters the record of a position, if there is one; returns False if the caller has to see to it."""
    key, check = hashes_of(T, s)
    if find(A, key, check):
        return True
    if not _has_room(A, R.states[BUDGET]):
        return False
    found = read_record(T, F, R, s, key)
    if found == REFUSED:
        return False
    if found == FOUND:
        c = R.columns
        columns = (
            c.v,
            c.d,
            c.evaluator,
            c.run,
            c.flags,
            c.code_offsets,
            c.codes,
            c.edge_offsets,
            c.n,
            c.r,
            c.q,
            c.edge_d,
        )
        if not enter_record(T, A, ptr(c.words, 0), key, check, columns, int64(0)):
            return False
        R.states[READ] += 1
    return True


@kernel
def bring(T: Any, A: Any, F: Any, R: Any, words: Any, stride: Any, which: Any, counts: Any, at: Any) -> Any:
    """Enters the records of some positions; returns 1, or 0 if the caller has to see to one of them.

    Args:
      T: the table of `tables.py`.
      A: `ArenaArrays`. F: `FilterArrays`. R: `ReaderArrays` of the same state of the file.
      words: uint64, a position every `stride` words.
      which: int64, which of them; the first `counts[at]`.
    """
    Ap = pointers(A)
    Fp = filter_pointers(F)
    Tp = ptr(T, 0)
    for i in range(counts[at]):
        if not _bring_one(Tp, Ap, Fp, R, adv(ptr(words, 0), which[i] * stride)):
            return int64(0)
    return int64(1)
