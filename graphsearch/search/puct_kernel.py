"""PUCT on one record: its Q and draw share, the score of its edges, the edge to visit next.

    S_a = E_a + c(N) P_a sqrt(max(1, sum n)) / (1 + n_a + inflight_a)
    c(N) = CPuct + CPuctFactor ln((N + CPuctBase) / CPuctBase)
    E_a = ((n_a - r_a) q_a + r_a draw) / n_a,  draw = 0;  FPU = Q - FpuValue sqrt(sum of visited P)

Double precision throughout; the stored numbers are float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import float64, int64, uint32

from ..graph.arena_kernel import POWERS
from ..graph.heap_kernel import grow_block
from ..jit.compiler import inlined, inner, kernel
from ..jit.pointers import ptr
from ..record.bounds_kernel import DRAWN, holds_here, is_special
from ..record.node_kernel import (
    block_class_of,
    block_of,
    draw_visits,
    header_bytes,
    materialised,
    move_count,
    stride_at,
)
from ..record.node_layout import BLOCK_HEADER, BLOCK_Q, BLOCK_VISITS, NO_BLOCK, NORM
from .layout import CPUCT, CPUCT_BASE, CPUCT_FACTOR, EXPLORATION, EXPLORATION_ENTRIES, FPU_VALUE

NEVER = -1e300  # a score below all others


@inner
def exploration_term(floats: Any, visits: Any) -> Any:
    """Returns c(N) sqrt(max(1, visits)) for the visits spent below a node, N = visits + 1."""
    base = floats[CPUCT_BASE]
    cpuct = floats[CPUCT] + floats[CPUCT_FACTOR] * np.log((float64(visits) + 1.0 + base) / base)
    return cpuct * np.sqrt(max(1.0, float64(visits)))


@inner
def exploration(A: Any, visits: Any) -> Any:
    """Returns `exploration_term`, from the arena's table where it reaches."""
    if visits < EXPLORATION_ENTRIES:
        return A.floats[EXPLORATION + visits]
    return exploration_term(A.floats, visits)


@kernel
def fill_exploration(floats: Any) -> None:
    """Tabulates `exploration_term` for 0, 1, 2... visits."""
    for visits in range(EXPLORATION_ENTRIES):
        floats[EXPLORATION + visits] = exploration_term(ptr(floats, 0), visits)


@inner
def power_of(A: Any, x: Any) -> Any:
    """Returns code ** 4 of the entry at word `x`."""
    return A.floats[POWERS + int64((A.blocks[x + 2] >> uint32(16)) & uint32(63))]


@inner
def edge_value(A: Any, x: Any, stride: Any, n: Any) -> Any:
    """Returns E = ((n - r) q + r draw) / n of a visited entry, draw = 0."""
    r = draw_visits(A, x, stride)
    if r:
        return float64(n - r) * float64(A.values[x + 1]) / float64(n)
    return float64(A.values[x + 1])


@inner
def fpu_value(A: Any, rec: Any, visited_powers: Any) -> Any:
    """Returns FPU = Q - FpuValue sqrt(sum of visited P) of a record with a block."""
    block = block_of(A, rec)
    visited = visited_powers * float64(A.values[block + NORM])
    return float64(A.values[block + BLOCK_Q]) - A.floats[FPU_VALUE] * np.sqrt(visited)


@inlined
def is_out(A: Any, x: Any, s: Any) -> Any:
    """Returns whether a visited entry's result is proven at its position: more visits say nothing new."""
    d = int64(A.blocks[x + 2] >> uint32(22))
    return is_special(A.values[x + 1], d) and d <= DRAWN and holds_here(A, x, s)


@inner
def _best_entry(A: Any, rec: Any, m: Any, scale: Any, s: Any, heeds: Any) -> Any:
    """Returns (score, entry) of the best visited edge, the first one without visits, the visited powers.

    The entry is -1 if there is none; `heeds`: edges with a proven result are passed over.
    """
    stride = stride_at(A, rec)
    best = NEVER
    chosen = int64(-1)
    unvisited = int64(m)  # the first unvisited entry has the largest P of all that are
    visited_powers = 0.0
    x = block_of(A, rec) + BLOCK_HEADER
    for j in range(m):
        n = int64(A.blocks[x])
        if n:
            power = power_of(A, x)
            visited_powers += power
            score = edge_value(A, x, stride, n) + scale * power / float64(1 + n)
            if score > best and not (heeds and is_out(A, x, s)):
                best = score
                chosen = int64(j)
        elif unvisited == m:
            unvisited = int64(j)
        x += stride
    return best, chosen, unvisited, visited_powers


@inner
def select(T: Any, A: Any, s: Any, rec: Any) -> Any:
    """Returns the entry number of the edge with the highest score (the first of equals).

    Edges with a proven result have left the selection, unless all have. Makes the entry if need be.
    """
    if block_class_of(A, rec) == NO_BLOCK:
        grow_block(T, A, s, rec, int64(1), False)
        return int64(0)
    m = materialised(A, rec)
    block = block_of(A, rec)
    scale = exploration(A, int64(A.blocks[block + BLOCK_VISITS])) * float64(A.values[block + NORM])
    best, chosen, unvisited, visited_powers = _best_entry(A, rec, m, scale, s, True)
    if unvisited < move_count(A, rec):
        if unvisited < m:
            power = power_of(A, block + BLOCK_HEADER + unvisited * stride_at(A, rec))
        else:
            power = A.floats[POWERS + int64(header_bytes(A, rec)[2])]
        score = fpu_value(A, rec, visited_powers) + scale * power
        if score > best or (score == best and unvisited < chosen):
            if unvisited == m:
                grow_block(T, A, s, rec, m + 1, False)
            return unvisited
    if chosen < 0:
        return _best_entry(A, rec, m, scale, s, False)[1]
    return chosen
