"""The graph of a file as lists, for graphs whose table does not fit in memory (`parts.py` has the picture).

entry   two words for a record or an edge: the key of the position (of an edge: of its child), then
        check hash << 32 | a number: node N of the record, or the visits that the edge's value comes from
worth   one word for a record: node Q as float32 << 32 | node code; or UNKNOWN or LOST instead of a code
table   as in `sweep_kernel.py`, for one part of the keys; its second word holds node N << 32 | the place
        of the record in its part
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import LOW32, U, adv, as_f32, as_u32, ptr
from ...jit.types import Pointer, float32, float64, int64, uint8, uint32, uint64
from ...position.board_kernel import PW, clock_of, hashes_of, make_child
from ...position.words import BoardTable
from ...store.codec.batch_kernel import Columns, Records, pointers
from ...store.record.node_kernel import lower_in, upper_in
from ..heap_kernel import ranked_move
from ..statistics_kernel import MAX_VISITS
from .sweep_kernel import (
    LOST_CHILDREN,
    MISSING_CHILDREN,
    PLACE_WORDS,
    Scratch,
    known,
    mean_of,
    place_of,
    rank_edges,
    set_known,
    table_of,
    take,
    write_back,
)

ENTRY_WORDS = 2
LOST, UNKNOWN = 0xFFFFFFFE, 0xFFFFFFFF  # in place of a code


@inner
def _enters(c: Records, e: int64) -> int64:
    """Returns the number of visits in an edge's entry, 0 if the edge is not listed."""
    return int64(c.n[e]) - int64(c.r[e])


@inner
def _list_edges(
    T: BoardTable,
    c: Records,
    i: int64,
    x: Scratch,
    edges: Pointer[uint64],
    resets: Pointer[uint8],
    at: int64,
) -> int64:
    """Lists the edges of a record from `at` on; returns the end, or -1 if its P do not fit its moves."""
    if not rank_edges(T, c, i, x):
        return int64(-1)
    s = adv(c.words, i * PW)
    begin = c.edge_offsets[i]
    for k in range(c.edge_offsets[i + 1] - begin):
        visits = _enters(c, begin + k)
        if visits == 0:
            continue
        key, check = make_child(T, s, x.child, x.moves[ranked_move(x.keys[k])])
        edges[ENTRY_WORDS * at] = key
        edges[ENTRY_WORDS * at + 1] = (check << U(32)) | U(visits)
        resets[at] = uint8(1 if clock_of(x.child) == 0 else 0)
        at += 1
    return at


@kernel
def list_graph(
    T: NDArray[np.uint64],
    columns: Columns,
    x: Scratch,
    records: NDArray[np.uint64],
    worths: NDArray[np.uint64],
    misfits: NDArray[np.uint8],
    edges: NDArray[np.uint64],
    resets: NDArray[np.uint8],
) -> int64:
    """Lists records and their edges; returns the number of edges.

    Args:
      T: the table of `position/tables.py`. columns: a batch of `columns_of`. x: of `new_scratch`.
      records: `[2 R]` uint64, filled with entries. worths: `[R]` uint64, filled with their present values.
      misfits: `[R]` uint8, 1 for a record whose P do not fit its moves: none of its edges is listed.
      edges: `[2 E]` uint64, entries. resets: `[E]` uint8, 1 where the child's clock is 0.
    """
    Tp = ptr(T, 0)
    c = pointers(columns)
    at = int64(0)
    for i in range(columns.v.size):
        begin = c.edge_offsets[i]
        q, code, visits, flags = mean_of(c, i, adv(as_f32(c.q), begin), adv(c.edge_d, begin))
        set_worth(ptr(worths, i), q, code)
        key, check = hashes_of(Tp, adv(c.words, i * PW))
        ended = c.code_offsets[i + 1] == c.code_offsets[i] or lower_in(flags) == upper_in(flags)
        visits = int64(MAX_VISITS) if ended else min(visits, int64(MAX_VISITS))
        records[ENTRY_WORDS * i] = key
        records[ENTRY_WORDS * i + 1] = (check << U(32)) | U(visits)
        misfits[i] = uint8(0)
        if begin < c.edge_offsets[i + 1]:
            end = _list_edges(Tp, c, i, x, ptr(edges, 0), ptr(resets, 0), at)
            misfits[i] = uint8(1 if end < 0 else 0)
            at = max(at, end)
    return at


@inner
def set_worth(p: Pointer[uint64], q: float32, code: int64) -> None:
    """Writes a record's value to the word at a pointer."""
    as_u32(p)[0] = uint32(code)
    as_f32(p)[1] = float32(q)


@inner
def turned_key(key: uint64) -> uint64:
    """Returns a key with its halves exchanged: keys of one part differ only in the low half."""
    return (key << U(32)) | (key >> U(32))


