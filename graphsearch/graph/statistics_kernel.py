"""Statistics of a node from its edges: N, Q and the draw share.

    N = 1 + sum n_a      Q = clamp(L, H, (V + sum n_a E_a) / N)
    E_a = ((n_a - r_a) q_a + r_a draw) / n_a

The update is idempotent: it reads the edges of one record and writes that record's block header.
"""

from __future__ import annotations

from ..jit.compiler import inlined, inner
from ..jit.types import float32, float64, int64, uint32
from ..store.record.bounds_kernel import is_special, share_of, tighten
from ..store.record.node_kernel import (
    block_of,
    clear_state,
    draw_visits,
    edge_at,
    edge_draws,
    edge_q,
    edge_visits,
    flags_of,
    has_block,
    lower_in,
    materialised,
    stride_at,
    upper_in,
    value_draws,
    value_of,
)
from ..store.record.node_layout import BLOCK_Q, BLOCK_VISITS, STALE
from . import arena_kernel as arena
from .arena_kernel import ArenaPointers
from .blocks_kernel import draws_of, set_draws

DRAW_MILLE = 1000
MAX_VISITS = 0xFFFFFFFF


@inner
def clamp_to_bounds(flags: int64, q: float64) -> float64:
    """Returns a Q inside the proven bounds that a record's flags hold."""
    return min(max(q, float64(lower_in(flags))), float64(upper_in(flags)))


@inner
def cap_draws(draws: int64, q: float32) -> int64:
    """Returns a draw share per mille, limited to 1 - |Q|: means of rounded shares can exceed it."""
    return min(int64(draws), int64(float64(DRAW_MILLE) * (1.0 - abs(float64(q))) + 0.5))


@inlined
def weighed(n: int64, r: int64, q: float32, draws: int64) -> tuple[float64, int64]:
    """Returns an edge's terms in its node's sums of Q and of draws per mille; `draws`: its draw field."""
    return float64(n - r) * float64(q), (n - r) * share_of(q, draws) + r * DRAW_MILLE


@inner
def mean(flags: int64, total: float64, draws: int64, node_n: int64) -> tuple[float32, int64]:
    """Returns node Q = clamp(L, H, total / N), float32, and the draw share per mille, from its sums."""
    q = float32(clamp_to_bounds(flags, total / float64(node_n)))
    if lower_in(flags) == upper_in(flags):
        return q, int64(0) if q else int64(DRAW_MILLE)
    return q, cap_draws((2 * draws + node_n) // (2 * node_n), q)


@inner
def refresh(A: ArenaPointers, rec: int64) -> None:
    """Recomputes a record's block header (sum of n, Q, draw share) and its bounds from its edges."""
    clear_state(A, rec, STALE)
    if not has_block(A, rec):
        return
    stride = stride_at(A, rec)
    block = block_of(A, rec)
    edge = edge_at(A, rec, int64(0))
    visits = int64(0)
    draws = value_draws(A, rec)
    total = float64(value_of(A, rec))
    proves = False
    for _ in range(materialised(A, rec)):
        n = edge_visits(A, edge)
        if n:
            r = draw_visits(A, edge, stride)
            visits += n
            q, d = edge_q(A, edge), edge_draws(A, edge)
            if is_special(q, d):
                proves = True
            value, drawn = weighed(n, r, q, d)
            total += value
            draws += drawn
        edge += stride
    if proves:
        tighten(A, rec)
    if visits > MAX_VISITS:
        A.counters[arena.OVERFLOWS] += 1
    A.blocks[block + BLOCK_VISITS] = uint32(visits)
    node_mean, share = mean(flags_of(A, rec), total, draws, visits + 1)
    A.values[block + BLOCK_Q] = node_mean
    set_draws(A, block, share)


@inner
def child_visits(A: ArenaPointers, rec: int64) -> int64:
    """Returns the sum of n of a record's edges, node N - 1."""
    if not has_block(A, rec):
        return int64(0)
    return int64(A.blocks[block_of(A, rec) + BLOCK_VISITS])


@inner
def node_q(A: ArenaPointers, rec: int64) -> float32:
    """Returns node Q, float32; the header must be fresh."""
    if not has_block(A, rec):
        return value_of(A, rec)
    return A.values[block_of(A, rec) + BLOCK_Q]


@inner
def node_draws(A: ArenaPointers, rec: int64) -> int64:
    """Returns the node's draw share per mille; the header must be fresh."""
    if not has_block(A, rec):
        return value_draws(A, rec)
    return draws_of(A, block_of(A, rec))
