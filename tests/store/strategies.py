"""Hypothesis strategies for records."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import strategies as st

from graphsearch.position.board import board_of
from graphsearch.store.record import Edge, NodeRecord
from graphsearch.store.record_kernel import MAX_RUN

from .records import FENS, random_board, record_of


@st.composite
def node_records(draw: st.DrawFn) -> NodeRecord:
    """Sound records, their extremes included."""
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    board = board_of(draw(st.sampled_from(FENS))) if draw(st.booleans()) else random_board(rng)
    record = record_of(board, rng)
    count = draw(st.integers(0, min(len(record.codes), 5)))
    edges = tuple(draw(edge_values()) for _ in range(count))
    v, d = draw(values())
    return replace(
        record, v=v, d=d, evaluator=draw(st.integers(0, 255)), run=draw(runs()), edges=edges or record.edges
    )


def runs() -> st.SearchStrategy[int]:
    """Numbers of runs, of which some come often."""
    return st.integers(0, 2) | st.integers(0, MAX_RUN) | st.sampled_from((127, 128, 16_383, 16_384, MAX_RUN))


@st.composite
def values(draw: st.DrawFn) -> tuple[float, int]:
    """Values in [-1, 1] as float32, with draws that fit."""
    v = draw(st.floats(-1.0, 1.0, width=32))
    return v, draw(st.integers(0, int(1000 * (1 - abs(v)))))


@st.composite
def edge_values(draw: st.DrawFn) -> Edge:
    """Visited edges, counts up to the largest u32."""
    n = draw(st.integers(1, (1 << 32) - 1) | st.integers(1, 3))
    r = draw(st.just(0) | st.integers(0, n))
    return Edge(n, r, *((0.0, 0) if n == r else draw(values())))