@inner
def entry_check(second: uint64) -> uint64:
    """Returns the check hash in the second word of an entry."""
    return second >> U(32)


@inner
def entry_visits(second: uint64) -> int64:
    """Returns the visits in the second word of an entry."""
    return int64(second & LOW32)


@kernel
def enter_part(table: NDArray[np.uint64], entries: NDArray[np.uint64], first: int64) -> None:
    """Adds records of one part to its table, which must have room; their places in the part start at `first`.

    Args:
      table: `[places * 2]` uint64. entries: `[2 K]` uint64.
    """
    t = table_of(table)
    for i in range(len(entries) // ENTRY_WORDS):
        key, second = entries[ENTRY_WORDS * i], entries[ENTRY_WORDS * i + 1]
        place, tag = place_of(t, turned_key(key), entry_check(second))
        t.words[PLACE_WORDS * place] = tag
        t.halves[4 * place + 2] = uint32(first + i)
        set_known(t, place, entry_visits(second))


@kernel
def find_children(
    table: NDArray[np.uint64], edges: NDArray[np.uint64], places: NDArray[np.uint32], count: int64
) -> None:
    """Fills the places of edges' children in their part: `count` for a lost one, `count + 1` if unknown.

    Args:
      table: of the part. edges: `[2 K]` uint64, its entries. places: `[K]` uint32.
      count: number of records of the part.
    """
    t = table_of(table)
    for i in range(len(places)):
        key, second = edges[ENTRY_WORDS * i], edges[ENTRY_WORDS * i + 1]
        place = place_of(t, turned_key(key), entry_check(second))[0]
        visits = known(t, place)
        if visits == 0:
            places[i] = uint32(count + 1)
        elif visits < entry_visits(second):
            places[i] = uint32(count)
        else:
            places[i] = t.halves[4 * place + 2]


@inner
def _take_answers(
    c: Records,
    i: int64,
    answers: Pointer[uint64],
    resets: Pointer[uint8],
    at: int64,
    x: Scratch,
    tolerance: float64,
    counts: Pointer[int64],
) -> int64:
    """Fills the values of a record's edges in the scratch; returns the end of its answers."""
    begin = c.edge_offsets[i]
    for k in range(c.edge_offsets[i + 1] - begin):
        e = begin + k
        x.q[k] = as_f32(c.q)[e]
        x.draws[k] = c.edge_d[e]
        if _enters(c, e) == 0:
            continue
        code = int64(as_u32(adv(answers, at))[0])
        if code == UNKNOWN:
            counts[MISSING_CHILDREN] += 1
        elif code == LOST:
            counts[LOST_CHILDREN] += 1
        else:
            take(as_f32(adv(answers, at))[1], code, x, k, resets[at] != 0, tolerance, counts)
        at += 1
    return at


@kernel
def sweep_answers(
    columns: Columns,
    misfits: NDArray[np.uint8],
    answers: NDArray[np.uint64],
    resets: NDArray[np.uint8],
    worths: NDArray[np.uint64],
    x: Scratch,
    tolerance: float64,
    counts: NDArray[np.int64],
) -> float64:
    """Recomputes records from the values of their children; returns the largest change of a Q.

    Args:
      columns, misfits, resets, x: as for `list_graph`.
      answers: `[E]` uint64, the worths of the children. worths: `[R]` uint64, of the records; overwritten.
      tolerance, counts: as for `sweep`.
    """
    c = pointers(columns)
    largest = 0.0
    at = int64(0)
    for i in range(columns.v.size):
        if misfits[i] or c.edge_offsets[i] == c.edge_offsets[i + 1]:
            continue
        at = _take_answers(c, i, ptr(answers, 0), ptr(resets, 0), at, x, tolerance, ptr(counts, 0))
        q, code, _, _ = mean_of(c, i, x.q, x.draws)
        largest = max(largest, abs(float64(q) - float64(as_f32(ptr(worths, i))[1])))
        set_worth(ptr(worths, i), q, code)
    return largest


@kernel
def freshen_answers(
    columns: Columns,
    misfits: NDArray[np.uint8],
    answers: NDArray[np.uint64],
    resets: NDArray[np.uint8],
    x: Scratch,
    counts: NDArray[np.int64],
) -> None:
    """Writes the children's values to the edges, in place, and counts the changes.

    Args: as for `sweep_answers`; `q`, `edge_d` and `flags` of the columns are written.
    """
    c = pointers(columns)
    at = int64(0)
    for i in range(columns.v.size):
        if misfits[i] or c.edge_offsets[i] == c.edge_offsets[i + 1]:
            continue
        at = _take_answers(c, i, ptr(answers, 0), ptr(resets, 0), at, x, 0.0, ptr(counts, 0))
        write_back(c, i, x, ptr(counts, 0))
