"""Visits over columns of scores: to one common level, the remainder to the leaders.

column   of one edge: b, c P, 1 + n + f, and the visits given so far (`BASE`, `GAIN`, `MASS`, `SPLIT`)
level    the score t above which the edges take all visits: x = c P / (t - b) - (n + f) each
"""

from __future__ import annotations

import numpy as np

from ...jit.compiler import inner
from ...jit.types import float64, int64
from .. import wave_kernel as wave
from ..puct_kernel import score
from ..wave_kernel import WavePointers

FOREVER = 1 << 60


@inner
def set_column(W: WavePointers, j: int64, base: float64, gain: float64, mass: float64) -> None:
    """Sets the scratch columns of one edge, with no visits given yet."""
    W.floats[wave.BASE + j] = base
    W.floats[wave.GAIN + j] = gain
    W.floats[wave.MASS + j] = mass
    W.counts[wave.SPLIT + j] = 0


@inner
def visits_above(base: float64, gain: float64, mass: float64, t: float64) -> float64:
    """Returns how many visits an edge takes whose score base + gain / mass was above `t` before them, a real.

    Mass grows by one with each; the whole part is the number of visits.
    """
    return gain / (t - base) - mass + 1.0


@inner
def _level(W: WavePointers, count: int64, k: int64) -> float64:
    """Returns the score t above which the edges take `k` visits together, or a little less.

    Newton from below: the sum is convex and falls with t; at the start one edge alone takes k, so every step
    stays below the root.
    """
    wanted = float64(k)
    t = -1e300
    for j in range(count):
        t = max(
            t, score(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], W.floats[wave.MASS + j] + wanted - 1.0)
        )
    for _ in range(32):
        total = 0.0
        slope = 0.0
        for j in range(count):
            gap = t - W.floats[wave.BASE + j]
            if gap > 0.0:
                x = visits_above(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], W.floats[wave.MASS + j], t)
                if x > 0.0:
                    total += x
                    slope += W.floats[wave.GAIN + j] / (gap * gap)
        if total < wanted + 0.01 or slope == 0.0:
            break
        t += (total - wanted) / slope
    return t


@inner
def _fill_to_level(W: WavePointers, count: int64, k: int64) -> int64:
    """Gives every edge the whole visits above the common level; returns what remains of `k`."""
    t = _level(W, count, k)
    left = int64(k)
    for j in range(count):
        if t > W.floats[wave.BASE + j]:
            x = visits_above(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], W.floats[wave.MASS + j], t)
            if x >= 1.0:
                given = min(int64(x), left)
                W.counts[wave.SPLIT + j] = given
                left -= given
    return left


@inner
def score_of(W: WavePointers, j: int64) -> float64:
    """Returns the score of an edge with the visits given so far."""
    mass = W.floats[wave.MASS + j] + float64(W.counts[wave.SPLIT + j])
    return score(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], mass)


@inner
def visits_to_overtake(base: float64, gain: float64, mass: float64, rival: float64) -> int64:
    """Returns how many visits an edge takes before its score base + gain / mass is no longer above `rival`.

    At least one. A rival at or below the base is never met.
    """
    if rival <= base:
        return int64(FOREVER)
    visits = np.floor(gain / (rival - base) - mass) + 1.0
    return int64(min(max(visits, 1.0), float64(FOREVER)))


@inner
def leaders(W: WavePointers, count: int64) -> tuple[int64, float64]:
    """Returns the edge with the highest score, the first of equals, and the runner-up's score."""
    best = -1e300
    second = -1e300
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
    """Returns how many visits edge `j` takes before a rival's score overtakes."""
    mass = W.floats[wave.MASS + j] + float64(W.counts[wave.SPLIT + j])
    return visits_to_overtake(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], mass, rival)


@inner
def fill(W: WavePointers, count: int64, k: int64) -> None:
    """Gives k visits to the loaded edges: to the common level, the remainder to the leaders."""
    left = _fill_to_level(W, count, k)
    if left > 4 * count + 16:  # the level was not found in double precision: more would only loop
        W.counts[wave.SPLIT + leaders(W, count)[0]] += left
        left = int64(0)
    while left > 0:
        j, rival = leaders(W, count)
        given = min(left, visits_in_a_row(W, j, rival))
        W.counts[wave.SPLIT + j] += given
        left -= given
