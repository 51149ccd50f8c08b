"""Sweeps of stale q over records in any order, with a table of every node's value.

The table has two words per place, 16 bytes; open addressing starts at `key * places >> 64`:

    word 0   check hash << 32 | lowest 22 bits of the key << 10 | node code of
             `store/record/bounds_kernel.py`: draw share per mille, or the proof
    word 1   node N << 32 | node Q, float32; N is 0 in an empty place, the largest for a terminal,
             which supports every visit

The place gives the highest bits of the key, so some 75 bits of both hashes distinguish positions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import by_address, inner, kernel
from ...jit.pointers import U, adv, as_f32, as_u32, mulhi, ptr
from ...jit.types import Pointer, float32, float64, int64, uint8, uint16, uint32, uint64
from ...position.board_kernel import PW, clock_of, generate_moves, hashes_of, make_child
from ...position.legality_kernel import ROOM
from ...position.words import BoardTable, Position
from ...store.codec.batch_kernel import Columns, Records, pointers
from ...store.record.bounds_kernel import (
    DRAWN,
    bounds_of,
    decisive_code,
    is_decisive,
    is_special,
    mate_kept,
    merged,
    no_tally,
    open_code,
    tallied,
    tightened,
    turned,
)
from ...store.record.node_kernel import lower_in, upper_in
from ..arena_kernel import MAX_VISITS, mean, rank_codes, ranked_move, weighed

PLACE_WORDS = 2
CODE_BITS = U(1023)  # of the first word
KEY_BITS = U((1 << 22) - 1)

# `counts`: edges that differ from their child by more than the tolerance | edges whose child has fewer visits
# than they count | edges whose child is missing | changed edges | changed records
STALE_EDGES, LOST_CHILDREN, MISSING_CHILDREN, CHANGED_EDGES, CHANGED_RECORDS = range(5)
COUNTS = 5


@by_address
class Scratch(NamedTuple):
    """Scratch memory for one record."""

    moves: Pointer[uint16]  # [ROOM]
    keys: Pointer[int64]  # [256]
    child: Position  # [PW]
    q: Pointer[float32]  # [256] new values of the edges, from their children
    draws: Pointer[uint16]  # [256] new draw fields of the edges


def new_scratch() -> Scratch:
    """Returns the work arrays of `sweep` and `freshen`."""
    moves, keys, child = np.zeros(ROOM, np.uint16), np.zeros(256, np.int64), np.zeros(PW, np.uint64)
    q, draws = np.zeros(256, np.float32), np.zeros(256, np.uint16)
    return Scratch(ptr(moves, 0), ptr(keys, 0), ptr(child, 0), ptr(q, 0), ptr(draws, 0))


class _Table(NamedTuple):
    """Pointers to a table: its words, and the same memory as halves and as floats."""

    words: Pointer[uint64]  # [places * PLACE_WORDS]
    halves: Pointer[uint32]  # the same memory
    values: Pointer[float32]  # the same memory
    size: uint64  # places


@inner
def table_of(table: NDArray[np.uint64]) -> _Table:
    """Returns pointers to a table, which the caller keeps alive."""
    words = ptr(table, 0)
    return _Table(words, as_u32(words), as_f32(words), U(table.size // PLACE_WORDS))


@inner
def known(t: _Table, place: int64) -> int64:
    """Returns the node N at a place, 0 if it is empty."""
    return int64(t.halves[4 * place + 3])


@inner
def place_of(t: _Table, key: uint64, check: uint64) -> tuple[int64, uint64]:
    """Returns the place of a position, or the empty one where it belongs, and its tag."""
    tag = (check << U(32)) | ((key & KEY_BITS) << U(10))
    i = int64(mulhi(key, t.size))
    while known(t, i) and (t.words[PLACE_WORDS * i] & ~CODE_BITS) != tag:
        i += 1
        if i == int64(t.size):
            i = int64(0)
    return i, tag


@inner
def code_at(t: _Table, place: int64) -> int64:
    """Returns the node code at a place."""
    return int64(t.words[PLACE_WORDS * place] & CODE_BITS)


@inner
def q_at(t: _Table, place: int64) -> float32:
    """Returns the node Q at a place, float32."""
    return t.values[4 * place + 2]


@inner
def place_of_record(T: BoardTable, t: _Table, c: Records, i: int64) -> tuple[int64, uint64]:
    """Returns the place and the tag of record `i` of a batch."""
    key, check = hashes_of(T, adv(c.words, i * PW))
    return place_of(t, key, check)


@inner
def set_known(t: _Table, place: int64, visits: int64) -> None:
    """Sets the node N at a place."""
    t.halves[4 * place + 3] = uint32(visits)


@inner
def _set_worth(t: _Table, place: int64, tag: uint64, q: float32, code: int64) -> None:
    t.words[PLACE_WORDS * place] = tag | U(code)
    t.values[4 * place + 2] = q


@inner
def mean_of(
    c: Records, i: int64, q: Pointer[float32], edge_draws: Pointer[uint16]
) -> tuple[float32, int64, int64, int64]:
    """Returns Q, code, N and flags of record `i` with these values of its edges.

    `graph/arena_kernel.py` does the same in memory. The code is that of `node_code` in
    `store/record/bounds_kernel.py`: the draw share while nothing is proven.
    """
    begin = c.edge_offsets[i]
    edges = c.edge_offsets[i + 1] - begin
    moves = c.code_offsets[i + 1] - c.code_offsets[i]
    visits = int64(0)
    draws = int64(c.d[i])
    total = float64(as_f32(c.v)[i])
    tally = no_tally()
    for k in range(edges):
        n, r = int64(c.n[begin + k]), int64(c.r[begin + k])
        value, drawn = weighed(n, r, q[k], int64(edge_draws[k]))
        tally = tallied(tally, n - r, q[k], int64(edge_draws[k]))
        visits += n
        total += value
        draws += drawn
    flags = int64(c.flags[i])
    if edges:
        flags = tightened(flags, tally, edges == moves)
    q_now, share = mean(flags, total, draws, visits + 1)
    if edges == 0:  # as evaluated, within the proven bounds
        low, high = float32(lower_in(flags)), float32(upper_in(flags))
        q_now, share = min(max(as_f32(c.v)[i], low), high), int64(c.d[i])
    if not is_decisive(flags):
        return q_now, open_code(flags, share), visits + 1, flags
    if moves == 0:
        return q_now, int64(1), visits + 1, flags
    clock = clock_of(adv(c.words, i * PW))
    kept = mate_kept(as_f32(c.v)[i], int64(c.d[i]))
    code = decisive_code(lower_in(flags) == 1, tally, edges == moves, clock, kept)
    return q_now, code, visits + 1, flags


@inner
def take(
    child_q: float32,
    child_code: int64,
    x: Scratch,
    k: int64,
    resets: bool,
    tolerance: float64,
    counts: Pointer[int64],
) -> None:
    """Writes the value of edge `k`'s child to the scratch; the proof of the edge stays."""
    old = int64(x.draws[k])
    q = float32(0.0) - child_q
    code = turned(q, child_code, resets)
    proves = is_special(q, code)
    if is_special(x.q[k], old):
        if old <= DRAWN and not (proves and code <= DRAWN):
            return
        code = merged(q, old, code)
        low, high = bounds_of(q, code)
        q = min(max(q, float32(low)), float32(high))
        proves = code <= DRAWN and code != old
    if proves or abs(float64(q) - float64(x.q[k])) > tolerance:
        counts[STALE_EDGES] += 1
    x.q[k] = q
    x.draws[k] = uint16(code)


