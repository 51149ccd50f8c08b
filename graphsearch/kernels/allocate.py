"""How one node splits visits over its edges.

All edges end at one common score t: x_a = c P_a / (t - b_a) - (1 + n_a + f_a) visits for every edge whose
score is above t (the regularised policy of Grill et al. 2020, arXiv 2007.12509), b_a its value, f_a the
visits in flight. The exploration term grows with the visits given, as it would if they came one by one, so a
large share spreads as a search would. With one visit and nothing in flight this is plain PUCT.

            b + c P / (1 + n + f)
        t ----------+--------+------------    <- level: the gap is filled with x visits
            edge 1  | edge 2 | edge 3
"""

from __future__ import annotations

from typing import Any

from numba import float64, int64

from .heap import grow_block
from .jit import adv, inner
from .layout import (
    BLOCK_VISITS,
    KEYS,
    NO_BLOCK,
    NORM,
    POWERS,
    block_class_of,
    block_of,
    code_bytes,
    entry_at,
    header_bytes,
    materialised,
    move_count,
    stride_at,
)
from .puct import edge_value, exploration, fpu_value, power_of, select
from .wave import AT, BASE, FLIGHT_FIELDS, GAIN, MASS, SINGLE, SPLIT, SUM, in_flight, widen_flight

LEVEL_FROM = 6  # more visits than this are split by the level, fewer one by one


@inner
def _set_column(W: Any, j: Any, base: Any, gain: Any, mass: Any) -> None:
    W.floats[BASE + j] = base
    W.floats[GAIN + j] = gain
    W.floats[MASS + j] = mass
    W.counts[SPLIT + j] = 0


@inner
def _load(A: Any, W: Any, rec: Any, node: Any, fpu: Any, scale: Any, first: Any) -> Any:
    """Loads entries from `first` on into the scratch columns; returns how many there are."""
    m = materialised(A, rec)
    stride = stride_at(A, rec)
    x = entry_at(A, rec, first)
    for j in range(first, m):
        n = int64(A.blocks[x])
        base = edge_value(A, x, stride, n) if n else fpu
        _set_column(W, j, base, scale * power_of(A, x), float64(1 + n + in_flight(W, node, j)))
        x += stride
    return m


@inner
def _tally_unmade(A: Any, rec: Any, m: Any) -> Any:
    """Counts the edges beyond the block by P code."""
    tally = adv(A.ints, KEYS)
    codes = code_bytes(A, rec)
    for code in range(64):
        tally[code] = 0
    for j in range(move_count(A, rec)):
        tally[int64(codes[j])] += 1
    stride = stride_at(A, rec)
    x = entry_at(A, rec, int64(0))
    for _ in range(m):
        tally[int64((A.blocks[x + 2] >> 16) & 63)] -= 1
        x += stride
    return tally


@inner
def _load_unmade(A: Any, W: Any, rec: Any, fpu: Any, scale: Any, m: Any) -> Any:
    """Appends the edges beyond the block, in descending P; returns the number of all moves."""
    tally = _tally_unmade(A, rec, m)
    j = int64(m)
    for down in range(64):
        code = 63 - down
        for _ in range(tally[code]):
            _set_column(W, j, fpu, scale * A.floats[POWERS + code], 1.0)
            j += 1
    return j


@inner
def _level(W: Any, count: Any, k: Any) -> Any:
    """Returns the score t at which the edges take `k` visits together, or a little less: Newton from below.

    The sum is convex and falls with t; at the start one edge alone takes k, so every step stays below the
    root.
    """
    wanted = float64(k)
    t = -1e300
    for j in range(count):
        t = max(t, W.floats[BASE + j] + W.floats[GAIN + j] / (W.floats[MASS + j] + wanted))
    for _ in range(32):
        total = 0.0
        slope = 0.0
        for j in range(count):
            gap = t - W.floats[BASE + j]
            if gap > 0.0:
                x = W.floats[GAIN + j] / gap - W.floats[MASS + j]
                if x > 0.0:
                    total += x
                    slope += W.floats[GAIN + j] / (gap * gap)
        if total < wanted + 0.01 or slope == 0.0:
            break
        t += (total - wanted) / slope
    return t


