"""Splits visits over columns of scores: up to one common level, the remainder to the leaders.

column   of one edge: b, c P, 1 + n + f, and the visits given so far (`BASE`, `GAIN`, `MASS`, `SPLIT`);
         where visits are `limited`, also the number that it may still take (`MOST`)
level    the score t above which the edges take all visits: x = c P / (t - b) - (n + f) each
"""

from __future__ import annotations

import numpy as np

from ...jit.compiler import inlined, inner
from ...jit.types import float64, int64
from .. import wave_kernel as wave
from ..puct_kernel import NEVER, score
from ..wave_kernel import WavePointers

FOREVER = 1 << 60
NO_LIMIT, MOST_GIVEN = 1e300, 1e15
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


@inlined
def _room(W: WavePointers, j: int64, limited: bool) -> float64:
    """Returns the number of visits that an edge may still take."""
    return W.floats[wave.MOST + j] if limited else NO_LIMIT


@inner
def _visits_at(W: WavePointers, count: int64, t: float64, limited: bool) -> tuple[float64, float64]:
    """Returns (visits that all edges together take above score `t`, their rate of decrease with t)."""
    total = 0.0
    slope = 0.0
    for j in range(count):
        room = _room(W, j, limited)
        gap = t - W.floats[wave.BASE + j]
        if gap > 0.0 and room > 0.0:
            x = visits_above(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], W.floats[wave.MASS + j], t)
            if x >= room:
                total += room
            elif x > 0.0:
                total += x
                slope += W.floats[wave.GAIN + j] / (gap * gap)
        elif limited:
            total += room
    return total, slope


@inner
def _bounds(W: WavePointers, count: int64, k: int64, limited: bool) -> tuple[float64, float64]:
    """Returns two scores around the level: at the lower, one edge takes k; at the upper, all take less."""
    low = NEVER
    best = NEVER
    gains = 0.0
    for j in range(count):
        if _room(W, j, limited) > 0.0:
            mass = W.floats[wave.MASS + j] + float64(k) - 1.0
            low = max(low, score(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], mass))
            best = max(best, W.floats[wave.BASE + j])
            gains += W.floats[wave.GAIN + j]
    return low, best + gains / float64(k)


@inner
def _level(W: WavePointers, count: int64, k: int64, limited: bool) -> float64:
    """Returns the score t above which the edges take `k` visits together, or a little less.

    Newton from below: without limits the sum is convex and falls with t, so every step stays below the root.
    With limits it is not convex, and bisection replaces steps that leave the bounds. If the limits allow less
    than `k`, t is the score at which the edges take all they may.
    """
    low, high = _bounds(W, count, k, limited)
    t = low
    for _ in range(NEWTON_STEPS):
        total, slope = _visits_at(W, count, t, limited)
        missing = float64(k) - total
        if missing > -0.01 and (not limited or missing < 0.01):
            break
        if missing < 0.0:
            low = t
        else:
            high = t
        t = t - missing / slope if slope > 0.0 else high
        if limited and (t <= low or t >= high):
            t = 0.5 * (low + high)
    return t


@inner
def _fill_to_level(W: WavePointers, count: int64, k: int64, limited: bool) -> int64:
    """Gives every edge the whole visits above the common level; returns the rest of `k`."""
    t = _level(W, count, k, limited)
    left = int64(k)
    for j in range(count):
        room = _room(W, j, limited)
        if room > 0.0:
            x = room if limited else 0.0  # if its value alone is above the level
            if t > W.floats[wave.BASE + j]:
                x = visits_above(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], W.floats[wave.MASS + j], t)
            if x >= 1.0:
                given = min(int64(min(x, room, MOST_GIVEN)), left)
                _add_visits(W, j, given, limited)
                left -= given
    return left


@inlined
def _add_visits(W: WavePointers, j: int64, given: int64, limited: bool) -> None:
    """Gives visits to an edge."""
    W.counts[wave.SPLIT + j] += given
    if limited:
        W.floats[wave.MOST + j] -= float64(given)


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
def _hide_full(W: WavePointers, count: int64) -> None:
    """Keeps edges that may take no more visits from leading."""
    for j in range(count):
        if W.floats[wave.MOST + j] < 1.0:
            W.floats[wave.BASE + j] = NEVER


@inner
def fill(W: WavePointers, count: int64, k: int64, limited: bool) -> None:
    """Gives k visits to the loaded edges: up to the common level, the remainder to the leaders, in runs.

    `limited`: only as many as the edges may take.
    """
    left = _fill_to_level(W, count, k, limited) if k > 1 else int64(k)
    if left > 4 * count + 16 and not limited:  # the level was not found in double precision
        W.counts[wave.SPLIT + leaders(W, count)[0]] += left
        left = int64(0)
    while left > 0:
        if limited:
            _hide_full(W, count)
        j, rival = leaders(W, count)
        room = _room(W, j, limited)
        if room < 1.0:
            return
        given = int64(min(float64(min(left, visits_in_a_row(W, j, rival))), room))
        _add_visits(W, j, given, limited)
        left -= given
