"""The `floats` and `ints` of an arena: the search's parameters, and the root's listed edges."""

from __future__ import annotations

from ..graph.arena_kernel import FLOATS, SEARCH_FLOATS, SEARCH_INTS

(
    CPUCT,
    CPUCT_BASE,
    CPUCT_FACTOR,
    FPU_VALUE,
    CATCH_UP_RATIO,
    WAVE_SHARE,
    LEAST_DECIDED,  # `puct.least_decided`
) = range(SEARCH_FLOATS, SEARCH_FLOATS + 7)
EXPLORATION = SEARCH_FLOATS + 8  # c(N) sqrt(max(1, sum n)) for small sums of n
EXPLORATION_ENTRIES = FLOATS - EXPLORATION

# the gatherer by its place in `params.GATHERERS` | its limits | 1: the root's edges without a mark in LISTED
# take no visits of this search
SCHEME, COLLISION_EVENTS, COLLISION_VISITS, RESTRICTED = range(SEARCH_INTS, SEARCH_INTS + 4)
LISTED = SEARCH_INTS + 8  # by edge, in descending P
