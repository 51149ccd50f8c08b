"""Numbers for the tests of books."""

from __future__ import annotations

import math

from graphsearch.position.values import CP_FACTOR, CP_SLOPE


def q_from_cp(cp: float) -> float:
    """Returns the Q whose centipawns (`centipawn`) are `cp`."""
    return math.atan(cp / CP_FACTOR) / CP_SLOPE
