"""PUCT on one record: the values and scores of its edges, and the edge to visit next.

The formulas are those of `puct.py`, compiled. P is `code ** 4 * NORM`; the factor NORM of a block, which all
its edges share, goes into the exploration term:

    gain of an edge = scale * code ** 4,   scale = c(N) o(Q) sqrt(max(1, sum n)) * NORM

The parameters, and the root's listed edges, stand in `floats` and `ints` of the arena. In a search of some
root moves only, `ints[LISTED + j]` is 1 if edge `j` of the root, in descending P, takes visits. Gatherers
check it at the root only: below, a return to the root's position is a path draw. P, FPU and the visits of the
other edges stay unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..graph import arena_kernel as arena
from ..graph.arena_kernel import (
    FLOATS,
    NOTES,
    SEARCH_FLOATS,
    SEARCH_INTS,
    ArenaArrays,
    grow_block,
)
from ..jit.compiler import inner, kernel
from ..jit.pointers import ptr
from ..jit.types import Pointer, float64, int64
from ..position.words import BoardTable, Position
from ..store.bounds_kernel import DRAWN, holds_here, is_special
from ..store.record_kernel import (
    BLOCK_Q,
    BLOCK_VISITS,
    NORM,
    best_code_of,
    block_of,
    draw_visits,
    edge_at,
    edge_code,
    edge_draws,
    edge_q,
    edge_visits,
    has_block,
    materialised,
    move_count,
    stride_at,
)
from . import puct
from .params import GATHERERS, SearchParams
from .wave_kernel import has_notes, visits_over

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


NEVER = -1e300  # a score below all others


_term = inner(puct.exploration_term)
_mean = inner(puct.mean_with_draws)
_fpu = inner(puct.fpu)
score = inner(puct.score)
_openness = inner(puct.openness)


@inner
def exploration_term(floats: Pointer[float64], visits: int64) -> float64:
    """Returns c(N) sqrt(max(1, visits)) for the visits spent below a node, N = visits + 1."""
    return _term(float64(visits), floats[CPUCT], floats[CPUCT_BASE], floats[CPUCT_FACTOR])


@inner
def exploration(A: ArenaArrays, visits: int64) -> float64:
    """Returns `exploration_term`, from the arena's table for small numbers of visits."""
    if visits < EXPLORATION_ENTRIES:
        return A.floats[EXPLORATION + visits]
    return exploration_term(A.floats, visits)


@inner
def scale_of(A: ArenaArrays, block: int64, visits: int64) -> float64:
    """Returns the factor that turns code ** 4 of an edge into its gain after `visits` visits."""
    opened = _openness(float64(A.values[block + BLOCK_Q]), A.floats[LEAST_DECIDED])
    return exploration(A, visits) * opened * float64(A.values[block + NORM])


@inner
def power_of(A: ArenaArrays, edge: int64) -> float64:
    """Returns code ** 4 of an edge."""
    return A.floats[arena.POWERS + edge_code(A, edge)]


@inner
def edge_value(A: ArenaArrays, edge: int64, stride: int64, n: int64) -> float64:
    """Returns E of an edge with n > 0 visits."""
    r = draw_visits(A, edge, stride)
    if r:
        return _mean(float64(edge_q(A, edge)), float64(n), float64(r))
    return float64(edge_q(A, edge))


@inner
def fpu_value(A: ArenaArrays, rec: int64, visited_powers: float64) -> float64:
    """Returns FPU of a record with a block; `visited_powers`: sum of code ** 4 over its visited edges."""
    block = block_of(A, rec)
    visited = visited_powers * float64(A.values[block + NORM])
    return _fpu(float64(A.values[block + BLOCK_Q]), A.floats[FPU_VALUE], visited)


@inner
def best_unmade(A: ArenaArrays, rec: int64, fpu: float64, scale: float64) -> float64:
    """Returns the score of the likeliest edge beyond the block."""
    return score(fpu, scale * A.floats[arena.POWERS + best_code_of(A, rec)], 1.0)


