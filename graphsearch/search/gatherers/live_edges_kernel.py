"""Splits visits over live edges for `exclude`: P is renormalised, and a new leaf takes one visit.

P   .5 x   .3   .2          the first edge leads to a leaf in flight: it counts as an illegal move,
     |      |    |          and the others share the rest: .3 / .5 = .6 and .2 / .5 = .4
   leaf    .6   .4
"""

from __future__ import annotations

from ...graph.arena_kernel import ArenaPointers
from ...jit.compiler import inner
from ...jit.types import float64, int64
from ...position.words import BoardTable
from ...store.record.node_kernel import block_of, edge_at, edge_visits, materialised, move_count, stride_at
from ...store.record.node_layout import NORM
from .. import wave_kernel as wave
from ..flight_kernel import bar, fields_of, in_flight, is_barred
from ..param_layout import LISTED
from ..puct_kernel import (
    edge_value,
    fpu_value,
    is_out,
    make_all_edges,
    power_of,
    scale_of,
)
from ..wave_kernel import WavePointers, node_at, slot_at, words_of
from .allocate_kernel import cover_flight, load_unmade, make_edges, send_split, spent_below, tried_powers
from .columns_kernel import NO_LIMIT, fill


@inner
def _barred_powers(A: ArenaPointers, W: WavePointers, e: int64) -> float64:
    """Returns the sum of code ** 4 over the barred edges of a node."""
    rec, node = slot_at(W, e), node_at(W, e)
    if fields_of(W, node)[wave.BARRED] == 0:
        return 0.0
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    powers = 0.0
    for j in range(materialised(A, rec)):
        if is_barred(W, node, int64(j)):
            powers += power_of(A, edge)
        edge += stride
    return powers


@inner
def bar_unlisted(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> None:
    """Bars the unlisted edges of a restricted root for this wave, as if they were illegal."""
    rec = slot_at(W, e)
    make_all_edges(T, A, words_of(W, e), rec)
    for j in range(move_count(A, rec)):
        if A.ints[LISTED + j] == 0:
            bar(W, node_at(W, e), int64(j), move_count(A, rec))


@inner
def bar_proven(A: ArenaPointers, W: WavePointers, e: int64) -> None:
    """Bars a node's edges with proven results, unless the results of all are proven."""
    s, rec = words_of(W, e), slot_at(W, e)
    m = materialised(A, rec)
    stride = stride_at(A, rec)
    proven = int64(0)
    edge = edge_at(A, rec, int64(0))
    for _ in range(m):
        if edge_visits(A, edge) and is_out(A, edge, s):
            proven += 1
        edge += stride
    if proven == 0 or proven == move_count(A, rec):
        return
    edge = edge_at(A, rec, int64(0))
    for j in range(m):
        if edge_visits(A, edge) and is_out(A, edge, s):
            bar(W, node_at(W, e), int64(j), m)
        edge += stride


@inner
def _load_live(
    A: ArenaPointers, W: WavePointers, e: int64, fpu: float64, scale: float64
) -> tuple[int64, int64]:
    """Loads the scratch columns of all edges; returns (entries, edges). A barred one may take nothing."""
    rec, node = slot_at(W, e), node_at(W, e)
    m = materialised(A, rec)
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    for j in range(m):
        n = edge_visits(A, edge)
        W.floats[wave.BASE + j] = edge_value(A, edge, stride, n) if n else fpu
        W.floats[wave.GAIN + j] = scale * power_of(A, edge)
        W.floats[wave.MASS + j] = float64(1 + n + in_flight(W, node, int64(j)))
        W.floats[wave.MOST + j] = 0.0 if is_barred(W, node, int64(j)) else (NO_LIMIT if n else 1.0)
        W.counts[wave.SPLIT + j] = 0
        edge += stride
    count = load_unmade(A, W, rec, fpu, scale, m)
    for j in range(m, count):
        W.floats[wave.MOST + j] = 1.0
    return m, count


@inner
def split_live(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, k: int64) -> int64:
    """Splits up to `k` visits of an entry over the live edges of its node into `counts[SPLIT:]`.

    Returns the number of edges covered; 0 if none is live. An edge without visits takes one at most.
    The visits given are in flight afterwards.
    """
    rec = slot_at(W, e)
    if fields_of(W, node_at(W, e))[wave.BARRED] >= move_count(A, rec):
        return int64(0)
    cover_flight(T, A, W, e)
    block = block_of(A, rec)
    live = 1.0 - _barred_powers(A, W, e) * float64(A.values[block + NORM])
    scale = scale_of(A, block, spent_below(A, W, e, k, True)) / max(live, 1e-6)
    fpu = fpu_value(A, rec, tried_powers(A, W, e, True))
    m, count = _load_live(A, W, e, fpu, scale)
    fill(W, count, k, True)
    m = make_edges(T, A, W, e, m, count)
    send_split(A, W, e, m)
    return m
