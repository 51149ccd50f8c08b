"""Sweeps of stale q: every edge takes the value of its child, until nothing moves.

The table has two words per place, 16 bytes; open addressing starts at `key * places >> 64`:

    word 0   check hash << 32 | lowest 22 bits of the key << 10 | node code of
             `store/record_kernel.py`: draw share per mille, or the proof
    word 1   node N << 32 | node Q, float32; N is 0 in an empty place, the largest for a terminal,
             which supports every visit

The place gives the highest bits of the key, so some 75 bits of both hashes distinguish positions.

Moves are generated once: `enter` notes the hashes of every visited child, and `link` replaces them by the
child's place. A sweep then only reads numbers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import U, adv, mulhi, ptr, view, zeros
from ...jit.types import Bundle, Items, Pointer, float32, float64, int64, uint8, uint16, uint32, uint64
from ...position.board_kernel import PW, ROOM, clock_of, generate_moves, hashes_of, make_child
from ...store import record_kernel as record
from ...store.record_kernel import Columns
from ..arena_kernel import MAX_VISITS, mean, rank_codes, ranked_move, weighed

PLACE_WORDS = 2
CODE_BITS = U(1023)  # of the first word
KEY_BITS = U((1 << 22) - 1)

# `counts`: edges that differ from their child by more than the tolerance | edges whose child has fewer visits
# than they count | edges whose child is missing | changed records | changed edges
STALE_EDGES, LOST_CHILDREN, MISSING_CHILDREN, CHANGED_RECORDS, CHANGED_EDGES = range(5)
COUNTS = 5


class Links(Bundle):
    """Places of records in the table, and the children of their edges; the caller keeps the arrays alive."""

    place: Items[int64]  # [R]
    child: Items[uint64]  # [E] key; after `link` the place + 1, 0 if the edge keeps its values
    child_size: int64
    check: Items[uint32]  # [E] check hash
    resets: Items[uint8]  # [E] whether the move resets the clock


# ------------------------------------------------------------------ the table
class Table(Bundle):
    """The table; zeros are an empty one."""

    words: Items[uint64]  # [places * PLACE_WORDS]
    places: int64


@inner
def _known(t: Table, place: int64) -> int64:
    """Returns the node N at a place, 0 if it is empty."""
    return int64(view(uint32, t.words)[4 * place + 3])


@inner
def _q_at(t: Table, place: int64) -> float32:
    """Returns the node Q at a place."""
    return view(float32, t.words)[4 * place + 2]


@inner
def _place_of(t: Table, key: uint64, check: uint64) -> tuple[int64, uint64]:
    """Returns the place of a position, or the empty one where it belongs, and its tag."""
    tag = (check << U(32)) | ((key & KEY_BITS) << U(10))
    i = int64(mulhi(key, U(t.places)))
    while _known(t, i) and (t.words[PLACE_WORDS * i] & ~CODE_BITS) != tag:
        i += 1
        if i == t.places:
            i = int64(0)
    return i, tag


@inner
def _set_worth(t: Table, place: int64, tag: uint64, q: float32, code: int64) -> None:
    t.words[PLACE_WORDS * place] = tag | U(code)
    view(float32, t.words)[4 * place + 2] = q


# ------------------------------------------------------------------ values
@inner
def _mean_of(
    c: Columns, i: int64, q: Pointer[float32], edge_draws: Pointer[uint16]
) -> tuple[float32, int64, int64, int64]:
    """Returns Q, node code, N and flags of record `i` with these values of its edges.

    `graph/arena_kernel.py` does the same in memory.
    """
    begin = c.edge_offsets[i]
    edges, moves = c.edge_offsets[i + 1] - begin, c.code_offsets[i + 1] - c.code_offsets[i]
    visits = int64(0)
    draws = int64(c.d[i])
    total = float64(c.v[i])
    tally = record.no_tally()
    for k in range(edges):
        n, r = int64(c.n[begin + k]), int64(c.r[begin + k])
        value, drawn = weighed(n, r, q[k], int64(edge_draws[k]))
        tally = record.tallied(tally, n - r, q[k], int64(edge_draws[k]))
        visits += n
        total += value
        draws += drawn
    flags = int64(c.flags[i])
    if edges:
        flags = record.tightened(flags, tally, edges == moves)
    q_now, share = mean(flags, total, draws, visits + 1)
    if edges == 0:  # as evaluated, within the proven bounds
        low, high = float32(record.lower_in(flags)), float32(record.upper_in(flags))
        q_now, share = min(max(c.v[i], low), high), int64(c.d[i])
    kept, clock = record.mate_kept(c.v[i], int64(c.d[i])), clock_of(adv(c.packed, i * PW))
    return q_now, record.code_by_edges(flags, share, tally, edges, moves, clock, kept), visits + 1, flags


@inner
def _take_from_children(
    t: Table, c: Columns, x: Links, i: int64, q: Pointer[float32], draws: Pointer[uint16], tolerance: float64
) -> int64:
    """Fills the values of a record's edges from their children; returns the number of stale edges.

    An edge without a child in the table keeps its values.
    """
    begin = c.edge_offsets[i]
    stale = int64(0)
    for k in range(c.edge_offsets[i + 1] - begin):
        e = begin + k
        q[k], draws[k] = c.q[e], c.edge_d[e]
        place = int64(x.child[e]) - 1
        if place >= 0:
            old, value = int64(c.edge_d[e]), float32(0.0) - _q_at(t, place)
            code = int64(t.words[PLACE_WORDS * place] & CODE_BITS)
            found, code = record.taken(c.q[e], old, value, code, x.resets[e] != 0)
            is_new = (code <= record.DRAWN and code != old) or not record.is_special(c.q[e], old)
            proves = record.is_special(found, code) and is_new
            if proves or abs(float64(found) - float64(c.q[e])) > tolerance:
                stale += 1
            q[k], draws[k] = found, uint16(code)
    return stale


# ------------------------------------------------------------------ reading
@kernel
def enter(T: NDArray[np.uint64], t: Table, c: Columns, x: Links) -> None:
    """Adds sound records with their present values; the table must have room.

    `x`: zeros, filled with their places and the hashes of their visited children.
    """
    board = ptr(T, 0)
    moves, ranks, child = zeros(uint16, ROOM), zeros(int64, 256), zeros(uint64, PW)
    for i in range(c.v_size):
        s, first, begin = adv(c.packed, i * PW), c.code_offsets[i], c.edge_offsets[i]
        count, edges = c.code_offsets[i + 1] - first, c.edge_offsets[i + 1] - begin
        q, code, visits, flags = _mean_of(c, int64(i), adv(c.q, begin), adv(c.edge_d, begin))
        key, check = hashes_of(board, s)
        place, tag = _place_of(t, key, check)
        _set_worth(t, place, tag, q, code)
        ended = count == 0 or record.lower_in(flags) == record.upper_in(flags)
        view(uint32, t.words)[4 * place + 3] = uint32(MAX_VISITS if ended else min(visits, MAX_VISITS))
        x.place[i] = place
        if edges:
            generate_moves(board, s, moves)
            rank_codes(adv(c.codes, first), count, edges, ranks)
        for k in range(edges):
            e = begin + k
            if c.n[e] > c.r[e]:
                key, check = make_child(board, s, child, moves[ranked_move(ranks[k])])
                x.child[e], x.check[e] = key, uint32(check)
                x.resets[e] = uint8(clock_of(child) == 0)


@kernel
def link(t: Table, c: Columns, x: Links, counts: NDArray[np.int64]) -> None:
    """Replaces the keys of children by their places, once all records are in the table.

    An edge whose child is unknown, or was lost and has not caught up, keeps its values. `counts`: added to.
    """
    for e in range(x.child_size):
        valued = int64(c.n[e]) - int64(c.r[e])
        place = _place_of(t, x.child[e], U(x.check[e]))[0]
        visits = _known(t, place)
        if valued:
            counts[MISSING_CHILDREN] += visits == 0
            counts[LOST_CHILDREN] += 0 < visits < valued
        x.child[e] = U(place + 1) if 0 < valued <= visits else U(0)


# ------------------------------------------------------------------ sweeping
@kernel
def sweep(
    t: Table,
    c: Columns,
    x: Links,
    tolerance: float64,
    counts: NDArray[np.int64],
    changed: NDArray[np.uint8],
) -> float64:
    """Recomputes records from their children, and updates the table; returns the largest change of a Q.

    Later records of the sweep already use the new values.

    Args:
      x: of the same records, linked.
      tolerance: an edge is stale if it differs from its child by more.
      counts: `[COUNTS]` added to.
      changed: `[R]`, set to 1 for each record that changes: the values are written to edges and bounds, and
        the table stays as it is; or empty: the records are only read.
    """
    q, draws = zeros(float32, 256), zeros(uint16, 256)
    largest = 0.0
    for i in range(c.v_size):
        stale = _take_from_children(t, c, x, int64(i), q, draws, tolerance)
        now, code, _, flags = _mean_of(c, int64(i), q, draws)
        if len(changed) == 0:
            counts[STALE_EDGES] += stale
            place = x.place[i]
            largest = max(largest, abs(float64(now) - float64(_q_at(t, place))))
            _set_worth(t, place, t.words[PLACE_WORDS * place] & ~CODE_BITS, now, code)
            continue
        begin, is_new = c.edge_offsets[i], uint8(flags) != c.flags[i]
        c.flags[i] = uint8(flags)
        for k in range(c.edge_offsets[i + 1] - begin):
            e = begin + k
            if c.q[e] != q[k] or c.edge_d[e] != draws[k]:
                c.q[e], c.edge_d[e] = q[k], draws[k]
                counts[CHANGED_EDGES] += 1
                is_new = True
        changed[i] = is_new
        counts[CHANGED_RECORDS] += is_new
    return largest
