"""Splits any number of visits over the edges of one node by arithmetic.

Visits one by one, each to the edge with the highest score, would leave all edges at one common score t. So t
is computed: x_a = c P_a / (t - b_a) - (n_a + f_a) visits of an edge had a score above it, b_a its value, f_a
the visits in flight (with a c that grows with the visits given this is the
regularised policy of Grill et al. 2020, arXiv 2007.12509). The remainder of whole visits goes to the leaders,
in runs until the runner-up overtakes. With one visit and nothing in flight this is plain PUCT.

            b + c P / (1 + n + f)
        t ----------+--------+------------    <- level: the gap is filled with x visits
            edge 1  | edge 2 | edge 3

The node is given by an entry, which has its position, its record and its visits in flight. At the root of a
search of some moves only, the other edges never lead.
"""

from __future__ import annotations

from ...graph import arena_kernel as arena
from ...graph.arena_kernel import ArenaPointers
from ...graph.heap_kernel import grow_block
from ...jit.compiler import inlined, inner
from ...jit.pointers import adv
from ...jit.types import Pointer, float64, int64
from ...position.words import BoardTable
from ...store.record.node_kernel import (
    block_of,
    code_at,
    edge_at,
    edge_code,
    edge_visits,
    materialised,
    move_count,
    stride_at,
)
from ...store.record.node_layout import BLOCK_VISITS, CODE
from .. import wave_kernel as wave
from ..flight_kernel import all_in_flight, edges_in_flight, fields_of, in_flight, send, widen_flight
from ..param_layout import LISTED
from ..paths_kernel import is_restricted
from ..puct_kernel import (
    NEVER,
    best_unmade,
    edge_value,
    fpu_value,
    is_out,
    make_all_edges,
    power_of,
    scale_of,
    select,
)
from ..wave_kernel import WavePointers, node_at, slot_at, words_of
from .columns_kernel import fill, leaders, score_of, set_column

LEVEL_FROM = 6  # more visits than this are split by the level, fewer one by one


@inner
def load(
    A: ArenaPointers, W: WavePointers, e: int64, fpu: float64, scale: float64, first: int64, heeds: bool
) -> int64:
    """Loads the edges of a block from `first` on into the scratch columns; returns the block's edge count.

    `heeds`: edges with a result that is proven here never lead.
    """
    rec, node, s = slot_at(W, e), node_at(W, e), words_of(W, e)
    m = materialised(A, rec)
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, first)
    for j in range(first, m):
        n = edge_visits(A, edge)
        if n and heeds and is_out(A, edge, s):
            set_column(W, j, NEVER, 0.0, 1.0)
        else:
            base = edge_value(A, edge, stride, n) if n else fpu
            set_column(W, j, base, scale * power_of(A, edge), float64(1 + n + in_flight(W, node, j)))
        edge += stride
    return m


@inner
def _tally_unmade(A: ArenaPointers, rec: int64, m: int64) -> Pointer[int64]:
    """Counts the edges beyond the block by P code."""
    tally = adv(A.ints, arena.KEYS)
    for code in range(CODE + 1):
        tally[code] = 0
    for j in range(move_count(A, rec)):
        tally[code_at(A, rec, j)] += 1
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    for _ in range(m):
        tally[edge_code(A, edge)] -= 1
        edge += stride
    return tally


@inner
def load_unmade(
    A: ArenaPointers, W: WavePointers, rec: int64, fpu: float64, scale: float64, m: int64
) -> int64:
    """Appends the edges beyond the block, in descending P; returns the number of all moves."""
    tally = _tally_unmade(A, rec, m)
    j = int64(m)
    for down in range(CODE + 1):
        code = CODE - down
        for _ in range(tally[code]):
            set_column(W, j, fpu, scale * A.floats[arena.POWERS + code], 1.0)
            j += 1
    return j


@inner
def make_edges(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, m: int64, count: int64) -> int64:
    """Adds edges to the block as far as `counts[SPLIT:]` has visits; returns the number of edges covered."""
    last = int64(m)
    for j in range(m, count):
        if W.counts[wave.SPLIT + j]:
            last = int64(j + 1)
    if last > m:
        grow_block(T, A, words_of(W, e), slot_at(W, e), last, False)
    return last


@inner
def _split_few(
    T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, k: int64, fpu: float64, scale: float64
) -> int64:
    """Gives k visits one by one; makes the best unmade edge when it leads. Returns the block's edge count."""
    rec = slot_at(W, e)
    m = materialised(A, rec)
    for _ in range(k):
        j = leaders(W, m)[0]
        if m < move_count(A, rec) and best_unmade(A, rec, fpu, scale) > score_of(W, j):
            grow_block(T, A, words_of(W, e), rec, m + 1, False)
            j = int64(m)
            m = load(A, W, e, fpu, scale, m, True)
        W.counts[wave.SPLIT + j] += 1
    return m


