"""Merges two versions of a position's record; `docs/contributing/merging.md` explains the rules.

Where each field comes from:

    V, D, P, clock, evaluator   one evaluation, by `_better_evaluation`, whatever the order of the files
    run                         of that evaluation; the smaller number if both have it
    n, r, q                     edge by edge those of the larger n; then of the smaller r; then the old ones
    proofs, bounds              of both; the old ones if they contradict each other

So n of an edge and N of a record never fall, and a child has the visits that the edges of either file count.
`old` is the version that counts if nothing else decides.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, view, zeros
from ..jit.types import Pointer, float32, float64, int64, uint8, uint16, uint32
from ..position.board_kernel import PW, clock_of
from . import record_kernel as record
from .index_kernel import compared, sort_key
from .record_kernel import Columns

Ints: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

# indices of the counts of `unite`
FRESH, CHANGED, DIFFERENT, CONTRADICTIONS = range(4)
COUNTS = 4
NO_MATE = 1 << 20
MOST_MOVES = 256


# ------------------------------------------------------------------ evaluations
@inner
def _compared_codes(a: Columns, i: int64, b: Columns, j: int64) -> int64:
    """Returns -1, 0 or 1 by the first P code that differs between two records with equally many codes."""
    first, other = a.code_offsets[i], b.code_offsets[j]
    for k in range(a.code_offsets[i + 1] - first):
        if a.codes[first + k] != b.codes[other + k]:
            return int64(-1) if a.codes[first + k] < b.codes[other + k] else int64(1)
    return int64(0)


@inner
def _rank(a: Columns, i: int64, bound: int64) -> tuple[float64, float64, float64, float64, float64, float64]:
    """Returns the rank of an evaluation, the least first; its P decide only after that.

    First comes one of the evaluator that the file is bound to, or of the rules; then one with a mate, the
    shorter one first; then one at a lower clock, because its proof holds for more paths to the record. The
    values break the last ties, so that the result does not depend on the order of the files.
    """
    evaluator, d = int64(a.evaluator[i]), int64(a.d[i])
    mate = record.mate_kept(a.v[i], d)
    return (
        float64(0.0 if evaluator == bound or evaluator == 0 else 1.0),
        float64(mate if mate else NO_MATE),
        float64(clock_of(adv(a.packed, PW * i))),
        float64(evaluator),
        float64(d),
        float64(a.v[i]),
    )


@inner
def _better_evaluation(a: Columns, i: int64, b: Columns, j: int64, bound: int64) -> int64:
    """Returns -1 if the evaluation of `a` counts, 1 if that of `b`, 0 if they are the same."""
    x, y = _rank(a, i, bound), _rank(b, j, bound)
    if x != y:
        return int64(-1) if x < y else int64(1)
    return _compared_codes(a, i, b, j)


# ------------------------------------------------------------------ edges
@inner
def _put(c: Columns, at: int64, a: Columns, e: int64, b: Columns, f: int64) -> int64:
    """Writes an edge of one version or both, -1: it has none; returns 1 if they contradict each other."""
    if e >= 0 and f >= 0:
        n, other = int64(a.n[e]), int64(b.n[f])
        if other > n or (other == n and b.r[f] < a.r[e]):
            return _put_first(c, at, b, f, a, e)
        return _put_first(c, at, a, e, b, f)
    if e >= 0:
        record.copy_edge(c, at, a, e)
    elif f >= 0:
        record.copy_edge(c, at, b, f)
    else:
        c.n[at] = c.r[at] = uint32(0)
        c.q[at], c.edge_d[at] = float32(0.0), uint16(0)
    return int64(0)


@inner
def _put_first(c: Columns, at: int64, a: Columns, e: int64, b: Columns, f: int64) -> int64:
    """Writes the edge of `a` with the proof of `b`, the shorter of two mates; returns 1 if they clash."""
    record.copy_edge(c, at, a, e)
    proof, code = b.q[f], int64(b.edge_d[f])
    if b.n[f] == b.r[f] or not record.is_special(proof, code):
        return int64(0)
    q, d = a.q[e], int64(a.edge_d[e])
    if a.n[e] == a.r[e]:  # draws of the path only: a proof needs one visit to be the value of
        c.r[at] = uint32(int64(a.n[e]) - 1)
        q, d = proof, code
    if record.is_special(q, d):
        low, high = record.bounds_of(proof, code)
        own_low, own_high = record.bounds_of(q, d)
        if max(low, own_low) > min(high, own_high):
            return int64(1)
        if d < record.DRAWN and code < record.DRAWN:
            d = min(d, code)
    q, d = record.with_proof(proof, code, q, d)
    c.q[at], c.edge_d[at] = q, uint16(d)
    return int64(0)


@inner
def _fill_order(a: Columns, i: int64, order: Pointer[int64]) -> None:
    """Fills `order` with the moves of a record in descending P, ties in canonical order."""
    first = a.code_offsets[i]
    moves = a.code_offsets[i + 1] - first
    at = int64(0)
    for code in range(63, 0, -1):
        for j in range(moves):
            if a.codes[first + j] == code:
                order[at] = j
                at += 1


@inner
def _fill_edges(a: Columns, i: int64, order: Pointer[int64], edges: Pointer[int64]) -> None:
    """Fills `edges` with the edge of each move, -1 for none; `order`: scratch."""
    _fill_order(a, i, order)
    for j in range(a.code_offsets[i + 1] - a.code_offsets[i]):
        edges[j] = -1
    for k in range(a.edge_offsets[i + 1] - a.edge_offsets[i]):
        edges[order[k]] = a.edge_offsets[i] + k


@inner
def _alike(a: Columns, i: int64, b: Columns, j: int64, c: Columns, at: int64) -> tuple[int64, int64]:
    """Merges the edges of two versions with the same P, `a` winning ties; returns their end, and clashes."""
    e, f = a.edge_offsets[i], b.edge_offsets[j]
    edges, others = a.edge_offsets[i + 1] - e, b.edge_offsets[j + 1] - f
    clashes = int64(0)
    for k in range(max(edges, others)):
        clashes += _put(c, at + k, a, e + k if k < edges else -1, b, f + k if k < others else -1)
    return at + max(edges, others), clashes


@inner
def _unlike(
    a: Columns, i: int64, b: Columns, j: int64, c: Columns, k: int64, x: Pointer[int64]
) -> tuple[int64, int64]:
    """Merges the edges of two versions with different P, in the order of record `k` of `c`; as `_alike`.

    `x`: int64[3 * MOST_MOVES], scratch.
    """
    order, edges, others = x, adv(x, int64(MOST_MOVES)), adv(x, int64(2 * MOST_MOVES))
    _fill_edges(a, i, order, edges)
    _fill_edges(b, j, order, others)
    _fill_order(c, k, order)
    at = last = c.edge_offsets[k]
    clashes = int64(0)
    for place in range(c.code_offsets[k + 1] - c.code_offsets[k]):
        clashes += _put(c, at, a, edges[order[place]], b, others[order[place]])
        at += 1
        if c.n[at - 1]:
            last = at
    return last, clashes


# ------------------------------------------------------------------ records
@inner
def _put_flags(c: Columns, k: int64, flags: int64, other: int64) -> int64:
    """Writes flags with the bounds of two versions and of the edges; returns 1 if the versions clash."""
    lower, upper = (
        max(record.lower_in(flags), record.lower_in(other)),
        min(record.upper_in(flags), record.upper_in(other)),
    )
    clash = int64(1 if lower > upper else 0)
    if not clash:
        flags = record.with_bounds(flags, lower, upper)
    begin, end = c.edge_offsets[k], c.edge_offsets[k + 1]
    tally = record.no_tally()
    for e in range(begin, end):
        tally = record.tallied(tally, int64(c.n[e]) - int64(c.r[e]), c.q[e], int64(c.edge_d[e]))
    if end > begin:
        flags = record.tightened(flags, tally, end - begin == c.code_offsets[k + 1] - c.code_offsets[k])
    c.flags[k] = uint8(flags)
    return clash


@inner
def _unite(
    a: Columns, i: int64, b: Columns, j: int64, bound: int64, c: Columns, k: int64, x: Pointer[int64]
) -> tuple[int64, int64]:
    """Writes the union of record `i` of `a` and record `j` of `b` to place `k`.

    Returns the result of `_better_evaluation`, and the number of contradictions.
    """
    how = _better_evaluation(a, i, b, j, bound)
    if how > 0:
        record.copy_evaluation(c, k, b, j)
    else:
        record.copy_evaluation(c, k, a, i)
    run, other = int64(a.run[i]), int64(b.run[j])
    if how == 0:  # 0 is no run
        c.run[k] = uint32(min(run, other) if run and other else max(run, other))
    if _compared_codes(a, i, b, j) == 0:
        end, clashes = _alike(a, i, b, j, c, c.edge_offsets[k])
    else:
        end, clashes = _unlike(a, i, b, j, c, k, x)
    c.edge_offsets[k + 1] = end
    return how, clashes + _put_flags(c, k, int64(a.flags[i]), int64(b.flags[j]))


@inner
def _is_same(a: Columns, i: int64, c: Columns, k: int64) -> bool:
    """Returns whether two versions of a record are equal in every field."""
    if (
        a.packed[PW * i + 8] != c.packed[PW * k + 8]
        or view(uint32, a.v)[i] != view(uint32, c.v)[k]
        or a.d[i] != c.d[k]
    ):
        return False
    if a.evaluator[i] != c.evaluator[k] or a.run[i] != c.run[k] or a.flags[i] != c.flags[k]:
        return False
    e, f = a.edge_offsets[i], c.edge_offsets[k]
    edges = a.edge_offsets[i + 1] - e
    if edges != c.edge_offsets[k + 1] - f or _compared_codes(a, i, c, k) != 0:
        return False
    for m in range(edges):
        if a.n[e + m] != c.n[f + m] or a.r[e + m] != c.r[f + m]:
            return False
        if view(uint32, a.q)[e + m] != view(uint32, c.q)[f + m] or a.edge_d[e + m] != c.edge_d[f + m]:
            return False
    return True


@inner
def _order(a: Columns, i: int64, b: Columns, j: int64) -> int64:
    """Returns -1, 0 or 1: which of two records comes first in a segment; 0 if they have the same position."""
    s, other = adv(a.packed, PW * i), adv(b.packed, PW * j)
    x, y = sort_key(s), sort_key(other)
    if x != y:
        return int64(-1) if x < y else int64(1)
    return compared(s, other)


@kernel
def unite(old: Columns, new: Columns, bound: int64, out: Columns, clashing: Flags, counts: Ints) -> int64:
    """Writes the union of records, each in the order of a segment; returns their number.

    Args:
      bound: number of the evaluator that the file is bound to.
      out: room for all records, codes, and as many edges as codes.
      clashing: bool, one for each of `new`: set where proofs contradict each other.
      counts: `[COUNTS]` int64, added to.
    """
    a, b, c = old, new, out
    scratch = zeros(int64, 3 * MOST_MOVES)
    i, j, k = int64(0), int64(0), int64(0)
    while i < a.v_size or j < b.v_size:
        how = int64(1) if i >= a.v_size else int64(-1)
        if i < a.v_size and j < b.v_size:
            how = _order(a, i, b, j)
        if how < 0:
            record.copy_whole(c, k, a, i)
            i += 1
        elif how > 0:
            record.copy_whole(c, k, b, j)
            counts[FRESH] += 1
            j += 1
        else:
            clashes = int64(1)
            if a.code_offsets[i + 1] - a.code_offsets[i] == b.code_offsets[j + 1] - b.code_offsets[j]:
                better, clashes = _unite(a, i, b, j, bound, c, k, scratch)
                counts[DIFFERENT] += better != 0
                counts[CHANGED] += not _is_same(a, i, c, k)
            else:  # one of them is not a record of this position
                record.copy_whole(c, k, a, i)
            if clashes:
                clashing[j] = True
                counts[CONTRADICTIONS] += 1
            i, j = i + 1, j + 1
        k += 1
    return k
