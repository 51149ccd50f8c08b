"""Reads records into the arena: those that a wave needs, from the file and without Python, or whole columns.

    positions -> not in memory -> room? -> `store/reading_kernel.py` -> columns -> arena

It evicts nothing. If eviction is due, or a kernel cannot read a record, it returns to the caller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, prefetch, ptr
from ..jit.types import int64, uint64
from ..position.board_kernel import PW, generate_moves, hashes_of, position_key
from ..position.words import BoardTable, Position
from ..store.index_kernel import FilterArrays
from ..store.reading_kernel import BUDGET, FOUND, READ, REFUSED, ReaderArrays, read_record
from ..store.record_kernel import (
    MAX_EVALUATOR,
    Columns,
    code_bytes,
    edge_at,
    set_draw_visits,
    set_edge_value,
    set_edge_visits,
    set_source,
    stride_at,
)
from . import arena_kernel as arena
from .arena_kernel import (
    ArenaArrays,
    clean_record,
    find,
    grow_block,
    has_freed,
    insert,
    refresh,
    set_best,
    table_index,
)

AHEAD = 16  # records between a prefetch and the copy
BYTES_PER_NODE = 140  # of a node read from the file: record, block, table place


@inner
def _fill_edges(
    T: BoardTable, A: ArenaArrays, s: Position, rec: int64, begin: int64, end: int64, c: Columns
) -> None:
    wide = False
    for k in range(begin, end):
        if c.r[k]:
            wide = True
    grow_block(T, A, s, rec, end - begin, wide)
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    for k in range(begin, end):
        set_edge_visits(A, edge, c.n[k])
        set_edge_value(A, edge, c.q[k], c.edge_d[k])
        if stride == 4:
            set_draw_visits(A, edge, c.r[k])
        edge += stride
    refresh(A, rec)


@inner
def has_room_for_record(A: ArenaArrays) -> bool:
    """Returns whether one more record fits into the arrays of the arena."""
    counters = A.space
    return (
        (counters[arena.NODES] + 1) * 20 <= A.table_size * 17
        and counters[arena.RECORD_WORDS] + 64 <= A.records_size
        and counters[arena.BLOCK_WORDS] + 2048 <= A.blocks_size
    )


@inner
def enter_record(
    T: BoardTable, A: ArenaArrays, s: Position, key: uint64, check: uint64, c: Columns, i: int64
) -> bool:
    """Inserts record `i` of some columns, clean; returns False if it does not fit its position `s`."""
    count = c.code_offsets[i + 1] - c.code_offsets[i]
    if c.evaluator[i] > MAX_EVALUATOR or (count and generate_moves(T, s, A.moves) != count):
        return False
    rec = clean_record(A, s, key, count, c.v[i], int64(c.d[i]), int64(c.flags[i]))
    target = code_bytes(A, rec)
    for j in range(count):
        target[j] = c.codes[c.code_offsets[i] + j]
    set_source(A, rec, c.evaluator[i], c.run[i])
    if count:
        set_best(A, rec, A.moves)
    if c.edge_offsets[i + 1] > c.edge_offsets[i]:
        _fill_edges(T, A, s, rec, c.edge_offsets[i], c.edge_offsets[i + 1], c)
    insert(A, key, check, rec)
    return True


@inner
def _has_room(A: ArenaArrays, budget: int64) -> bool:
    """Returns whether one more record fits without an eviction."""
    used = 8 * (A.table_size + A.space[arena.RECORD_WORDS]) + 4 * A.space[arena.BLOCK_WORDS]
    if not has_freed(A, used + BYTES_PER_NODE - budget):
        return False
    return has_room_for_record(A)


@inner
def _bring_one(T: BoardTable, A: ArenaArrays, F: FilterArrays, R: ReaderArrays, s: Position) -> bool:
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
        if not enter_record(T, A, R.columns.words, key, check, R.columns, int64(0)):
            return False
        R.states[READ] += 1
    return True


@kernel
def bring(
    T: NDArray[np.uint64],
    A: ArenaArrays,
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
      A: of the calling thread; only one thread may read at a time.
      F, R: filters and reader of the same state of the file.
      words: a position every `stride` words.
      which: indices of the wanted positions; the first `counts[at]` count.
    """
    Tp = ptr(T, 0)
    for i in range(counts[at]):
        if not _bring_one(Tp, A, F, R, adv(ptr(words, 0), which[i] * stride)):
            return int64(0)
    return int64(1)


@kernel
def copy_in(T: NDArray[np.uint64], A: ArenaArrays, c: Columns, begin: int64) -> tuple[int64, int64]:
    """Inserts records from `begin` on, clean; returns (next, misfits); stops early when space is short.

    It skips records that are in the arena already, and misfits: records with an invalid evaluator number, or
    with a number of P codes other than that of the legal moves.
    """
    Tp = ptr(T, 0)
    misfits = int64(0)
    for i in range(begin, c.v_size):
        if not has_room_for_record(A):
            return int64(i), misfits
        if i + AHEAD < c.v_size:
            prefetch(A.table, table_index(A, position_key(Tp, adv(c.words, (i + AHEAD) * PW))))
        s = adv(c.words, i * PW)
        key, check = hashes_of(Tp, s)
        if not find(A, key, check) and not enter_record(Tp, A, s, key, check, c, int64(i)):
            misfits += 1
    return int64(c.v_size), misfits