@inner
def _fill_to_level(W: Any, count: Any, k: Any) -> Any:
    """Gives every edge the whole visits below the common level; returns what remains of `k`."""
    t = _level(W, count, k)
    left = int64(k)
    for j in range(count):
        gap = t - W.floats[BASE + j]
        if gap > 0.0:
            x = W.floats[GAIN + j] / gap - W.floats[MASS + j]
            if x >= 1.0:
                given = min(int64(x), left)
                W.counts[SPLIT + j] = given
                left -= given
    return left


@inner
def _score(W: Any, j: Any) -> Any:
    return W.floats[BASE + j] + W.floats[GAIN + j] / (W.floats[MASS + j] + float64(W.counts[SPLIT + j]))


@inner
def _leader(W: Any, count: Any) -> Any:
    """Returns the edge with the highest score, the first of equals."""
    best = -1e300
    leader = int64(0)
    for j in range(count):
        score = _score(W, j)
        if score > best:
            best = score
            leader = int64(j)
    return leader


@inner
def _split_many(T: Any, A: Any, W: Any, s: Any, rec: Any, k: Any, m: Any, fpu: Any, scale: Any) -> Any:
    """Splits k visits by level, the remainder to the leaders one by one; returns the number of entries."""
    count = _load_unmade(A, W, rec, fpu, scale, m)
    left = _fill_to_level(W, count, k)
    if left > 4 * count + 16:  # the level was not found in double precision: more would only loop
        W.counts[SPLIT + _leader(W, count)] += left
        left = int64(0)
    while left > 0:
        W.counts[SPLIT + _leader(W, count)] += 1
        left -= 1
    last = int64(m)
    for j in range(m, count):
        if W.counts[SPLIT + j]:
            last = int64(j + 1)
    if last > m:
        grow_block(T, A, s, rec, last, False)
    return last


@inner
def _split_few(
    T: Any, A: Any, W: Any, s: Any, rec: Any, node: Any, k: Any, m: Any, fpu: Any, scale: Any
) -> Any:
    """Gives k visits one by one, making entries when the best unmade edge leads.

    Returns the number of entries.
    """
    for _ in range(k):
        j = _leader(W, m)
        if m < move_count(A, rec) and fpu + scale * A.floats[
            POWERS + int64(header_bytes(A, rec)[2])
        ] > _score(W, j):
            grow_block(T, A, s, rec, m + 1, False)
            j = int64(m)
            m = _load(A, W, rec, node, fpu, scale, m)
        W.counts[SPLIT + j] += 1
    return m


@inner
def _tried_powers(A: Any, W: Any, rec: Any, node: Any) -> Any:
    """Returns the sum of code ** 4 over edges that were visited or are in flight."""
    stride = stride_at(A, rec)
    x = entry_at(A, rec, int64(0))
    powers = 0.0
    for j in range(materialised(A, rec)):
        if A.blocks[x] or in_flight(W, node, j):
            powers += power_of(A, x)
        x += stride
    return powers


@inner
def allocate(T: Any, A: Any, W: Any, s: Any, rec: Any, node: Any, k: Any) -> Any:
    """Splits `k` visits of an in-flight node over its edges into `counts[SPLIT:]`.

    Returns how many entries that covers.

    The visits given are in flight afterwards.
    """
    if block_class_of(A, rec) == NO_BLOCK:
        grow_block(T, A, s, rec, int64(1), False)
    fields = adv(W.nodes, node * FLIGHT_FIELDS)
    block = block_of(A, rec)
    spent = int64(A.blocks[block + BLOCK_VISITS]) + fields[SUM] + k - 1
    scale = exploration(A, spent) * float64(A.values[block + NORM])
    fpu = fpu_value(A, rec, _tried_powers(A, W, rec, node))
    m = _load(A, W, rec, node, fpu, scale, int64(0))
    if k > LEVEL_FROM:
        m = _split_many(T, A, W, s, rec, k, m, fpu, scale)
    else:
        m = _split_few(T, A, W, s, rec, node, k, m, fpu, scale)
    widen_flight(W, node, materialised(A, rec))
    for j in range(m):
        W.flight[fields[AT] + j] += W.counts[SPLIT + j]
    fields[SUM] += k
    return m


@inner
def allocate_first(T: Any, A: Any, W: Any, s: Any, rec: Any, node: Any) -> Any:
    """Gives one visit to an in-flight node without any, and returns its edge.

    What `allocate` does, sooner.
    """
    j = select(T, A, s, rec)
    fields = adv(W.nodes, node * FLIGHT_FIELDS)
    fields[SINGLE] = j
    fields[SUM] = 1
    return j
