"""Copies records between the arena and the columns of the store."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import LOW32, U, adv, prefetch, ptr
from ..jit.types import float32, int64, uint8, uint16, uint32, uint64
from ..position.board_kernel import PW, generate_moves, hashes_of, position_key, with_clock
from ..position.words import META, BoardTable, Position
from ..store.codec.batch_kernel import Columns
from ..store.index.locate_kernel import sort_key
from ..store.record.node_kernel import (
    add_state,
    block_of,
    clear_state,
    clock_at_evaluation,
    code_at,
    code_bytes,
    draw_visits,
    edge_at,
    edge_draws,
    edge_q,
    edge_visits,
    evaluator_of,
    flags_of,
    materialised,
    move_count,
    session_of,
    set_draw_visits,
    set_edge_value,
    set_edge_visits,
    set_source,
    state_of,
    stride_at,
    value_draws,
    value_of,
)
from ..store.record.node_layout import DIRTY, FRESH, MAX_EVALUATOR, SAVING
from . import arena_kernel as arena
from .arena_kernel import ArenaArrays, ArenaPointers, pointers
from .heap_kernel import clean_record, find, grow_block, insert, mark_dirty, set_best, table_index
from .statistics_kernel import refresh

AHEAD = 16  # records between a prefetch and the copy


@inner
def _last_visited(A: ArenaPointers, rec: int64) -> int64:
    """Returns the number of edges up to the last one with visits."""
    m = materialised(A, rec)
    last = int64(0)
    if m:
        stride = stride_at(A, rec)
        edge = edge_at(A, rec, int64(0))
        for j in range(m):
            if edge_visits(A, edge):
                last = int64(j + 1)
            edge += stride
    return last


@inner
def _prefetch(A: ArenaPointers, slots: NDArray[np.uint32], i: int64) -> None:
    """Prefetches the record 2 * AHEAD slots after `i`, and the block AHEAD slots after it."""
    if i + 2 * AHEAD < slots.size:
        prefetch(A.records, int64(slots[i + 2 * AHEAD]))
        prefetch(A.records, int64(slots[i + 2 * AHEAD]) + 7)
    if i + AHEAD < slots.size:
        rec = int64(slots[i + AHEAD])
        if materialised(A, rec):
            prefetch(A.blocks, block_of(A, rec))
            prefetch(A.blocks, block_of(A, rec) + 15)


@inner
def _fill_edges(
    T: BoardTable, A: ArenaPointers, s: Position, rec: int64, begin: int64, end: int64, c: Columns
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


@kernel
def log_sort_keys(A: ArenaArrays, keys: NDArray[np.uint64]) -> None:
    """Fills the sort keys of the dirty records, in the order of the log."""
    Ap = pointers(A)
    for i in range(keys.size):
        keys[i] = sort_key(adv(Ap.log, i * arena.LOG_WORDS))


@kernel
def begin_saving(
    A: ArenaArrays, order: NDArray[np.int64], slots: NDArray[np.uint64], words: NDArray[np.uint64]
) -> int64:
    """Lists dirty records and changes their state to SAVING; `empty_log` must follow the last call.

    Args:
      order: `[R]` int64, rows of the log.
      slots: `[R]` uint64, filled with slot | fresh << 32.
      words: `[10 R]` uint64, filled with positions, their clocks as at evaluation.

    Returns:
      the number of records of which the file has no version.
    """
    Ap = pointers(A)
    fresh = int64(0)
    for i in range(order.size):
        if i + 2 * AHEAD < order.size:
            later = order[i + 2 * AHEAD] * arena.LOG_WORDS
            prefetch(Ap.log, later)
            prefetch(Ap.log, later + arena.LOG_SLOT)
        if i + AHEAD < order.size:
            prefetch(Ap.records, int64(Ap.log[order[i + AHEAD] * arena.LOG_WORDS + arena.LOG_SLOT]))
        row = adv(Ap.log, order[i] * arena.LOG_WORDS)
        out = ptr(words, i * PW)
        rec = int64(row[arena.LOG_SLOT])
        for w in range(PW):
            out[w] = row[w]
        out[META] = with_clock(row[META], clock_at_evaluation(Ap, rec))
        is_fresh = int64(1) if state_of(Ap, rec) & FRESH else int64(0)
        slots[i] = U(rec) | (U(is_fresh) << U(32))
        fresh += is_fresh
        clear_state(Ap, rec, DIRTY | FRESH)
        add_state(Ap, rec, SAVING)
    return fresh


@kernel
def empty_log(A: ArenaArrays) -> None:
    """Empties the log of dirty records, after all of them were listed for saving."""
    pointers(A).counters[arena.DIRTY_NODES] = 0


@kernel
def end_saving(A: ArenaArrays, slots: NDArray[np.uint64], fresh: int64) -> None:
    """Clears the state SAVING of the records that `begin_saving` listed, after they were saved."""
    Ap = pointers(A)
    for i in range(slots.size):
        clear_state(Ap, int64(slots[i] & LOW32), SAVING)
    Ap.counters[arena.FRESH_NODES] -= fresh


@kernel
def undo_saving(A: ArenaArrays, slots: NDArray[np.uint64], words: NDArray[np.uint64]) -> None:
    """Marks the records that `begin_saving` listed as dirty again, after a failed save."""
    Ap = pointers(A)
    for i in range(slots.size):
        rec = int64(slots[i] & LOW32)
        clear_state(Ap, rec, SAVING)
        if slots[i] & ~LOW32:  # fresh
            add_state(Ap, rec, FRESH)
        mark_dirty(Ap, rec, ptr(words, i * PW))


@kernel
def measure(
    A: ArenaArrays,
    slots: NDArray[np.uint32],
    code_offsets: NDArray[np.int64],
    edge_offsets: NDArray[np.int64],
) -> None:
    """Fills the offsets that `copy_out` needs."""
    Ap = pointers(A)
    code_offsets[0] = 0
    edge_offsets[0] = 0
    for i in range(slots.size):
        _prefetch(Ap, slots, i)
        rec = int64(slots[i])
        code_offsets[i + 1] = code_offsets[i] + move_count(Ap, rec)
        edge_offsets[i + 1] = edge_offsets[i] + _last_visited(Ap, rec)


@kernel
def copy_out(A: ArenaArrays, slots: NDArray[np.uint32], c: Columns) -> None:
    """Copies records into the columns of a batch, except its positions."""
    Ap = pointers(A)
    for i in range(slots.size):
        _prefetch(Ap, slots, i)
        rec = int64(slots[i])
        c.v[i] = value_of(Ap, rec)
        c.d[i] = uint16(value_draws(Ap, rec))
        c.flags[i] = uint8(flags_of(Ap, rec))
        c.evaluator[i] = uint8(evaluator_of(Ap, rec))
        c.run[i] = uint32(session_of(Ap, rec))
        begin = c.code_offsets[i]
        for j in range(c.code_offsets[i + 1] - begin):
            c.codes[begin + j] = uint8(code_at(Ap, rec, j))
        if c.edge_offsets[i + 1] == c.edge_offsets[i]:
            continue
        stride = stride_at(Ap, rec)
        edge = edge_at(Ap, rec, int64(0))
        for k in range(c.edge_offsets[i], c.edge_offsets[i + 1]):
            visits = edge_visits(Ap, edge)
            drawn = draw_visits(Ap, edge, stride)
            valued = visits > drawn  # a value without a counted visit is not saved
            c.n[k] = uint32(visits)
            c.r[k] = uint32(drawn)
            c.q[k] = edge_q(Ap, edge) if valued else float32(0.0)
            c.edge_d[k] = uint16(edge_draws(Ap, edge)) if valued else uint16(0)
            edge += stride


@inner
def has_room_for_record(A: ArenaPointers) -> bool:
    """Returns whether one more record fits into the arrays of the arena."""
    counters = A.space
    return (
        (counters[arena.NODES] + 1) * 20 <= int64(A.size) * 17
        and counters[arena.RECORD_WORDS] + 64 <= A.record_limit
        and counters[arena.BLOCK_WORDS] + 2048 <= A.block_limit
    )


@inner
def enter_record(
    T: BoardTable, A: ArenaPointers, s: Position, key: uint64, check: uint64, c: Columns, i: int64
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


@kernel
def copy_in(T: NDArray[np.uint64], A: ArenaArrays, c: Columns, begin: int64) -> tuple[int64, int64]:
    """Inserts records from `begin` on, clean; returns (next, misfits); stops early when space is short.

    It skips records that are in the arena already, and misfits: records with an invalid evaluator number, or
    with a number of P codes other than that of the legal moves.
    """
    Ap = pointers(A)
    Tp = ptr(T, 0)
    misfits = int64(0)
    for i in range(begin, c.v.size):
        if not has_room_for_record(Ap):
            return int64(i), misfits
        if i + AHEAD < c.v.size:
            prefetch(Ap.table, table_index(Ap, position_key(Tp, ptr(c.words, (i + AHEAD) * PW))))
        s = ptr(c.words, i * PW)
        key, check = hashes_of(Tp, s)
        if not find(Ap, key, check) and not enter_record(Tp, Ap, s, key, check, c, int64(i)):
            misfits += 1
    return int64(c.v.size), misfits