@inner
def rank_edges(T: BoardTable, c: Records, i: int64, x: Scratch) -> bool:
    """Fills a record's moves and the rank keys of its edges; returns False if its P do not fit its moves."""
    first = c.code_offsets[i]
    moves = c.code_offsets[i + 1] - first
    if generate_moves(T, adv(c.words, i * PW), x.moves) != moves:
        return False
    rank_codes(adv(c.codes, first), moves, c.edge_offsets[i + 1] - c.edge_offsets[i], x.keys)
    return True


@inner
def _take_from_children(
    T: BoardTable,
    t: _Table,
    c: Records,
    i: int64,
    x: Scratch,
    tolerance: float64,
    counts: Pointer[int64],
) -> bool:
    """Fills the values of a record's edges in the scratch; returns False if its P do not fit its moves.

    An edge whose child is unknown, or was lost and has not caught up, keeps its values.
    """
    if not rank_edges(T, c, i, x):
        return False
    s = adv(c.words, i * PW)
    begin = c.edge_offsets[i]
    for k in range(c.edge_offsets[i + 1] - begin):
        e = begin + k
        x.q[k] = as_f32(c.q)[e]
        x.draws[k] = c.edge_d[e]
        valued = int64(c.n[e]) - int64(c.r[e])
        if valued == 0:
            continue
        key, check = make_child(T, s, x.child, x.moves[ranked_move(x.keys[k])])
        place = place_of(t, key, check)[0]
        if known(t, place) == 0:
            counts[MISSING_CHILDREN] += 1
        elif known(t, place) < valued:
            counts[LOST_CHILDREN] += 1
        else:
            resets = clock_of(x.child) == 0
            take(q_at(t, place), code_at(t, place), x, k, resets, tolerance, counts)
    return True


