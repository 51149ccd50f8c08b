"""How `exclude` splits visits over the edges that are still live: P renormalised, a new leaf takes one visit.

P   .5 x   .3   .2          the first edge leads to a leaf in flight: it counts as an illegal move,
     |      |    |          and the others share the rest: .3 / .5 = .6 and .2 / .5 = .4
   leaf    .6   .4
"""

from __future__ import annotations

from ...graph.arena_kernel import ArenaPointers
from ...jit.compiler import inner
from ...jit.types import float64, int64
from ...position.words import BoardTable, Position
from ...store.record.node_kernel import block_of, edge_at, edge_visits, materialised, move_count, stride_at
from ...store.record.node_layout import NORM
from .. import wave_kernel as wave
from ..flight_kernel import bar, fields_of, in_flight, is_barred
from ..puct_kernel import NEVER, edge_value, fpu_value, is_out, power_of, scale_of, score
from ..wave_kernel import WavePointers
from .allocate_kernel import cover_flight, give, load_unmade, make_edges, spent_below, tried_powers
from .columns_kernel import leaders, visits_above, visits_in_a_row

NEWTON_STEPS = 48
NO_LIMIT = 1e300


@inner
def barred_powers(A: ArenaPointers, W: WavePointers, rec: int64, node: int64) -> float64:
    """Returns the sum of code ** 4 over the barred edges of a node."""
    if fields_of(W, node)[wave.BARRED] == 0:
        return 0.0
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    powers = 0.0
    for j in range(materialised(A, rec)):
        if is_barred(W, node, int64(j)):
            powers += power_of(A, edge)
        edge += stride
    return powers


@inner
def bar_proven(A: ArenaPointers, W: WavePointers, s: Position, rec: int64, node: int64) -> None:
    """Bars the edges of a node whose results are proven, unless nothing else would be left."""
    m = materialised(A, rec)
    stride = stride_at(A, rec)
    proven = int64(0)
    edge = edge_at(A, rec, int64(0))
    for _ in range(m):
        if edge_visits(A, edge) and is_out(A, edge, s):
            proven += 1
        edge += stride
    if proven == 0 or proven == move_count(A, rec):
        return
    edge = edge_at(A, rec, int64(0))
    for j in range(m):
        if edge_visits(A, edge) and is_out(A, edge, s):
            bar(W, node, int64(j), m)
        edge += stride


@inner
def _load_live(
    A: ArenaPointers, W: WavePointers, rec: int64, node: int64, fpu: float64, scale: float64
) -> tuple[int64, int64]:
    """Loads the scratch columns of all edges; returns (entries, edges). A barred one may take nothing."""
    m = materialised(A, rec)
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    for j in range(m):
        n = edge_visits(A, edge)
        W.floats[wave.BASE + j] = edge_value(A, edge, stride, n) if n else fpu
        W.floats[wave.GAIN + j] = scale * power_of(A, edge)
        W.floats[wave.MASS + j] = float64(1 + n + in_flight(W, node, int64(j)))
        W.floats[wave.MOST + j] = 0.0 if is_barred(W, node, int64(j)) else (NO_LIMIT if n else 1.0)
        W.counts[wave.SPLIT + j] = 0
        edge += stride
    count = load_unmade(A, W, rec, fpu, scale, m)
    for j in range(m, count):
        W.floats[wave.MOST + j] = 1.0
    return m, count


@inner
def _bounds(W: WavePointers, count: int64, k: int64) -> tuple[float64, float64]:
    """Returns two scores around the level: at the first one edge alone takes k, at the other all less."""
    low = NEVER
    best = NEVER
    gains = 0.0
    for j in range(count):
        if W.floats[wave.MOST + j] > 0.0:
            mass = W.floats[wave.MASS + j] - 1.0 + float64(k)
            low = max(low, score(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], mass))
            best = max(best, W.floats[wave.BASE + j])
            gains += W.floats[wave.GAIN + j]
    return low, best + gains / float64(k)


@inner
def _visits_at(W: WavePointers, j: int64, t: float64) -> float64:
    """Returns the visits that edge `j` takes above score `t` if nothing limits it."""
    if t <= W.floats[wave.BASE + j]:
        return NO_LIMIT
    return visits_above(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], W.floats[wave.MASS + j], t)


