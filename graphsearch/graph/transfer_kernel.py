"""Records out of the arena, as columns for the store, and back in."""

from __future__ import annotations

from typing import Any

from numpy import float32, int64, uint8, uint16, uint32

from ..jit.compiler import inner, kernel
from ..jit.pointers import LOW32, U, adv, prefetch, ptr
from ..position.board_kernel import PW, generate_moves, hashes_of, position_key, with_clock
from ..position.words import META
from ..record.node_kernel import (
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
from ..record.node_layout import DIRTY, FRESH, MAX_EVALUATOR, SAVING
from ..store.index.locate_kernel import sort_key
from . import arena_kernel as arena
from .arena_kernel import pointers
from .heap_kernel import find, grow_block, mark_dirty, new_record, set_best, table_index
from .statistics_kernel import refresh

AHEAD = 16  # records: the memory of those that follow loads while one is copied


@inner
def _last_visited(A: Any, rec: Any) -> Any:
    """Returns how many edges of a block reach to the last one with visits."""
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
def _prefetch(A: Any, slots: Any, i: Any) -> None:
    """Asks for the records of slots that come after `i`, and for the blocks of those before them."""
    if i + 2 * AHEAD < slots.size:
        prefetch(A.records, int64(slots[i + 2 * AHEAD]))
        prefetch(A.records, int64(slots[i + 2 * AHEAD]) + 7)
    if i + AHEAD < slots.size:
        rec = int64(slots[i + AHEAD])
        if materialised(A, rec):
            prefetch(A.blocks, block_of(A, rec))
            prefetch(A.blocks, block_of(A, rec) + 15)


@inner
def _unmark(A: Any, rec: Any) -> None:
    """Takes a record that was just made, and so is the last of the log, off it."""
    if state_of(A, rec) & DIRTY:
        A.counters[arena.DIRTY_NODES] -= 1
    A.counters[arena.FRESH_NODES] -= 1
    clear_state(A, rec, DIRTY | FRESH)


@inner
def _fill_edges(
    T: Any, A: Any, s: Any, rec: Any, begin: Any, end: Any, n: Any, r: Any, q: Any, edge_d: Any
) -> None:
    wide = False
    for k in range(begin, end):
        if r[k]:
            wide = True
    grow_block(T, A, s, rec, end - begin, wide)
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    for k in range(begin, end):
        set_edge_visits(A, edge, n[k])
        set_edge_value(A, edge, q[k], edge_d[k])
        if stride == 4:
            set_draw_visits(A, edge, r[k])
        edge += stride
    refresh(A, rec)


@kernel
def log_sort_keys(A: Any, keys: Any) -> None:
    """Fills the sort keys of the dirty records, in the order of their log."""
    Ap = pointers(A)
    for i in range(keys.size):
        keys[i] = sort_key(adv(Ap.log, i * arena.LOG_WORDS))


@kernel
def begin_saving(A: Any, order: Any, slots: Any, words: Any) -> Any:
    """Lists dirty records, which are being saved from now on; `empty_log` must follow the last of them.

    Args:
      order: `[R]` int64 their rows in the log.
      slots: `[R]` uint64, filled with slot | fresh << 32.
      words: `[10 R]` uint64, filled with positions, with the clock that they were evaluated with.

    Returns:
      how many are in no version in the file.
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
def empty_log(A: Any) -> None:
    """Empties the log of dirty records: all of them are being saved."""
    pointers(A).counters[arena.DIRTY_NODES] = 0


@kernel
def end_saving(A: Any, slots: Any, fresh: Any) -> None:
    """Notes that the file holds the records that `begin_saving` listed as they were then."""
    Ap = pointers(A)
    for i in range(slots.size):
        clear_state(Ap, int64(slots[i] & LOW32), SAVING)
    Ap.counters[arena.FRESH_NODES] -= fresh


@kernel
def undo_saving(A: Any, slots: Any, words: Any) -> None:
    """Makes the records that `begin_saving` listed dirty again: they did not reach the file."""
    Ap = pointers(A)
    for i in range(slots.size):
        rec = int64(slots[i] & LOW32)
        clear_state(Ap, rec, SAVING)
        if slots[i] >> U(32):
            add_state(Ap, rec, FRESH)
        mark_dirty(Ap, rec, ptr(words, i * PW))


@kernel
def measure(A: Any, slots: Any, code_offsets: Any, edge_offsets: Any) -> None:
    """Fills the offsets of the columns that `copy_out` fills."""
    Ap = pointers(A)
    code_offsets[0] = 0
    edge_offsets[0] = 0
    for i in range(slots.size):
        _prefetch(Ap, slots, i)
        rec = int64(slots[i])
        code_offsets[i + 1] = code_offsets[i] + move_count(Ap, rec)
        edge_offsets[i + 1] = edge_offsets[i] + _last_visited(Ap, rec)


@kernel
def copy_out(A: Any, slots: Any, columns: Any) -> None:
    """Copies records into the columns of a batch (a tuple in the order of `RecordBatch`, without words)."""
    v, d, evaluator, run, flags, code_offsets, codes, edge_offsets, n, r, q, edge_d = columns
    Ap = pointers(A)
    for i in range(slots.size):
        _prefetch(Ap, slots, i)
        rec = int64(slots[i])
        v[i] = value_of(Ap, rec)
        d[i] = uint16(value_draws(Ap, rec))
        flags[i] = uint8(flags_of(Ap, rec))
        evaluator[i] = uint8(evaluator_of(Ap, rec))
        run[i] = uint32(session_of(Ap, rec))
        begin = code_offsets[i]
        for j in range(code_offsets[i + 1] - begin):
            codes[begin + j] = uint8(code_at(Ap, rec, j))
        if edge_offsets[i + 1] == edge_offsets[i]:
            continue
        stride = stride_at(Ap, rec)
        edge = edge_at(Ap, rec, int64(0))
        for k in range(edge_offsets[i], edge_offsets[i + 1]):
            visits = edge_visits(Ap, edge)
            drawn = draw_visits(Ap, edge, stride)
            valued = visits > drawn  # what no counted visit supports is not kept
            n[k] = uint32(visits)
            r[k] = uint32(drawn)
            q[k] = edge_q(Ap, edge) if valued else float32(0.0)
            edge_d[k] = uint16(edge_draws(Ap, edge)) if valued else uint16(0)
            edge += stride


@inner
def has_room_for_record(A: Any) -> Any:
    """Returns whether one more record fits into the arrays of the arena."""
    counters = A.counters
    return (
        (counters[arena.NODES] + 1) * 20 <= int64(A.size) * 17
        and counters[arena.RECORD_WORDS] + 64 <= A.record_limit
        and counters[arena.BLOCK_WORDS] + 2048 <= A.block_limit
    )


@inner
def enter_record(T: Any, A: Any, s: Any, key: Any, check: Any, columns: Any, i: Any) -> Any:
    """Enters record `i` of some columns, clean; returns False if it does not fit its position `s`."""
    v, d, evaluator, run, flags, code_offsets, codes, edge_offsets, n, r, q, edge_d = columns
    count = code_offsets[i + 1] - code_offsets[i]
    if evaluator[i] > MAX_EVALUATOR or (count and generate_moves(T, s, A.moves) != count):
        return False
    rec = new_record(A, s, key, check, count, v[i], int64(d[i]), int64(flags[i]))
    _unmark(A, rec)
    target = code_bytes(A, rec)
    for j in range(count):
        target[j] = codes[code_offsets[i] + j]
    set_source(A, rec, evaluator[i], run[i])
    if count:
        set_best(A, rec, A.moves)
    if edge_offsets[i + 1] > edge_offsets[i]:
        _fill_edges(T, A, s, rec, edge_offsets[i], edge_offsets[i + 1], n, r, q, edge_d)
    return True


@kernel
def copy_in(T: Any, A: Any, words: Any, columns: Any, begin: Any) -> Any:
    """Enters records from `begin` on, clean; returns (next, misfits): it stops early when space is short.

    Records that are in the arena already are passed over; those whose P codes do not fit the legal moves, or
    whose evaluator has a number that is none, are misfits and left out.
    """
    v = columns[0]
    Ap = pointers(A)
    Tp = ptr(T, 0)
    misfits = int64(0)
    for i in range(begin, v.size):
        if not has_room_for_record(Ap):
            return int64(i), misfits
        if i + AHEAD < v.size:
            prefetch(Ap.table, table_index(Ap, position_key(Tp, ptr(words, (i + AHEAD) * PW))))
        s = ptr(words, i * PW)
        key, check = hashes_of(Tp, s)
        if not find(Ap, key, check) and not enter_record(Tp, Ap, s, key, check, columns, int64(i)):
            misfits += 1
    return int64(v.size), misfits
