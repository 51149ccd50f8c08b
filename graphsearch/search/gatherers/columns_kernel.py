"""Splits visits over columns of scores: up to one common level, the remainder to the leaders.

column   of one edge: b, c P, 1 + n + f, and the visits given so far (`BASE`, `GAIN`, `MASS`, `SPLIT`)
level    the score t above which the edges take all visits: x = c P / (t - b) - (n + f) each
"""

from __future__ import annotations

import numpy as np

from ...jit.compiler import inner
from ...jit.types import float64, int64
from .. import wave_kernel as wave
from ..puct_kernel import NEVER, score
from ..wave_kernel import WavePointers

FOREVER = 1 << 60
MOST_GIVEN = 1e15
NEWTON_STEPS = 48


@inner
def set_column(W: WavePointers, j: int64, base: float64, gain: float64, mass: float64) -> None:
    """Sets the scratch columns of one edge, with no visits given yet."""
    W.floats[wave.BASE + j] = base
    W.floats[wave.GAIN + j] = gain
    W.floats[wave.MASS + j] = mass
    W.counts[wave.SPLIT + j] = 0


@inner
def visits_above(base: float64, gain: float64, mass: float64, t: float64) -> float64:
    """Returns the visits, a real, that an edge takes while its score base + gain / mass is above `t`.

    Each visit adds one to mass; the whole part is the number of visits.
    """
    return gain / (t - base) - mass + 1.0


@inner
def _visits_at(W: WavePointers, count: int64, t: float64) -> tuple[float64, float64]:
    """Returns (visits that all edges together take above score `t`, their rate of decrease with t)."""
    total = 0.0
    slope = 0.0
    for j in range(count):
        gap = t - W.floats[wave.BASE + j]
        if gap > 0.0:
            x = visits_above(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], W.floats[wave.MASS + j], t)
            if x > 0.0:
                total += x
                slope += W.floats[wave.GAIN + j] / (gap * gap)
    return total, slope


@inner
def _bounds(W: WavePointers, count: int64, k: int64) -> tuple[float64, float64]:
    """Returns two scores around the level: at the lower, one edge takes k; at the upper, all take less."""
    low = NEVER
    best = NEVER
    gains = 0.0
    for j in range(count):
        mass = W.floats[wave.MASS + j] + float64(k) - 1.0
        low = max(low, score(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], mass))
        best = max(best, W.floats[wave.BASE + j])
        gains += W.floats[wave.GAIN + j]
    return low, best + gains / float64(k)


@inner
def _level(W: WavePointers, count: int64, k: int64) -> float64:
    """Returns the score t above which the edges take `k` visits together, or a little less.

    Newton from below: the sum is convex and falls with t, so every step stays below the root.
    """
    t, high = _bounds(W, count, k)
    for _ in range(NEWTON_STEPS):
        total, slope = _visits_at(W, count, t)
        missing = float64(k) - total
        if missing > -0.01:
            break
        t = t - missing / slope if slope > 0.0 else high
    return t


@inner
def _fill_to_level(W: WavePointers, count: int64, k: int64) -> int64:
    """Gives every edge the whole visits above the common level; returns the rest of `k`."""
    t = _level(W, count, k)
    left = int64(k)
    for j in range(count):
        if t > W.floats[wave.BASE + j]:
            x = visits_above(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], W.floats[wave.MASS + j], t)
            if x >= 1.0:
                given = min(int64(min(x, MOST_GIVEN)), left)
                W.counts[wave.SPLIT + j] += given
                left -= given
    return left


@inner
def score_of(W: WavePointers, j: int64) -> float64:
    """Returns the score of an edge with the visits given so far."""
    mass = W.floats[wave.MASS + j] + float64(W.counts[wave.SPLIT + j])
    return score(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], mass)


@inner
def visits_to_overtake(base: float64, gain: float64, mass: float64, rival: float64) -> int64:
    """Returns the number of visits, at least one, until an edge's score is no longer above `rival`."""
    if rival <= base:
        return int64(FOREVER)
    visits = np.floor(gain / (rival - base) - mass) + 1.0
    return int64(min(max(visits, 1.0), float64(FOREVER)))


@inner
def leaders(W: WavePointers, count: int64) -> tuple[int64, float64]:
    """Returns the edge with the highest score, the first of equals, and the runner-up's score."""
    best = NEVER
    second = NEVER
    leader = int64(0)
    for j in range(count):
        found = score_of(W, j)
        if found > best:
            second = best
            best = found
            leader = int64(j)
        elif found > second:
            second = found
    return leader, second


@inner
def visits_in_a_row(W: WavePointers, j: int64, rival: float64) -> int64:
    """Returns the number of visits that edge `j` takes before a rival's score overtakes it."""
    mass = W.floats[wave.MASS + j] + float64(W.counts[wave.SPLIT + j])
    return visits_to_overtake(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], mass, rival)


@inner
def fill(W: WavePointers, count: int64, k: int64) -> None:
    """Gives k visits to the loaded edges: up to the common level, the remainder to the leaders, in runs."""
    left = _fill_to_level(W, count, k) if k > 1 else int64(k)
    if left > 4 * count + 16:  # the level was not found in double precision
        W.counts[wave.SPLIT + leaders(W, count)[0]] += left
        left = int64(0)
    while left > 0:
        j, rival = leaders(W, count)
        given = min(left, visits_in_a_row(W, j, rival))
        W.counts[wave.SPLIT + j] += given
        left -= given
