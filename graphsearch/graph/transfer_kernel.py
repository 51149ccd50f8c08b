"""Records out of the arena, as columns for the store, and back in."""

from __future__ import annotations

from typing import Any

from numba import float32, int64, uint8, uint16, uint32

from ..jit.compiler import inner, kernel
from ..jit.pointers import LOW32, U, adv, ptr
from ..position.board_kernel import PW, check_hash, generate_moves, position_key
from ..record.node_kernel import (
    code_bytes,
    draw_visits,
    draw_word,
    entry_at,
    evaluator_of,
    header_bytes,
    materialised,
    move_count,
    run_of,
    set_source,
    stride_at,
    value_of,
)
from ..record.node_layout import CODE, DIRTY, FRESH, MAX_EVALUATOR, SAVING
from .arena_kernel import BLOCK_WORDS, DIRTY_NODES, FRESH_NODES, LOG_WORDS, NODES, RECORD_WORDS, pointers
from .heap_kernel import find, grow_block, mark_dirty, new_record, set_best
from .statistics_kernel import refresh

META = 8  # the word of a position that holds its clock
CLOCK_BITS = U(255 << 12)


@kernel
def begin_saving(A: Any, slots: Any, words: Any) -> Any:
    """Lists the dirty records and empties their log; they are being saved from now on.

    Args:
      slots: `[R]` uint64, filled with slot | fresh << 32.
      words: `[10 R]` uint64, filled with positions, with the clock that they were evaluated with.

    Returns:
      how many are in no version in the file.
    """
    Ap = pointers(A)
    fresh = int64(0)
    for i in range(Ap.counters[DIRTY_NODES]):
        row = adv(Ap.log, i * LOG_WORDS)
        out = ptr(words, i * PW)
        rec = int64(row[LOG_WORDS - 1])
        hb = header_bytes(Ap, rec)
        for w in range(PW):
            out[w] = row[w]
        out[META] = (row[META] & ~CLOCK_BITS) | (U(hb[4]) << U(12))
        is_fresh = int64(1) if hb[3] & FRESH else int64(0)
        slots[i] = U(rec) | (U(is_fresh) << U(32))
        fresh += is_fresh
        hb[3] = (hb[3] & uint8(255 - DIRTY - FRESH)) | uint8(SAVING)
    Ap.counters[DIRTY_NODES] = 0
    return fresh


@kernel
def end_saving(A: Any, slots: Any, fresh: Any) -> None:
    """Notes that the file holds the records that `begin_saving` listed as they were then."""
    Ap = pointers(A)
    for i in range(slots.size):
        header_bytes(Ap, int64(slots[i] & LOW32))[3] &= uint8(255 - SAVING)
    Ap.counters[FRESH_NODES] -= fresh


@kernel
def undo_saving(A: Any, slots: Any, words: Any) -> None:
    """Makes the records that `begin_saving` listed dirty again: they did not reach the file."""
    Ap = pointers(A)
    for i in range(slots.size):
        rec = int64(slots[i] & LOW32)
        hb = header_bytes(Ap, rec)
        hb[3] &= uint8(255 - SAVING)
        if slots[i] >> U(32):
            hb[3] |= uint8(FRESH)
        mark_dirty(Ap, rec, ptr(words, i * PW))


@inner
def _last_visited(A: Any, rec: Any) -> Any:
    """Returns how many entries of a block reach to the last one with visits."""
    m = materialised(A, rec)
    last = int64(0)
    if m:
        stride = stride_at(A, rec)
        x = entry_at(A, rec, int64(0))
        for j in range(m):
            if A.blocks[x]:
                last = int64(j + 1)
            x += stride
    return last


@kernel
def measure(A: Any, slots: Any, code_offsets: Any, edge_offsets: Any) -> None:
    """Fills the offsets of the columns that `copy_out` fills."""
    Ap = pointers(A)
    code_offsets[0] = 0
    edge_offsets[0] = 0
    for i in range(slots.size):
        rec = int64(slots[i])
        code_offsets[i + 1] = code_offsets[i] + move_count(Ap, rec)
        edge_offsets[i + 1] = edge_offsets[i] + _last_visited(Ap, rec)