@inner
def _taken_at(W: WavePointers, count: int64, t: float64) -> tuple[float64, float64]:
    """Returns how many visits the edges take together at score `t`, and how fast that falls."""
    total = 0.0
    slope = 0.0
    for j in range(count):
        most = W.floats[wave.MOST + j]
        gap = t - W.floats[wave.BASE + j]
        if most > 0.0:
            x = _visits_at(W, int64(j), t)
            if x >= most:
                total += most
            elif x > 0.0:
                total += x
                slope += W.floats[wave.GAIN + j] / (gap * gap)
    return total, slope


@inner
def _level(W: WavePointers, count: int64, k: int64) -> float64:
    """Returns the score at which the live edges take about k visits: Newton, halving where limits bend it.

    If all of them together take less, the score at which they take all they may.
    """
    low, high = _bounds(W, count, k)
    t = low
    for _ in range(NEWTON_STEPS):
        total, slope = _taken_at(W, count, t)
        if abs(total - float64(k)) < 0.01:
            break
        if total > float64(k):
            low = t
        else:
            high = t
        t = t + (total - float64(k)) / slope if slope > 0.0 else high
        if t <= low or t >= high:
            t = 0.5 * (low + high)
    return t


@inner
def _fill_live(W: WavePointers, count: int64, k: int64) -> int64:
    """Gives every live edge the whole visits above the common level; returns the remainder of `k`."""
    t = _level(W, count, k)
    left = int64(k)
    for j in range(count):
        if W.floats[wave.MOST + j] > 0.0:
            x = _visits_at(W, int64(j), t)
            given = min(int64(min(x, W.floats[wave.MOST + j], 1e15)), left)
            if given > 0:
                _take(W, j, given)
                left -= given
    return left


@inner
def _take(W: WavePointers, j: int64, given: int64) -> None:
    W.counts[wave.SPLIT + j] += given
    W.floats[wave.MOST + j] -= float64(given)


@inner
def _hide_full(W: WavePointers, count: int64) -> None:
    """Excludes the full edges from the remainder."""
    for j in range(count):
        if W.floats[wave.MOST + j] < 1.0:
            W.floats[wave.BASE + j] = NEVER


@inner
def _give_rest(W: WavePointers, count: int64, left: int64) -> None:
    """Gives the remainder to the live leaders, in runs; stops when no edge may take more."""
    _hide_full(W, count)
    while left > 0:
        j, rival = leaders(W, count)
        if W.floats[wave.MOST + j] < 1.0:
            return
        given = min(left, visits_in_a_row(W, j, rival))
        if W.floats[wave.MOST + j] < float64(given):
            given = int64(W.floats[wave.MOST + j])
        _take(W, j, given)
        left -= given
        _hide_full(W, count)


@inner
def give_live(W: WavePointers, count: int64, k: int64) -> None:
    """Gives up to k visits to the loaded edges, as far as they may take them."""
    left = _fill_live(W, count, k) if k > 1 else int64(k)
    _give_rest(W, count, left)


@inner
def split_live(
    T: BoardTable, A: ArenaPointers, W: WavePointers, s: Position, rec: int64, node: int64, k: int64
) -> int64:
    """Splits up to `k` visits of an in-flight node over its live edges into `counts[SPLIT:]`.

    Returns how many entries that covers; 0 if nothing is live. An edge without visits takes one at most.
    The visits given are in flight afterwards.
    """
    if fields_of(W, node)[wave.BARRED] >= move_count(A, rec):
        return int64(0)
    cover_flight(T, A, W, s, rec, node)
    norm = float64(A.values[block_of(A, rec) + NORM])
    live = 1.0 - barred_powers(A, W, rec, node) * norm
    scale = scale_of(A, block_of(A, rec), spent_below(A, W, rec, node, k, True)) / max(live, 1e-6)
    fpu = fpu_value(A, rec, tried_powers(A, W, rec, node, True))
    m, count = _load_live(A, W, rec, node, fpu, scale)
    give_live(W, count, k)
    m = make_edges(T, A, W, s, rec, m, count)
    give(A, W, rec, node, m)
    return m
