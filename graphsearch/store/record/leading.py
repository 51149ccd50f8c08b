"""The leading one of a position's unproven moves: the most visited one at first, later chosen by value."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .node import NodeRecord

# From so many visits of a position on, its leading move is chosen by value, among the moves with at least one
# visit for so many of the most visited move: the value less so much over the root of the move's visits.
LED_BY_VALUE_FROM, MOST_TIMES_FEWER, CAUTION = 10_000, 20, 4.0


def cautious_value(value: float, visits: float) -> float:
    """Returns the value of a move less its uncertainty; `visits`: above 0, of the move."""
    return value - CAUTION / math.sqrt(visits)


def leader_of(record: NodeRecord, open_edges: Iterable[int]) -> int | None:
    """Returns which of the unproven edges leads: the most visited one, later the one of the best value.

    After LED_BY_VALUE_FROM visits of the position, the move of the highest `value - CAUTION / sqrt(n)` finds
    better moves than the most visited one, before that it does not (docs/contributing/benchmarks.md).
    """
    edges, places = record.edges, list(open_edges)
    most = max(places, key=lambda k: (edges[k].n, edges[k].value), default=None)
    if most is None or not edges[most].n or record.visits < LED_BY_VALUE_FROM:
        return most
    trusted = [most, *(k for k in places if edges[k].n * MOST_TIMES_FEWER >= edges[most].n)]
    return max(trusted, key=lambda k: cautious_value(edges[k].value, edges[k].n))
