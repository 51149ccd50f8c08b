"""Converts arrays of values to centipawns, with the same results as `position.values`."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..position.values import (
    CP_FACTOR,
    CP_SLOPE,
    FALLBACK_FACTOR,
    FALLBACK_SLOPE,
    LEAST_CHANCE,
    MOST_CERTAIN,
    WDL_MU,
    cp_from_q,
    cp_of,
    shown_score_type,
)

NEAR = 1e-6  # distance from a tie; NumPy's tan and log differ from `math` by less than 1e-10 centipawns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def cps_from_q(q: Floats) -> Ints:
    """Returns `cp_from_q` of every value.

    >>> cps_from_q(np.array([0.0, 0.5, -0.5, 1.0])).tolist()
    [0, 89, -89, 12780]
    """
    scores = CP_FACTOR * np.tan(CP_SLOPE * np.clip(q, -1.0, 1.0))
    return _rounded(scores, _is_tie(scores), lambda i: cp_from_q(float(q[i])))


def cps_of(q: Floats, draw: Floats) -> Ints:
    """Returns `cp_of` of every value and its draw probability.

    >>> cps_of(np.array([0.4, 1.0, 0.25]), np.array([0.4, 0.0, 0.74])).tolist()
    [100, 12800, 66]
    """
    if shown_score_type() != WDL_MU:
        return cps_from_q(q)
    win, loss = (1.0 + q - draw) / 2, (1.0 - q - draw) / 2
    fallback = FALLBACK_FACTOR * np.tan(FALLBACK_SLOPE * np.clip(q, -1.0, 1.0))
    least = np.minimum(np.minimum(win, draw), loss)
    plain = ~((least <= LEAST_CHANCE) | (np.abs(q) + draw >= MOST_CERTAIN))
    with np.errstate(all="ignore"):
        a, b = np.log(1.0 / loss - 1.0), np.log(1.0 / win - 1.0)
        mu = 100.0 * (a - b) / (a + b)
        closer = (np.abs(mu) < 100.0) | (np.abs(fallback) < np.abs(mu))
        edge = plain & ((np.abs(np.abs(mu) - 100.0) < NEAR) | (np.abs(np.abs(fallback) - np.abs(mu)) < NEAR))
    scores = np.where(plain & closer, mu, fallback)
    return _rounded(scores, _is_tie(scores) | edge, lambda i: cp_of(float(q[i]), float(draw[i])))


def _is_tie(scores: Floats) -> Mask:
    found: Mask = np.abs(np.abs(scores - np.trunc(scores)) - 0.5) < NEAR
    return found


def _rounded(scores: Floats, uncertain: Mask, exact: Callable[[int], int]) -> Ints:
    """Returns rounded scores; computes `uncertain` ones individually with `exact`."""
    found = np.rint(scores).astype(np.int64)
    for i in np.flatnonzero(uncertain).tolist():
        found[i] = exact(i)
    return found


assert math.isfinite(CP_FACTOR * math.tan(CP_SLOPE))
