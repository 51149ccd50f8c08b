"""How one node splits visits: against brute force, and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsearch.jit.compiler import kernel
from graphsearch.search import gather_kernel, wave_kernel

WAVE = wave_kernel.new_wave(4)


@kernel
def fill_in_kernel(W: Any, count: int, k: int) -> None:
    gather_kernel.fill(W, count, k)


@kernel
def divide_in_kernel(W: Any, m: int, total: int) -> None:
    gather_kernel.divide(W, m, total)


def load(edges: list[tuple[float, float, float]]) -> None:
    """Puts (value, c P, 1 + n + in flight) of every edge into the scratch columns."""
    for j, (base, gain, mass) in enumerate(edges):
        WAVE.floats[wave_kernel.BASE + j] = base
        WAVE.floats[wave_kernel.GAIN + j] = gain
        WAVE.floats[wave_kernel.MASS + j] = mass
        WAVE.counts[wave_kernel.SPLIT + j] = 0


def given_to(count: int) -> list[int]:
    return [int(x) for x in WAVE.counts[wave_kernel.SPLIT : wave_kernel.SPLIT + count]]


def one_by_one(edges: list[tuple[float, float, float]], k: int) -> list[int]:
    """Gives every visit to the edge with the highest score, and counts it before the next."""
    taken = [0] * len(edges)
    for _ in range(k):
        scores = [base + gain / (mass + taken[j]) for j, (base, gain, mass) in enumerate(edges)]
        taken[int(np.argmax(scores))] += 1
    return taken


EDGES = st.lists(
    st.tuples(
        st.floats(-1, 1).map(lambda x: round(x, 3)),
        st.floats(0.001, 20).map(lambda x: round(x, 3)),
        st.integers(1, 400).map(float),
    ),
    min_size=1,
    max_size=12,
)


def fair(edges: list[tuple[float, float, float]], found: list[int]) -> bool:
    """Returns whether no visit would have gone elsewhere: the least taken is not below the best left."""
    last = min((b + g / (m + x - 1) for (b, g, m), x in zip(edges, found, strict=True) if x), default=9e9)
    best = max(b + g / (m + x) for (b, g, m), x in zip(edges, found, strict=True))
    return last >= best - 1e-9


@given(EDGES, st.integers(1, 500))
@settings(max_examples=50)
def test_the_level_is_what_visits_one_by_one_come_to(edges: list[tuple[float, float, float]], k: int) -> None:
    load(edges)
    fill_in_kernel(WAVE, len(edges), k)
    found = given_to(len(edges))
    assert sum(found) == k
    assert fair(edges, found)
    expected = one_by_one(edges, k)
    if found != expected:  # only ties may fall to other edges
        assert fair(edges, expected)
        assert sum(abs(a - b) for a, b in zip(found, expected, strict=True)) <= 2 * len(edges)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40), st.integers(0, 10**9))
@settings(max_examples=50)
def test_collisions_are_divided_without_rest(visits: list[int], total: int) -> None:
    if not sum(visits):
        return
    WAVE.counts[wave_kernel.SPLIT : wave_kernel.SPLIT + len(visits)] = visits
    divide_in_kernel(WAVE, len(visits), total)
    parts = WAVE.floats[wave_kernel.PART : wave_kernel.PART + len(visits)]
    assert parts.sum() == total
    for part, k in zip(parts, visits, strict=True):
        assert abs(part - total * k / sum(visits)) < 1
