"""A search of some moves of the root only: the other edges take none of its visits.

`ints[LISTED + j]` says whether edge `j` of the root, counted in descending P, is listed. Every gatherer asks
at the root and nowhere else: below it a return to the root's position is a draw of the path. P and FPU stay
as they are, and so do the visits that other edges have from earlier searches.
"""

from __future__ import annotations

from ...graph.arena_kernel import ArenaPointers
from ...graph.heap_kernel import grow_block
from ...jit.compiler import inner
from ...jit.types import float64, int64
from ...position.words import BoardTable, Position
from ...store.record.node_kernel import block_of, edge_at, edge_visits, materialised, move_count, stride_at
from ...store.record.node_layout import BLOCK_VISITS
from .. import wave_kernel as wave
from ..flight_kernel import bar
from ..param_layout import LISTED, RESTRICTED
from ..puct_kernel import NEVER, edge_value, fpu_value, power_of, scale_of, score
from ..wave_kernel import WavePointers, field
from .allocate_kernel import LEVEL_FROM, columns, give
from .columns_kernel import fill, leaders, set_column, visits_in_a_row


@inner
def is_restricted(A: ArenaPointers, W: WavePointers, e: int64) -> bool:
    """Returns whether an entry is the root of a search of some of its moves only."""
    return A.ints[RESTRICTED] != 0 and field(W, e, wave.PARENT) < 0


@inner
def make_all_edges(T: BoardTable, A: ArenaPointers, s: Position, rec: int64) -> None:
    """Puts every move of a record into its block, so that a listed one is there however unlikely it is."""
    if materialised(A, rec) < move_count(A, rec):
        grow_block(T, A, s, rec, move_count(A, rec), False)


@inner
def select_listed(T: BoardTable, A: ArenaPointers, s: Position, rec: int64) -> int64:
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
def _listed_columns(
    T: BoardTable,
    A: ArenaPointers,
    W: WavePointers,
    s: Position,
    rec: int64,
    node: int64,
    k: int64,
    grows: bool,
) -> int64:
    """Loads the scratch columns of all edges, unlisted ones with a score that never leads.

    Returns their number.
    """
    make_all_edges(T, A, s, rec)
    m = columns(T, A, W, s, rec, node, k, grows, False)[0]
    for j in range(m):
        if A.ints[LISTED + j] == 0:
            set_column(W, int64(j), NEVER, 0.0, 1.0)
    return m


@inner
def allocate_listed(
    T: BoardTable,
    A: ArenaPointers,
    W: WavePointers,
    s: Position,
    rec: int64,
    node: int64,
    k: int64,
    grows: bool,
) -> int64:
    """Splits `k` visits of the root over its listed edges: `allocate` at a restricted root."""
    m = _listed_columns(T, A, W, s, rec, node, k, grows)
    if k > LEVEL_FROM:
        fill(W, m, k)
    else:
        for _ in range(k):
            W.counts[wave.SPLIT + leaders(W, m)[0]] += 1
    give(A, W, rec, node, m)
    return m


@inner
def choose_listed(
    T: BoardTable, A: ArenaPointers, W: WavePointers, s: Position, rec: int64, node: int64
) -> tuple[int64, int64]:
    """Returns the listed edge that the next visit takes, and how many it would take in a row."""
    j, rival = leaders(W, _listed_columns(T, A, W, s, rec, node, int64(1), False))
    return j, visits_in_a_row(W, j, rival)


@inner
def bar_unlisted(
    T: BoardTable, A: ArenaPointers, W: WavePointers, s: Position, rec: int64, node: int64
) -> None:
    """Bars the unlisted edges of the root for this wave, as if they were illegal (`exclude`)."""
    make_all_edges(T, A, s, rec)
    for j in range(move_count(A, rec)):
        if A.ints[LISTED + j] == 0:
            bar(W, node, int64(j), move_count(A, rec))
