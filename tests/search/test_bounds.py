"""Bounds of nodes and edges: kernels read them as the reference does, and no order of updates matters."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numba import float32, int64

from graphsearch.jit.compiler import kernel
from graphsearch.position.board import CLOCK_SHIFT, META
from graphsearch.store import record_kernel as kernels
from graphsearch.store.record import UNPROVEN, Edge, NodeRecord
from graphsearch.store.record_kernel import AT_LEAST, AT_MOST, DRAWN, bounds_of, proof_of, share_of
from tests.support.reference import edge_bounds, edge_code, node_proof

FIELDS = [(q, d) for q in (1.0, -1.0) for d in (0, 1, 2, 499, 500, 501, 640, 1000)]
FIELDS += [(0.0, DRAWN), (0.25, AT_LEAST), (0.25, AT_LEAST + 9), (-0.5, AT_MOST + 3)]
FIELDS += [(0.0, 0), (-0.3, 700), (0.0, 1000)]


@kernel
def read_field(q: Any, d: Any, clock: Any) -> Any:
    low, high = kernels.bounds_of(q, d)
    return kernels.share_of(q, d), low, high, kernels.is_closed(q, d, clock)


@kernel
def read_edges(valued: Any, q: Any, d: Any, covers: Any, clock: Any, resets: Any) -> Any:
    """Returns the flags that edges give, and the draw field of an edge to their node if it is won or lost."""
    tally = kernels.no_tally()
    for k in range(len(valued)):
        tally = kernels.tallied(tally, valued[k], q[k], d[k])
    flags = kernels.tightened(int64(32), tally, covers)
    won = tally[0] == 1
    mate, plies = kernels.decisive_plies(won, tally, covers, clock, int64(0))
    code = kernels.code_of(mate, plies)
    return flags, kernels.turned(float32(-1.0) if won else float32(1.0), code, resets)


def test_kernels_read_a_draw_field_as_the_reference_does() -> None:
    for q, d in FIELDS:
        proof = proof_of(q, d)
        for clock in (0, 1, 50, 99, 100):
            closed = proof is not None and proof.holds_at(clock)
            assert read_field(np.float32(q), d, clock) == (share_of(q, d), *bounds_of(q, d), closed), (q, d)


def test_kernels_tell_the_same_of_a_node_as_the_reference() -> None:
    rng = random.Random(7)
    for _ in range(1000):
        moves = rng.randint(1, 4)
        edges = [(rng.randint(0, 1), *rng.choice(FIELDS)) for _ in range(rng.randint(1, moves))]
        valued, fields = [edge[0] for edge in edges], [edge[2] for edge in edges]
        values = np.array([edge[1] for edge in edges], np.float32)
        covers, clock, resets = len(edges) == moves, rng.randint(0, 100), rng.random() < 0.5
        flags, code = read_edges(np.array(valued), values, np.array(fields), covers, clock, resets)
        bounds = edge_bounds(edges, moves)
        assert ((flags >> 2 & 3) - 1, (flags >> 4 & 3) - 1) == bounds
        proof = node_proof(bounds, edges, moves, clock)
        assert (bounds[0] == bounds[1]) == (proof is not None)
        words = (0,) * META + (clock << CLOCK_SHIFT, 0)
        its = tuple(Edge(n, 0, q, d) for n, q, d in edges)
        record = NodeRecord(words, 0.0, 0, 1, UNPROVEN, bytes([1] * moves), its)
        assert (record.bounds, record.proof) == (bounds, proof)
        if proof and proof.result:
            assert code == kernels.code_of_proof(proof, resets=resets) == edge_code(proof, resets=resets)