@inner
def is_out(A: ArenaArrays, edge: int64, s: Position) -> bool:
    """Returns whether a visited edge's result is proven at its position, so that more visits add nothing."""
    d = edge_draws(A, edge)
    return is_special(edge_q(A, edge), d) and d <= DRAWN and holds_here(A, edge, s)


@inner
def _best_edge(
    A: ArenaArrays, rec: int64, m: int64, scale: float64, s: Position, heeds: bool
) -> tuple[float64, int64, int64, float64]:
    """Returns (score and number of the best visited edge, first unvisited edge, sum of visited code ** 4).

    The number is -1 if there is none; `heeds`: skip edges with a proven result.
    """
    stride = stride_at(A, rec)
    best = NEVER
    chosen = int64(-1)
    unvisited = int64(m)  # the first unvisited edge has the largest P of them
    visited_powers = 0.0
    edge = edge_at(A, rec, int64(0))
    for j in range(m):
        n = edge_visits(A, edge)
        if n:
            power = power_of(A, edge)
            visited_powers += power
            found = score(edge_value(A, edge, stride, n), scale * power, float64(1 + n))
            if found > best and not (heeds and is_out(A, edge, s)):
                best = found
                chosen = int64(j)
        elif unvisited == m:
            unvisited = int64(j)
        edge += stride
    return best, chosen, unvisited, visited_powers


@inner
def select(T: BoardTable, A: ArenaArrays, s: Position, rec: int64) -> int64:
    """Returns the number of the edge with the highest score (the first of equals).

    It skips edges with a proven result, unless all have one, and adds the edge to the block if necessary.
    """
    if not has_block(A, rec):
        grow_block(T, A, s, rec, int64(1), False)
        return int64(0)
    m = materialised(A, rec)
    block = block_of(A, rec)
    scale = scale_of(A, block, int64(A.blocks[block + BLOCK_VISITS]))
    best, chosen, unvisited, visited_powers = _best_edge(A, rec, m, scale, s, True)
    if unvisited < move_count(A, rec):
        fpu = fpu_value(A, rec, visited_powers)
        if unvisited < m:
            found = score(fpu, scale * power_of(A, edge_at(A, rec, unvisited)), 1.0)
        else:
            found = best_unmade(A, rec, fpu, scale)
        if found > best or (found == best and unvisited < chosen):
            if unvisited == m:
                grow_block(T, A, s, rec, m + 1, False)
            return unvisited
    if chosen < 0:
        return _best_edge(A, rec, m, scale, s, False)[1]
    return chosen


@inner
def make_all_edges(T: BoardTable, A: ArenaArrays, s: Position, rec: int64) -> None:
    """Adds every move of a record to its block, so that even an unlikely listed move has an edge there."""
    if materialised(A, rec) < move_count(A, rec):
        grow_block(T, A, s, rec, move_count(A, rec), False)


@inner
def select_listed(T: BoardTable, A: ArenaArrays, s: Position, rec: int64) -> int64:
    """Returns the listed edge with the highest score, the first of equals: `select` at a restricted root."""
    make_all_edges(T, A, s, rec)
    block = block_of(A, rec)
    stride = stride_at(A, rec)
    scale = scale_of(A, block, int64(A.blocks[block + BLOCK_VISITS]))
    visited_powers = 0.0
    for j in range(materialised(A, rec)):
        edge = edge_at(A, rec, j)
        if edge_visits(A, edge):
            visited_powers += power_of(A, edge)
    fpu = fpu_value(A, rec, visited_powers)
    best = NEVER
    chosen = int64(0)
    for j in range(materialised(A, rec)):
        if A.ints[LISTED + j]:
            edge = edge_at(A, rec, j)
            n = edge_visits(A, edge)
            value = edge_value(A, edge, stride, n) if n else fpu
            found = score(value, scale * power_of(A, edge), float64(1 + n))
            if found > best:
                best = found
                chosen = int64(j)
    return chosen