@inner
def write_back(c: Records, i: int64, x: Scratch, counts: Pointer[int64]) -> None:
    """Writes the scratch's values to the edges and bounds of a record; counts the changes."""
    begin = c.edge_offsets[i]
    before = counts[CHANGED_EDGES]
    for k in range(c.edge_offsets[i + 1] - begin):
        e = begin + k
        if as_f32(c.q)[e] != x.q[k] or c.edge_d[e] != x.draws[k]:
            as_f32(c.q)[e] = x.q[k]
            c.edge_d[e] = x.draws[k]
            counts[CHANGED_EDGES] += 1
    flags = mean_of(c, i, x.q, x.draws)[3]
    if counts[CHANGED_EDGES] > before or flags != int64(c.flags[i]):
        c.flags[i] = uint8(flags)
        counts[CHANGED_RECORDS] += 1


@kernel
def enter(T: NDArray[np.uint64], table: NDArray[np.uint64], columns: Columns) -> None:
    """Adds records with their present values; the table must have room.

    Args:
      T: the table of `position/tables.py`. table: `[places * 2]` uint64. columns: a batch of `columns_of`.
    """
    Tp = ptr(T, 0)
    t = table_of(table)
    c = pointers(columns)
    for i in range(columns.v.size):
        begin = c.edge_offsets[i]
        q, code, visits, flags = mean_of(c, i, adv(as_f32(c.q), begin), adv(c.edge_d, begin))
        place, tag = place_of_record(Tp, t, c, i)
        _set_worth(t, place, tag, q, code)
        ended = c.code_offsets[i + 1] == c.code_offsets[i] or lower_in(flags) == upper_in(flags)
        set_known(t, place, MAX_VISITS if ended else min(visits, MAX_VISITS))


@kernel
def sweep(
    T: NDArray[np.uint64],
    table: NDArray[np.uint64],
    columns: Columns,
    x: Scratch,
    tolerance: float64,
    counts: NDArray[np.int64],
) -> float64:
    """Recomputes records from their children, and updates the table; returns the largest change of a Q.

    Later records of the sweep already use the new values.

    Args:
      T, table, columns: as for `enter`; columns are only read. x: of `new_scratch`.
      tolerance: an edge is stale if it differs from its child by more. counts: `[COUNTS]` int64, added to.
    """
    Tp = ptr(T, 0)
    t = table_of(table)
    c = pointers(columns)
    largest = 0.0
    for i in range(columns.v.size):
        if c.edge_offsets[i] == c.edge_offsets[i + 1]:
            continue
        if not _take_from_children(Tp, t, c, i, x, tolerance, ptr(counts, 0)):
            continue
        q, code, _, _ = mean_of(c, i, x.q, x.draws)
        place, tag = place_of_record(Tp, t, c, i)
        largest = max(largest, abs(float64(q) - float64(q_at(t, place))))
        _set_worth(t, place, tag, q, code)
    return largest


@kernel
def freshen(
    T: NDArray[np.uint64],
    table: NDArray[np.uint64],
    columns: Columns,
    x: Scratch,
    counts: NDArray[np.int64],
) -> None:
    """Writes the children's values from the table to the edges, in place, and counts the changes.

    Args: as for `sweep`; `q`, `edge_d` and `flags` of the columns are written.
    """
    Tp = ptr(T, 0)
    t = table_of(table)
    c = pointers(columns)
    for i in range(columns.v.size):
        begin = c.edge_offsets[i]
        edges = c.edge_offsets[i + 1] - begin
        if edges == 0 or not _take_from_children(Tp, t, c, i, x, 0.0, ptr(counts, 0)):
            continue
        write_back(c, i, x, ptr(counts, 0))