@inner
def tried_powers(A: ArenaPointers, W: WavePointers, e: int64, grows: bool) -> float64:
    """Returns the sum of code ** 4 over visited edges; if `grows`, also over those in flight."""
    rec, node = slot_at(W, e), node_at(W, e)
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    powers = 0.0
    for j in range(materialised(A, rec)):
        if edge_visits(A, edge) or (grows and in_flight(W, node, j)):
            powers += power_of(A, edge)
        edge += stride
    return powers


@inner
def spent_below(A: ArenaPointers, W: WavePointers, e: int64, k: int64, grows: bool) -> int64:
    """Returns the visits for `scale_of`; if `grows`, with those in flight, and all but one of `k` more."""
    visits = int64(A.blocks[block_of(A, slot_at(W, e)) + BLOCK_VISITS])
    return visits + all_in_flight(W, node_at(W, e)) + k - 1 if grows else visits


@inner
def cover_flight(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> None:
    """Adds all edges with visits in flight to the block: an evicted record is read back without them."""
    wanted = max(edges_in_flight(W, node_at(W, e)), int64(1))
    if materialised(A, slot_at(W, e)) < wanted:
        grow_block(T, A, words_of(W, e), slot_at(W, e), wanted, False)


@inner
def columns(
    T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, k: int64, grows: bool, heeds: bool
) -> tuple[int64, float64, float64]:
    """Loads the scratch columns of the edges in a node's block; `heeds`: proven edges never lead.

    Returns (edges in the block, FPU value, `scale_of`).
    """
    cover_flight(T, A, W, e)
    rec = slot_at(W, e)
    scale = scale_of(A, block_of(A, rec), spent_below(A, W, e, k, grows))
    fpu = fpu_value(A, rec, tried_powers(A, W, e, grows))
    return load(A, W, e, fpu, scale, int64(0), heeds), fpu, scale


@inner
def listed_columns(
    T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, k: int64, grows: bool
) -> int64:
    """Loads the columns of all edges of a restricted root; unlisted ones never lead. Returns their number."""
    make_all_edges(T, A, words_of(W, e), slot_at(W, e))
    m = columns(T, A, W, e, k, grows, False)[0]
    for j in range(m):
        if A.ints[LISTED + j] == 0:
            set_column(W, int64(j), NEVER, 0.0, 1.0)
    return m


@inlined
def send_split(A: ArenaPointers, W: WavePointers, e: int64, m: int64) -> None:
    """Puts the visits of `counts[SPLIT:]` in flight over the first m edges of a node."""
    node = node_at(W, e)
    widen_flight(W, node, materialised(A, slot_at(W, e)))
    fields = fields_of(W, node)
    for j in range(m):
        W.flight[fields[wave.AT] + j] += W.counts[wave.SPLIT + j]
        fields[wave.SUM] += W.counts[wave.SPLIT + j]


@inner
def _split_listed(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, k: int64, grows: bool) -> int64:
    """Splits `k` visits of a restricted root over its listed edges."""
    m = listed_columns(T, A, W, e, k, grows)
    if k > LEVEL_FROM:
        fill(W, m, k)
    else:
        for _ in range(k):
            W.counts[wave.SPLIT + leaders(W, m)[0]] += 1
    return m


@inner
def allocate(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, k: int64, grows: bool) -> int64:
    """Splits `k` visits of an entry over the edges of its node into `counts[SPLIT:]`.

    Returns the number of edges covered. The visits given are in flight afterwards. `grows`: the exploration
    term grows with the visits in flight.
    """
    if is_restricted(A, W, e):
        m = _split_listed(T, A, W, e, k, grows)
    else:
        m, fpu, scale = columns(T, A, W, e, k, grows, True)
        if k > LEVEL_FROM:
            count = load_unmade(A, W, slot_at(W, e), fpu, scale, m)
            fill(W, count, k)
            m = make_edges(T, A, W, e, m, count)
        else:
            m = _split_few(T, A, W, e, k, fpu, scale)
    send_split(A, W, e, m)
    return m


@inlined
def allocate_first(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> int64:
    """Gives one visit to a node that has none in flight; returns its edge. A faster `allocate`."""
    rec = slot_at(W, e)
    j = select(T, A, words_of(W, e), rec)
    send(W, node_at(W, e), j, int64(1), materialised(A, rec))
    return j


@inner
def divide(W: WavePointers, m: int64, total: int64) -> None:
    """Divides `total` like `counts[SPLIT:]` into whole parts, by largest remainders, in `floats[PART:]`."""
    visits = int64(0)
    for j in range(m):
        visits += W.counts[wave.SPLIT + j]
    left = int64(total)
    for j in range(m):
        part = total * W.counts[wave.SPLIT + j] // visits
        W.floats[wave.PART + j] = float64(part)
        W.floats[wave.GAIN + j] = float64(total * W.counts[wave.SPLIT + j] - part * visits)
        left -= part
    for _ in range(left):
        best = int64(0)
        for j in range(m):
            if W.floats[wave.GAIN + j] > W.floats[wave.GAIN + best]:
                best = int64(j)
        W.floats[wave.PART + best] += 1.0
        W.floats[wave.GAIN + best] = -1.0