@kernel
def copy_out(A: Any, slots: Any, columns: Any) -> None:
    """Copies records into the columns of a batch (a tuple in the order of `RecordBatch`, without words)."""
    v, d, evaluator, run, flags, code_offsets, codes, edge_offsets, n, r, q, edge_d = columns
    Ap = pointers(A)
    for i in range(slots.size):
        rec = int64(slots[i])
        word = draw_word(Ap, rec)
        v[i] = value_of(Ap, rec)
        d[i] = uint16(word & 1023)
        flags[i] = uint8(word >> 10)
        evaluator[i] = uint8(evaluator_of(Ap, rec))
        run[i] = uint32(run_of(Ap, rec))
        source = code_bytes(Ap, rec)
        begin = code_offsets[i]
        for j in range(code_offsets[i + 1] - begin):
            codes[begin + j] = uint8(source[j] & CODE)
        if edge_offsets[i + 1] == edge_offsets[i]:
            continue
        stride = stride_at(Ap, rec)
        x = entry_at(Ap, rec, int64(0))
        for k in range(edge_offsets[i], edge_offsets[i + 1]):
            visits = int64(Ap.blocks[x])
            drawn = draw_visits(Ap, x, stride)
            valued = visits > drawn  # what no counted visit supports is not kept
            n[k] = uint32(visits)
            r[k] = uint32(drawn)
            q[k] = Ap.values[x + 1] if valued else float32(0.0)
            edge_d[k] = uint16(Ap.blocks[x + 2] >> uint32(22)) if valued else uint16(0)
            x += stride


@inner
def _unmark(A: Any, rec: Any) -> None:
    """Takes a record that was just made, and so is the last of the log, off it."""
    hb = header_bytes(A, rec)
    if hb[3] & DIRTY:
        A.counters[DIRTY_NODES] -= 1
    A.counters[FRESH_NODES] -= 1
    hb[3] &= uint8(255 - DIRTY - FRESH)


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
    x = entry_at(A, rec, int64(0))
    for k in range(begin, end):
        A.blocks[x] = n[k]
        A.values[x + 1] = q[k]
        A.blocks[x + 2] |= uint32(edge_d[k]) << uint32(22)
        if stride == 4:
            A.blocks[x + 3] = r[k]
        x += stride
    refresh(A, rec)


@kernel
def copy_in(T: Any, A: Any, words: Any, columns: Any, begin: Any) -> Any:
    """Enters records from `begin` on, clean; returns (next, misfits): it stops early when space is short.

    Records that are in the arena already are passed over; those whose P codes do not fit the legal moves, or
    whose evaluator has a number that is none, are misfits and left out.
    """
    v, d, evaluator, run, flags, code_offsets, codes, edge_offsets, n, r, q, edge_d = columns
    Ap = pointers(A)
    Tp = ptr(T, 0)
    misfits = int64(0)
    for i in range(begin, v.size):
        counters = Ap.counters
        if (
            (counters[NODES] + 1) * 20 > int64(Ap.size) * 17
            or counters[RECORD_WORDS] + 64 > Ap.record_limit
            or counters[BLOCK_WORDS] + 2048 > Ap.block_limit
        ):
            return int64(i), misfits
        s = ptr(words, i * PW)
        key = position_key(Tp, s)
        check = check_hash(s)
        if find(Ap, key, check):
            continue
        count = code_offsets[i + 1] - code_offsets[i]
        if evaluator[i] > MAX_EVALUATOR or (count and generate_moves(Tp, s, Ap.moves) != count):
            misfits += 1
            continue
        rec = new_record(Ap, s, key, check, count, v[i], int64(d[i]), int64(flags[i]))
        _unmark(Ap, rec)
        target = code_bytes(Ap, rec)
        for j in range(count):
            target[j] = codes[code_offsets[i] + j]
        set_source(Ap, rec, evaluator[i], run[i])
        if count:
            set_best(Ap, rec, Ap.moves)
        if edge_offsets[i + 1] > edge_offsets[i]:
            _fill_edges(Tp, Ap, s, rec, edge_offsets[i], edge_offsets[i + 1], n, r, q, edge_d)
    return int64(v.size), misfits
