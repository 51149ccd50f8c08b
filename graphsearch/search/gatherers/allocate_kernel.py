"""How one node splits visits over its edges: by arithmetic, however many they are.

Visits one by one, each to the edge with the highest score, would leave all edges at one common score t. So t
is computed: x_a = c P_a / (t - b_a) - (n_a + f_a) visits of an edge had a score above it, b_a its value, f_a
the visits in flight (with a c that grows with the visits given this is the
regularised policy of Grill et al. 2020, arXiv 2007.12509). The remainder of whole visits goes to the leaders,
in runs until the runner-up overtakes. With one visit and nothing in flight this is plain PUCT.

            b + c P / (1 + n + f)
        t ----------+--------+------------    <- level: the gap is filled with x visits
            edge 1  | edge 2 | edge 3
"""

from __future__ import annotations

from ...graph import arena_kernel as arena
from ...graph.arena_kernel import ArenaPointers
from ...graph.heap_kernel import grow_block
from ...jit.compiler import inlined, inner
from ...jit.pointers import adv
from ...jit.types import Pointer, float64, int64
from ...position.words import BoardTable, Position
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
from ..puct_kernel import (
    NEVER,
    best_unmade,
    edge_value,
    fpu_value,
    is_out,
    power_of,
    scale_of,
    select,
)
from ..wave_kernel import WavePointers
from .columns_kernel import (
    fill,
    leaders,
    score_of,
    set_column,
)

LEVEL_FROM = 6  # more visits than this are split by the level, fewer one by one


@inner
def load(
    A: ArenaPointers,
    W: WavePointers,
    rec: int64,
    node: int64,
    fpu: float64,
    scale: float64,
    first: int64,
    s: Position,
    heeds: bool,
) -> int64:
    """Loads the edges of a block from `first` on into the scratch columns; returns how many it has.

    Those with a result that is proven at the position `s` never lead, if it heeds proofs.
    """
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
def _split_many(
    T: BoardTable,
    A: ArenaPointers,
    W: WavePointers,
    s: Position,
    rec: int64,
    k: int64,
    m: int64,
    fpu: float64,
    scale: float64,
) -> int64:
    """Splits k visits by level, edges beyond the block included; returns the number in the block."""
    count = load_unmade(A, W, rec, fpu, scale, m)
    fill(W, count, k)
    return make_edges(T, A, W, s, rec, m, count)


@inner
def make_edges(
    T: BoardTable, A: ArenaPointers, W: WavePointers, s: Position, rec: int64, m: int64, count: int64
) -> int64:
    """Puts edges into the block as far as `counts[SPLIT:]` gave visits; returns how many that covers."""
    last = int64(m)
    for j in range(m, count):
        if W.counts[wave.SPLIT + j]:
            last = int64(j + 1)
    if last > m:
        grow_block(T, A, s, rec, last, False)
    return last


@inner
def _split_few(
    T: BoardTable,
    A: ArenaPointers,
    W: WavePointers,
    s: Position,
    rec: int64,
    node: int64,
    k: int64,
    m: int64,
    fpu: float64,
    scale: float64,
) -> int64:
    """Gives k visits one by one, making edges when the best unmade one leads.

    Returns the number of edges in the block.
    """
    for _ in range(k):
        j = leaders(W, m)[0]
        if m < move_count(A, rec) and best_unmade(A, rec, fpu, scale) > score_of(W, j):
            grow_block(T, A, s, rec, m + 1, False)
            j = int64(m)
            m = load(A, W, rec, node, fpu, scale, m, s, True)
        W.counts[wave.SPLIT + j] += 1
    return m


@inner
def tried_powers(A: ArenaPointers, W: WavePointers, rec: int64, node: int64, grows: bool) -> float64:
    """Returns the sum of code ** 4 over edges that were visited, or are in flight if those count."""
    stride = stride_at(A, rec)
    edge = edge_at(A, rec, int64(0))
    powers = 0.0
    for j in range(materialised(A, rec)):
        if edge_visits(A, edge) or (grows and in_flight(W, node, j)):
            powers += power_of(A, edge)
        edge += stride
    return powers


@inner
def spent_below(A: ArenaPointers, W: WavePointers, rec: int64, node: int64, k: int64, grows: bool) -> int64:
    """Returns the visits in c(N) sqrt(N) when k more are given.

    Those completed, and if it grows, all in flight and all that are given but one.
    """
    visits = int64(A.blocks[block_of(A, rec) + BLOCK_VISITS])
    return visits + all_in_flight(W, node) + k - 1 if grows else visits


@inner
def cover_flight(
    T: BoardTable, A: ArenaPointers, W: WavePointers, s: Position, rec: int64, node: int64
) -> None:
    """Puts all edges with visits in flight into the block: an evicted record comes back without them."""
    wanted = max(edges_in_flight(W, node), int64(1))
    if materialised(A, rec) < wanted:
        grow_block(T, A, s, rec, wanted, False)


@inner
def columns(
    T: BoardTable,
    A: ArenaPointers,
    W: WavePointers,
    s: Position,
    rec: int64,
    node: int64,
    k: int64,
    grows: bool,
    heeds: bool,
) -> tuple[int64, float64, float64]:
    """Loads the scratch columns of the edges in a node's block; what is proven never leads, if it heeds.

    Returns (edges in the block, FPU value, `scale_of`).
    """
    cover_flight(T, A, W, s, rec, node)
    scale = scale_of(A, block_of(A, rec), spent_below(A, W, rec, node, k, grows))
    fpu = fpu_value(A, rec, tried_powers(A, W, rec, node, grows))
    return load(A, W, rec, node, fpu, scale, int64(0), s, heeds), fpu, scale


@inlined
def give(A: ArenaPointers, W: WavePointers, rec: int64, node: int64, m: int64) -> None:
    """Puts the visits of `counts[SPLIT:]` in flight over the first m edges of a node."""
    widen_flight(W, node, materialised(A, rec))
    fields = fields_of(W, node)
    for j in range(m):
        W.flight[fields[wave.AT] + j] += W.counts[wave.SPLIT + j]
        fields[wave.SUM] += W.counts[wave.SPLIT + j]


@inner
def allocate(
    T: BoardTable,
    A: ArenaPointers,
    W: WavePointers,
    s: Position,
    rec: int64,
    node: int64,
    k: int64,
    grows: bool,
) -> int64:
    """Splits `k` visits of an in-flight node over its edges into `counts[SPLIT:]`.

    Returns how many edges that covers.

    The visits given are in flight afterwards. `grows`: the exploration term grows with the visits in flight.
    """
    m, fpu, scale = columns(T, A, W, s, rec, node, k, grows, True)
    if k > LEVEL_FROM:
        m = _split_many(T, A, W, s, rec, k, m, fpu, scale)
    else:
        m = _split_few(T, A, W, s, rec, node, k, m, fpu, scale)
    give(A, W, rec, node, m)
    return m


@inlined
def allocate_first(
    T: BoardTable, A: ArenaPointers, W: WavePointers, s: Position, rec: int64, node: int64
) -> int64:
    """Gives one visit to a node that has none in flight, and returns its edge.

    What `allocate` does, sooner.
    """
    j = select(T, A, s, rec)
    send(W, node, j, int64(1), materialised(A, rec))
    return j


@inner
def divide(W: WavePointers, m: int64, total: int64) -> None:
    """Divides `total` into whole parts like `counts[SPLIT:]`, the largest remainders rounded up.

    They are left in the column `floats[PART:]`.
    """
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
