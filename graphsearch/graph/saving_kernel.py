"""Copies records from the arena to the columns of the store, and lists dirty ones and those to rescue."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import LOW32, U, adv, prefetch, ptr
from ..jit.types import float32, int64, uint8, uint16, uint32, uint64
from ..position.board_kernel import PW, hashes_of, make_child, with_clock
from ..position.words import META
from ..store.index_kernel import sort_key
from ..store.record_kernel import (
    DIRTY,
    FRESH,
    SAVING,
    Columns,
    add_state,
    block_of,
    clear_state,
    clock_at_evaluation,
    code_at,
    draw_visits,
    edge_at,
    edge_draws,
    edge_move,
    edge_q,
    edge_visits,
    evaluator_of,
    flags_of,
    materialised,
    move_count,
    session_of,
    state_of,
    stride_at,
    value_draws,
    value_of,
)
from . import arena_kernel as arena
from .arena_kernel import (
    ArenaArrays,
    find,
    mark_dirty,
)

AHEAD = 16  # records between a prefetch and the copy


@inner
def _last_visited(A: ArenaArrays, rec: int64) -> int64:
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
def _prefetch(A: ArenaArrays, slots: NDArray[np.uint32], i: int64) -> None:
    """Prefetches the record 2 * AHEAD slots after `i`, and the block AHEAD slots after it."""
    if i + 2 * AHEAD < slots.size:
        prefetch(A.records, int64(slots[i + 2 * AHEAD]))
        prefetch(A.records, int64(slots[i + 2 * AHEAD]) + 7)
    if i + AHEAD < slots.size:
        rec = int64(slots[i + AHEAD])
        if materialised(A, rec):
            prefetch(A.blocks, block_of(A, rec))
            prefetch(A.blocks, block_of(A, rec) + 15)


@kernel
def log_sort_keys(A: ArenaArrays, keys: NDArray[np.uint64]) -> None:
    """Fills the sort keys of the dirty records, in the order of the log."""
    for i in range(keys.size):
        keys[i] = sort_key(adv(A.log, i * arena.LOG_WORDS))


@kernel
def list_dirty(
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
    fresh = int64(0)
    for i in range(order.size):
        if i + 2 * AHEAD < order.size:
            later = order[i + 2 * AHEAD] * arena.LOG_WORDS
            prefetch(A.log, later)
            prefetch(A.log, later + arena.LOG_SLOT)
        if i + AHEAD < order.size:
            prefetch(A.records, int64(A.log[order[i + AHEAD] * arena.LOG_WORDS + arena.LOG_SLOT]))
        row = adv(A.log, order[i] * arena.LOG_WORDS)
        out = ptr(words, i * PW)
        rec = int64(row[arena.LOG_SLOT])
        for w in range(PW):
            out[w] = row[w]
        out[META] = with_clock(row[META], clock_at_evaluation(A, rec))
        is_fresh = int64(1) if state_of(A, rec) & FRESH else int64(0)
        slots[i] = U(rec) | (U(is_fresh) << U(32))
        fresh += is_fresh
        clear_state(A, rec, DIRTY | FRESH)
        add_state(A, rec, SAVING)
    return fresh


@kernel
def empty_log(A: ArenaArrays) -> None:
    """Empties the log of dirty records, after all of them were listed for saving."""
    A.counters[arena.DIRTY_NODES] = 0


@kernel
def note_saved(A: ArenaArrays, slots: NDArray[np.uint64], fresh: int64) -> None:
    """Clears the state SAVING of the records that `list_dirty` listed, after they were saved."""
    for i in range(slots.size):
        clear_state(A, int64(slots[i] & LOW32), SAVING)
    A.counters[arena.FRESH_NODES] -= fresh


@kernel
def mark_again(A: ArenaArrays, slots: NDArray[np.uint64], words: NDArray[np.uint64]) -> None:
    """Marks the records that `list_dirty` listed as dirty again, after a failed save."""
    for i in range(slots.size):
        rec = int64(slots[i] & LOW32)
        clear_state(A, rec, SAVING)
        if slots[i] & ~LOW32:  # fresh
            add_state(A, rec, FRESH)
        mark_dirty(A, rec, ptr(words, i * PW))


@kernel
def measure(
    A: ArenaArrays,
    slots: NDArray[np.uint32],
    code_offsets: NDArray[np.int64],
    edge_offsets: NDArray[np.int64],
) -> None:
    """Fills the offsets that `copy_out` needs."""
    code_offsets[0] = 0
    edge_offsets[0] = 0
    for i in range(slots.size):
        _prefetch(A, slots, i)
        rec = int64(slots[i])
        code_offsets[i + 1] = code_offsets[i] + move_count(A, rec)
        edge_offsets[i + 1] = edge_offsets[i] + _last_visited(A, rec)


@kernel
def copy_out(A: ArenaArrays, slots: NDArray[np.uint32], c: Columns) -> None:
    """Copies records into the columns of a batch, except its positions."""
    for i in range(slots.size):
        _prefetch(A, slots, i)
        rec = int64(slots[i])
        c.v[i] = value_of(A, rec)
        c.d[i] = uint16(value_draws(A, rec))
        c.flags[i] = uint8(flags_of(A, rec))
        c.evaluator[i] = uint8(evaluator_of(A, rec))
        c.run[i] = uint32(session_of(A, rec))
        begin = c.code_offsets[i]
        for j in range(c.code_offsets[i + 1] - begin):
            c.codes[begin + j] = uint8(code_at(A, rec, j))
        if c.edge_offsets[i + 1] == c.edge_offsets[i]:
            continue
        stride = stride_at(A, rec)
        edge = edge_at(A, rec, int64(0))
        for k in range(c.edge_offsets[i], c.edge_offsets[i + 1]):
            visits = edge_visits(A, edge)
            drawn = draw_visits(A, edge, stride)
            valued = visits > drawn  # a value without a counted visit is not saved
            c.n[k] = uint32(visits)
            c.r[k] = uint32(drawn)
            c.q[k] = edge_q(A, edge) if valued else float32(0.0)
            c.edge_d[k] = uint16(edge_draws(A, edge)) if valued else uint16(0)
            edge += stride


@inner
def _listed(A: ArenaArrays, hashes: tuple[uint64, uint64], slots: NDArray[np.uint32], count: int64) -> int64:
    """Lists the record of a position, unless there is none or it is listed; returns the number of slots."""
    rec = find(A, hashes[0], hashes[1])
    if rec == 0 or state_of(A, rec) & SAVING:
        return count
    add_state(A, rec, SAVING)
    slots[count] = uint32(rec)
    return count + 1


@kernel
def list_reached(
    T: NDArray[np.uint64],
    A: ArenaArrays,
    seeds: NDArray[np.uint64],
    slots: NDArray[np.uint32],
    words: NDArray[np.uint64],
) -> int64:
    """Lists the records that moves with visits reach from some positions; no save may be under way.

    Args:
      seeds: `[10 S]`, the positions.
      slots: `[R]`, room for the slots of all records.
      words: `[10 (R + 1)]`, filled with positions, their clocks as at evaluation.

    Returns:
      the number of records listed.
    """
    Tp = ptr(T, 0)
    count = int64(0)
    for i in range(seeds.size // PW):
        for w in range(PW):
            words[count * PW + w] = seeds[i * PW + w]
        count = _listed(A, hashes_of(Tp, ptr(words, count * PW)), slots, count)
    at = int64(0)
    while at < count:
        rec = int64(slots[at])
        m = materialised(A, rec)
        for j in range(m):
            edge = edge_at(A, rec, int64(j))
            if edge_visits(A, edge):
                s, child = ptr(words, at * PW), ptr(words, count * PW)
                count = _listed(A, make_child(Tp, s, child, edge_move(A, edge)), slots, count)
        at += 1
    for i in range(count):
        rec = int64(slots[i])
        clear_state(A, rec, SAVING)
        words[i * PW + META] = with_clock(words[i * PW + META], clock_at_evaluation(A, rec))
    return count
