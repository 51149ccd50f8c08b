"""Copies records between the arena and columns: out for a save, in from the file; lists dirty ones.

    positions -> not in memory -> room? -> `store/reading_kernel.py` -> columns -> arena

Reading evicts nothing. If eviction is due, or a kernel cannot read a record, it returns to the caller.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, prefetch, ptr, zeros
from ..jit.types import float32, int64, uint8, uint16, uint32, uint64
from ..position.board import META, BoardTable, Position
from ..position.board_kernel import PW, generate_moves, hashes_of, make_child, position_key, with_clock
from ..store import record_kernel as record
from ..store.index_kernel import FilterArrays, sort_key
from ..store.reading_kernel import BUDGET, FOUND, READ, REFUSED, ReaderArrays, read_record
from . import arena_kernel as arena
from .arena_kernel import ArenaArrays

# ------------------------------------------------------------------ out
AHEAD = 16  # records between a prefetch and the copy


@inner
def _last_visited(A: ArenaArrays, rec: int64) -> int64:
    """Returns the number of edges up to the last one with visits."""
    m = record.materialised(A, rec)
    last = int64(0)
    if m:
        stride = record.stride_at(A, rec)
        edge = record.edge_at(A, rec, int64(0))
        for j in range(m):
            if record.edge_visits(A, edge):
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
        if record.materialised(A, rec):
            prefetch(A.blocks, record.block_of(A, rec))
            prefetch(A.blocks, record.block_of(A, rec) + 15)


@kernel
def begin_save(T: NDArray[np.uint64], A: ArenaArrays, keys: NDArray[np.uint64]) -> None:
    """Changes the state of all dirty records to SAVING, and fills the sort keys of their positions."""
    s = zeros(uint64, PW)
    for i in range(keys.size):
        if i + AHEAD < keys.size:
            prefetch(A.records, arena.logged_slot(A, int64(i + AHEAD)))
        rec = arena.read_log(ptr(T, 0), A, int64(i), s)
        keys[i] = sort_key(s)
        record.clear_state(A, rec, record.DIRTY)
        record.add_state(A, rec, record.SAVING)


@kernel
def list_log(
    T: NDArray[np.uint64],
    A: ArenaArrays,
    order: NDArray[np.int64],
    slots: NDArray[np.uint32],
    words: NDArray[np.uint64],
) -> None:
    """Lists records of the log.

    Args:
      order: `[R]` int64, rows of the log.
      slots: `[R]` uint32, filled with their slots.
      words: `[10 R]` uint64, filled with positions, their clocks as at evaluation.
    """
    for i in range(order.size):
        if i + 2 * AHEAD < order.size:
            prefetch(A.log, order[i + 2 * AHEAD] * arena.LOG_WORDS)
        if i + AHEAD < order.size:
            prefetch(A.records, arena.logged_slot(A, order[i + AHEAD]))
        slots[i] = uint32(arena.read_log(ptr(T, 0), A, order[i], ptr(words, i * PW)))


@kernel
def end_save(A: ArenaArrays, saving: int64, saved: bool) -> None:
    """Removes the first `saving` rows from the log; if they were not saved, their records are dirty again."""
    kept = int64(0)
    for i in range(A.counters[arena.DIRTY_NODES]):
        rec = arena.logged_slot(A, int64(i))
        if i < saving:
            if record.state_of(A, rec) & record.SAVING:
                record.clear_state(A, rec, record.SAVING)
                if saved and record.state_of(A, rec) & record.FRESH:
                    record.clear_state(A, rec, record.FRESH)
                    A.counters[arena.FRESH_NODES] -= 1
                if saved or record.state_of(A, rec) & record.DIRTY:  # a later row has it
                    continue
                record.add_state(A, rec, record.DIRTY)
        elif kept == i:
            return
        for w in range(arena.LOG_WORDS):
            A.log[kept * arena.LOG_WORDS + w] = A.log[i * arena.LOG_WORDS + w]
        kept += 1
    A.counters[arena.DIRTY_NODES] = kept


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
        code_offsets[i + 1] = code_offsets[i] + record.move_count(A, rec)
        edge_offsets[i + 1] = edge_offsets[i] + _last_visited(A, rec)


@kernel
def copy_out(A: ArenaArrays, slots: NDArray[np.uint32], c: record.Columns) -> None:
    """Copies records into the columns of a batch, except its positions."""
    for i in range(slots.size):
        _prefetch(A, slots, i)
        rec = int64(slots[i])
        c.v[i] = record.value_of(A, rec)
        c.d[i] = uint16(record.value_draws(A, rec))
        c.flags[i] = uint8(record.flags_of(A, rec))
        c.evaluator[i] = uint8(record.evaluator_of(A, rec))
        c.run[i] = uint32(record.session_of(A, rec))
        begin = c.code_offsets[i]
        for j in range(c.code_offsets[i + 1] - begin):
            c.codes[begin + j] = uint8(record.code_at(A, rec, j))
        if c.edge_offsets[i + 1] == c.edge_offsets[i]:
            continue
        stride = record.stride_at(A, rec)
        edge = record.edge_at(A, rec, int64(0))
        for k in range(c.edge_offsets[i], c.edge_offsets[i + 1]):
            visits = record.edge_visits(A, edge)
            drawn = record.draw_visits(A, edge, stride)
            valued = visits > drawn  # a value without a counted visit is not saved
            c.n[k] = uint32(visits)
            c.r[k] = uint32(drawn)
            c.q[k] = record.edge_q(A, edge) if valued else float32(0.0)
            c.edge_d[k] = uint16(record.edge_draws(A, edge)) if valued else uint16(0)
            edge += stride


@inner
def _listed(A: ArenaArrays, hashes: tuple[uint64, uint64], slots: NDArray[np.uint32], count: int64) -> int64:
    """Lists the record of a position, unless there is none or it is listed; returns the number of slots."""
    rec = arena.find(A, hashes[0], hashes[1])
    if rec == 0 or record.state_of(A, rec) & record.SAVING:
        return count
    record.add_state(A, rec, record.SAVING)
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
        m = record.materialised(A, rec)
        for j in range(m):
            edge = record.edge_at(A, rec, int64(j))
            if record.edge_visits(A, edge):
                s, child = ptr(words, at * PW), ptr(words, count * PW)
                count = _listed(A, make_child(Tp, s, child, record.edge_move(A, edge)), slots, count)
        at += 1
    for i in range(count):
        rec = int64(slots[i])
        record.clear_state(A, rec, record.SAVING)
        words[i * PW + META] = with_clock(words[i * PW + META], record.clock_at_evaluation(A, rec))
    return count


# ------------------------------------------------------------------ in
READ_INSIDE = 64  # most missing records of a wave that one kernel reads; several threads read more
BYTES_PER_NODE = 140  # of a node read from the file: record, block, table place


@inner
def _fill_edges(
    T: BoardTable, A: ArenaArrays, s: Position, rec: int64, begin: int64, end: int64, c: record.Columns
) -> None:
    wide = False
    for k in range(begin, end):
        if c.r[k]:
            wide = True
    arena.grow_block(T, A, s, rec, end - begin, wide)
    stride = record.stride_at(A, rec)
    edge = record.edge_at(A, rec, int64(0))
    for k in range(begin, end):
        record.set_edge_visits(A, edge, c.n[k])
        record.set_edge_value(A, edge, c.q[k], c.edge_d[k])
        if stride == 4:
            record.set_draw_visits(A, edge, c.r[k])
        edge += stride
    arena.refresh(A, rec)


@inner
def has_room_for_record(A: ArenaArrays) -> bool:
    """Returns whether one more record fits into the arrays of the arena."""
    counters, threads = A.space, arena.threads_of(A)  # each may insert one
    return (
        (counters[arena.NODES] + threads) * 20 <= A.table_size * 17
        and counters[arena.RECORD_WORDS] + threads * 64 <= A.records_size
        and counters[arena.BLOCK_WORDS] + threads * 2048 <= A.blocks_size
    )


@inner
def enter_record(
    T: BoardTable, A: ArenaArrays, s: Position, key: uint64, check: uint64, c: record.Columns, i: int64
) -> bool:
    """Inserts record `i` of some columns, clean; returns False if it does not fit its position `s`."""
    count = c.code_offsets[i + 1] - c.code_offsets[i]
    if c.evaluator[i] > record.MAX_EVALUATOR or (count and generate_moves(T, s, A.moves) != count):
        return False
    rec = arena.clean_record(A, s, key, count, c.v[i], int64(c.d[i]), int64(c.flags[i]))
    target = record.code_bytes(A, rec)
    for j in range(count):
        target[j] = c.codes[c.code_offsets[i] + j]
    record.set_source(A, rec, c.evaluator[i], c.run[i])
    if count:
        arena.set_best(A, rec, A.moves)
    if c.edge_offsets[i + 1] > c.edge_offsets[i]:
        _fill_edges(T, A, s, rec, c.edge_offsets[i], c.edge_offsets[i + 1], c)
    arena.insert(A, key, check, rec)
    return True


@inner
def _has_room(A: ArenaArrays, budget: int64) -> bool:
    """Returns whether one more record fits without an eviction."""
    used = 8 * (A.table_size + A.space[arena.RECORD_WORDS]) + 4 * A.space[arena.BLOCK_WORDS]
    if not arena.has_freed(A, used + BYTES_PER_NODE - budget):
        return False
    return has_room_for_record(A)


@inner
def _bring_one(
    T: BoardTable, A: ArenaArrays, F: FilterArrays, R: ReaderArrays, s: Position, key: uint64, check: uint64
) -> bool:
    """Inserts the record of a position, if there is one; returns False if the caller must do it."""
    if arena.find(A, key, check):  # another thread has read it
        return True
    if not _has_room(A, R.states[BUDGET]):
        return False
    found = read_record(T, F, R, s, key)
    if found == REFUSED:
        return False
    if found == FOUND:
        if not enter_record(T, A, R.columns.packed, key, check, R.columns, int64(0)):
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
      A: of the calling thread. F, R: filters and reader of the same state of the file; each thread has its
        own `R`.
      words: a position every `stride` words.
      which: indices of the wanted positions; the first `counts[at]` count.
    """
    Tp = ptr(T, 0)
    for i in range(counts[at]):
        s = adv(ptr(words, 0), which[i] * stride)
        key, check = hashes_of(Tp, s)
        row = arena.row_of(A, key)
        arena.take_guard(A, row)  # no position is read twice
        done = _bring_one(Tp, A, F, R, s, key, check)
        arena.give_guard(A, row)
        if not done:
            return int64(0)
    return int64(1)


@kernel
def copy_in(T: NDArray[np.uint64], A: ArenaArrays, c: record.Columns, begin: int64) -> tuple[int64, int64]:
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
            prefetch(A.table, arena.table_index(A, position_key(Tp, adv(c.packed, (i + AHEAD) * PW))))
        s = adv(c.packed, i * PW)
        key, check = hashes_of(Tp, s)
        if not arena.find(A, key, check) and not enter_record(Tp, A, s, key, check, c, int64(i)):
            misfits += 1
    return int64(c.v_size), misfits