@inner
def _load_masses(A: ArenaArrays, rec: int64, at: int64, masses: Pointer[float64]) -> tuple[int64, float64]:
    """Writes 1 + n + visits in flight of a block's edges; returns (all in flight, sum of tried code ** 4)."""
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    powers = 0.0
    for j in range(materialised(A, rec)):
        n = edge_visits(A, edge)
        masses[j] = float64(1 + n)
        if n:
            powers += power_of(A, edge)
        edge += stride
    flying = int64(0)
    for note in range(A.guards[at + NOTES]):
        j, visits = visits_over(A, at, rec, note)
        if j >= 0:
            if masses[j] == 1.0:
                powers += power_of(A, edge_at(A, rec, j))
            masses[j] += float64(visits)
            flying += visits
    return flying, powers


@inner
def _best_beside(
    A: ArenaArrays,
    s: Position,
    rec: int64,
    masses: Pointer[float64],
    scale: float64,
    fpu: float64,
    heeds: bool,
) -> tuple[float64, int64]:
    """Returns (score, number) of the best edge that leads to no leaf in flight; number -1: none."""
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    best = NEVER
    chosen = int64(-1)
    for j in range(materialised(A, rec)):
        n = edge_visits(A, edge)
        if n or masses[j] == 1.0:
            value = edge_value(A, edge, stride, n) if n else fpu
            found = score(value, scale * power_of(A, edge), masses[j])
            if found > best and not (heeds and n and is_out(A, edge, s)):
                best = found
                chosen = int64(j)
        edge += stride
    return best, chosen


@inner
def select_beside(
    T: BoardTable, A: ArenaArrays, s: Position, rec: int64, at: int64, masses: Pointer[float64]
) -> int64:
    """Returns the best edge, visits in flight included; -1 if all edges lead to leaves in flight.

    It selects like `select`, but a visit in flight counts as completed, and edges to leaves in flight are
    skipped.

    Args:
      at: the record's row, locked. masses: scratch of 256.
    """
    if not (has_notes(A, at) and has_block(A, rec)):
        return select(T, A, s, rec)
    flying, powers = _load_masses(A, rec, at, masses)
    if flying == 0:
        return select(T, A, s, rec)
    m, block = materialised(A, rec), block_of(A, rec)
    scale = scale_of(A, block, int64(A.blocks[block + BLOCK_VISITS]) + flying)
    fpu = fpu_value(A, rec, powers)
    best, chosen = _best_beside(A, s, rec, masses, scale, fpu, True)
    if m < move_count(A, rec) and best_unmade(A, rec, fpu, scale) > best:
        grow_block(T, A, s, rec, m + 1, False)
        return m
    if chosen < 0:
        return _best_beside(A, s, rec, masses, scale, fpu, False)[1]
    return chosen


@kernel
def fill_exploration(floats: NDArray[np.float64]) -> None:
    """Tabulates `exploration_term` for 0, 1, 2... visits."""
    for visits in range(EXPLORATION_ENTRIES):
        floats[EXPLORATION + visits] = exploration_term(ptr(floats, 0), visits)


# ------------------------------------------------------------------ settings
def set_params(arrays: ArenaArrays, params: SearchParams) -> None:
    """Writes the search parameters for the kernels into the arena's arrays."""
    floats, ints = arrays.floats, arrays.ints
    floats[CPUCT] = params.cpuct
    floats[CPUCT_BASE] = params.cpuct_base
    floats[CPUCT_FACTOR] = params.cpuct_factor
    floats[FPU_VALUE] = params.fpu_value
    floats[CATCH_UP_RATIO] = params.catch_up_ratio
    floats[WAVE_SHARE] = params.max_wave_share
    floats[LEAST_DECIDED] = puct.least_decided(params.decided_from)
    fill_exploration(floats)
    ints[SCHEME] = GATHERERS.index(params.gather)
    ints[COLLISION_EVENTS] = params.max_collision_events
    ints[COLLISION_VISITS] = params.max_collision_visits


def set_listed(arrays: ArenaArrays, edges: Sequence[int] | None) -> None:
    """Restricts searches to these edges of the root, counted in descending P; None: all."""
    arrays.ints[RESTRICTED] = edges is not None
    arrays.ints[LISTED:] = 0
    arrays.ints[[LISTED + k for k in edges or ()]] = 1
