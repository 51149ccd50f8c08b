"""The rows of the report: medians over graphs, means over positions, and standard errors of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from .filling import Filled
from .price import SEQUENTIAL, Prices

Row = dict[str, Any]
Place = tuple[str, int]  # gatherer, batch

FILLING = ("positions_per_batch", "rounds", "collisions", "gather_us_per_position", "visits_per_s")
MEASURES = ("agreement", "root_distance", "waste", "reference_agreement", "loss")
BY_SEQUENTIAL = ("reference_agreement", "loss")  # measures that are compared with sequential search
SOLVED = ("solved", "solved_of", "solved_vs_sequential", "solved_vs_sequential_error")


def filling(graphs: Sequence[Filled]) -> Row:
    """Returns the medians over some graphs of equal size."""
    times = [graph.gather_us for graph in graphs if graph.gather_us is not None]
    return {
        "graphs": len(graphs),
        "positions_per_batch": _middle([graph.positions for graph in graphs]),
        "rounds": _middle([graph.rounds for graph in graphs]),
        "collisions": _middle([graph.collisions for graph in graphs]),
        "gather_us_per_position": round(statistics.median(times), 4) if times else None,
        "visits_per_s": _rate([graph.visits_per_s for graph in graphs]),
    }


def _middle(counts: Sequence[int]) -> float:
    """Returns the median of counts; a whole number where it is one.

    >>> _middle([3, 4]), _middle([3, 5, 4])
    (3.5, 4)
    """
    found = statistics.median(counts)
    return int(found) if found == int(found) else found


def _rate(values: Sequence[float | None]) -> int | None:
    """Returns the median; None if one is missing, so that it never depends on which ones were timed."""
    known = [value for value in values if value is not None]
    return round(statistics.median(known)) if len(known) == len(values) else None


def price(positions: Sequence[Prices], place: Place) -> Row:
    """Returns what one gatherer and batch cost, over the same positions as all others.

    `agreement`, `root_distance` and `waste` are means, `*_vs_classic` differences to `classic` with the same
    batch, position by position, and `*_vs_sequential` to the sequential search; every figure has its standard
    error as `*_error`. All are None where nothing was searched.
    """
    row: Row = {"positions": len(positions)}
    for name in MEASURES:
        values = _values(positions, place, name)
        row[name], row[f"{name}_error"] = mean(values)
        base = SEQUENTIAL if name in BY_SEQUENTIAL else ("classic", place[1])
        label = f"{name}_vs_{base[0]}"
        row[label], row[f"{label}_error"] = mean(_apart(values, _values(positions, base, name)))
    return row


def solved(positions: Sequence[Prices], place: Place) -> Row:
    """Returns how many problems one gatherer and batch solve, and how many more than sequential search."""
    if not positions:
        return dict.fromkeys(SOLVED)
    values = _values(positions, place, "reference_agreement")
    more, error = mean(_apart(values, _values(positions, SEQUENTIAL, "reference_agreement")))
    count = len(values)
    return {
        "solved": round(sum(values)),
        "solved_of": count,
        "solved_vs_sequential": round((more or 0.0) * count),
        "solved_vs_sequential_error": None if error is None else round(error * count, 2),
    }


def _values(positions: Sequence[Prices], place: Place, name: str) -> list[float]:
    """Returns a figure of every position; with batch 1 every gatherer is the sequential search."""
    field = "good" if name == "reference_agreement" else name
    key = SEQUENTIAL if place[1] == 1 else place
    found = [getattr(prices[key], field) for prices in positions if key in prices]
    return [value for value in found if value is not None]


def _apart(values: Sequence[float], base: Sequence[float]) -> list[float]:
    return [ours - theirs for ours, theirs in zip(values, base, strict=True)] if base else []


def mean(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Returns the mean and its standard error, None where there are too few values.

    >>> mean([1.0, 2.0, 3.0, 4.0]), mean([1.0]), mean([])
    ((2.5, 0.645497), (1.0, None), (None, None))
    """
    if not values:
        return None, None
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else None
    return round(float(np.mean(values)), 6), None if error is None else round(error, 6)
