r"""Gatherers fill a wave with leaves: `flow`, `classic` and `budget`.

They split visits over the edges of a node, and, but for `classic`, send them down level by level.

Visits one by one, each to the edge with the highest score, would leave all edges at one common score t. So t
is computed: x_a = c P_a / (t - b_a) - (n_a + f_a) visits of an edge had a score above it, b_a its value, f_a
the visits in flight (the regularised policy of Grill et al. 2020, arXiv 2007.12509, with a c that grows). The
remainder of whole visits goes to the leaders, in runs until the runner-up overtakes.

            b + c P / (1 + n + f)
        t ----------+--------+------------    <- level: the gap is filled with x visits
            edge 1  | edge 2 | edge 3

    column   of one edge: b, c P, 1 + n + f, and the visits given so far (`BASE`, `GAIN`, `MASS`, `SPLIT`)
    level    the score t above which the edges take all visits

        root  B=9            a level is probed as a whole, so that cache misses overlap and missing records
        /  |  \              are read from the file at once; a position that two parents reach is one
      4    3    2             in-flight node or one leaf
     / \   |   / \
    3  1   3  1   1

A round starts at the root. After its descent, the visits without an evaluation (terminals, path draws,
catch-ups) are backed up before the next round starts.

`flow`: a node splits its whole budget at once, and exploration grows with the visits in flight.

        visits so far      ####  ##  #            all edges of a node end at one score, as far as a search
        in flight          ++    +++ ++  +        that went on alone would have brought them: the wave spreads
                           ---------------- t     as the search itself would, instead of piling up

Every node has at most a share of its own N in flight (MaxWaveShare): a wave cannot see that the first visits
of a young node disappoint. Visits that a node refuses stay in flight above it. Unknown positions are admitted
by the visits sent to them, largest first; breadth-first admission would favour shallow leaves.

`classic`: one visit at a time from the root; visits in flight count as if they were completed.

        root ---> a ---> b ---> leaf        1st visit: the leaf joins the batch
        root ---> a ---> b ---> leaf        2nd: a collision, a leaf in flight. It counts for as many visits
        root ---> c ---> leaf               as it takes until somewhere on its path the runner-up overtakes
                                            (a multivisit), and they stay in flight

A wave ends when the batch is full, after MaxCollisionEvents collisions, or when they count more than
MaxCollisionVisits: it rarely finds more than a few hundred leaves. Visits that end at a terminal, a path draw
or a catch-up are backed up at once. Records are read one by one; the other gatherers read a level at once.

`budget`: a node splits its batch budget over its children, and its collision budget in proportion.

    9 leaves, 50 collisions          A leaf takes one visit of its budget; the others sent there are
     /        |        \             collisions, as are all visits to a leaf in flight. They stay in
2, 11      3, 17      4, 22           flight and use up collision budget. The rest of both budgets
                                     goes back to the root for the next round, until one of them
                                     is used up. A terminal takes one visit and no place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..graph import arena_kernel as arena
from ..graph.arena_kernel import ArenaArrays
from ..jit.compiler import Bound, inner, kernel
from ..jit.pointers import adv, call_bound, prefetch, ptr
from ..jit.types import Pointer, float64, int64
from ..position import board_kernel as board
from ..position.board import BoardTable, Position, Words
from ..position.board_kernel import MAX_LEGAL_MOVES
from ..store import record_kernel as record
from ..store.index_kernel import FilterArrays, may_be_stored
from . import visit_kernel as visit
from . import wave_kernel as wave
from .params import CLASSIC, FLOW
from .wave_kernel import WaveArrays

# ------------------------------------------------------------------ columns of scores
FOREVER = 1 << 60
MOST_GIVEN = 1e15
NEWTON_STEPS = 48


@inner
def set_column(W: WaveArrays, j: int64, base: float64, gain: float64, mass: float64) -> None:
    """Sets the scratch columns of one edge, with no visits given yet."""
    W.floats[wave.BASE + j] = base
    W.floats[wave.GAIN + j] = gain
    W.floats[wave.MASS + j] = mass
    W.counts[wave.SPLIT + j] = 0


@inner
def visits_above(base: float64, gain: float64, mass: float64, t: float64) -> float64:
    """Returns the visits, a real, that an edge takes while its score is above `t`; each adds one to mass."""
    return gain / (t - base) - mass + 1.0


@inner
def _visits_at(W: WaveArrays, count: int64, t: float64) -> tuple[float64, float64]:
    """Returns (visits that all edges together take above score `t`, their rate of decrease with t)."""
    total = 0.0
    slope = 0.0
    for j in range(count):
        gap = t - W.floats[wave.BASE + j]
        if gap > 0.0:
            x = visits_above(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], W.floats[wave.MASS + j], t)
            if x > 0.0:
                total += x
                slope += W.floats[wave.GAIN + j] / (gap * gap)
    return total, slope


@inner
def _bounds(W: WaveArrays, count: int64, k: int64) -> tuple[float64, float64]:
    """Returns two scores around the level: at the lower, one edge takes k; at the upper, all take less."""
    low = visit.NEVER
    best = visit.NEVER
    gains = 0.0
    for j in range(count):
        mass = W.floats[wave.MASS + j] + float64(k) - 1.0
        low = max(low, visit.score(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], mass))
        best = max(best, W.floats[wave.BASE + j])
        gains += W.floats[wave.GAIN + j]
    return low, best + gains / float64(k)


@inner
def _fill_to_level(W: WaveArrays, count: int64, k: int64) -> int64:
    """Gives every edge the whole visits above the level of `k` visits, or a little less; returns the rest.

    Newton from below: the sum is convex and falls with t, so every step stays below the root.
    """
    t, high = _bounds(W, count, k)
    for _ in range(NEWTON_STEPS):
        total, slope = _visits_at(W, count, t)
        missing = float64(k) - total
        if missing > -0.01:
            break
        t = t - missing / slope if slope > 0.0 else high
    left = int64(k)
    for j in range(count):
        if t > W.floats[wave.BASE + j]:
            x = visits_above(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], W.floats[wave.MASS + j], t)
            if x >= 1.0:
                given = min(int64(min(x, MOST_GIVEN)), left)
                W.counts[wave.SPLIT + j] += given
                left -= given
    return left


@inner
def score_of(W: WaveArrays, j: int64) -> float64:
    """Returns the score of an edge with the visits given so far."""
    mass = W.floats[wave.MASS + j] + float64(W.counts[wave.SPLIT + j])
    return visit.score(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], mass)


@inner
def leaders(W: WaveArrays, count: int64) -> tuple[int64, float64]:
    """Returns the edge with the highest score, the first of equals, and the runner-up's score."""
    best = visit.NEVER
    second = visit.NEVER
    leader = int64(0)
    for j in range(count):
        found = score_of(W, j)
        if found > best:
            second = best
            best = found
            leader = int64(j)
        elif found > second:
            second = found
    return leader, second


@inner
def visits_in_a_row(W: WaveArrays, j: int64, rival: float64) -> int64:
    """Returns the number of visits, at least one, until the score of edge `j` is no longer above `rival`."""
    base, mass = W.floats[wave.BASE + j], W.floats[wave.MASS + j] + float64(W.counts[wave.SPLIT + j])
    if rival <= base:
        return int64(FOREVER)
    visits = np.floor(W.floats[wave.GAIN + j] / (rival - base) - mass) + 1.0
    return int64(min(max(visits, 1.0), float64(FOREVER)))


@inner
def fill(W: WaveArrays, count: int64, k: int64) -> None:
    """Gives k visits to the loaded edges: up to the common level, the remainder to the leaders, in runs."""
    left = _fill_to_level(W, count, k) if k > 1 else int64(k)
    if left > 4 * count + 16:  # the level was not found in double precision
        W.counts[wave.SPLIT + leaders(W, count)[0]] += left
        left = int64(0)
    while left > 0:
        j, rival = leaders(W, count)
        given = min(left, visits_in_a_row(W, j, rival))
        W.counts[wave.SPLIT + j] += given
        left -= given


# ------------------------------------------------------------------ the visits of a node
LEVEL_FROM = 6  # more visits than this are split by the level, fewer one by one


@inner
def load(
    A: ArenaArrays,
    W: WaveArrays,
    e: int64,
    fpu: float64,
    scale: float64,
    first: int64,
    heeds: bool,
) -> int64:
    """Loads the edges of a block from `first` on into the scratch columns; returns the block's edge count.

    `heeds`: edges with a result that is proven here never lead.
    """
    rec, node, s = wave.field(W, e, wave.SLOT), wave.field(W, e, wave.NODE_OR_LEAF), wave.words_of(W, e)
    m = record.materialised(A, rec)
    stride = record.stride_at(A, rec)
    edge = record.edge_at(A, rec, first)
    for j in range(first, m):
        n = record.edge_visits(A, edge)
        if n and heeds and visit.is_out(A, edge, s):
            set_column(W, j, visit.NEVER, 0.0, 1.0)
        else:
            base = visit.edge_value(A, edge, stride, n) if n else fpu
            set_column(
                W, j, base, scale * visit.power_of(A, edge), float64(1 + n + wave.in_flight(W, node, j))
            )
        edge += stride
    return m


@inner
def load_unmade(A: ArenaArrays, W: WaveArrays, rec: int64, fpu: float64, scale: float64, m: int64) -> int64:
    """Appends the edges beyond the block, in descending P; returns the number of all moves."""
    tally = adv(A.ints, arena.KEYS)  # of their P codes
    for code in range(record.CODE + 1):
        tally[code] = 0
    for i in range(record.move_count(A, rec)):
        tally[record.code_at(A, rec, i)] += 1
    stride = record.stride_at(A, rec)
    edge = record.edge_at(A, rec, int64(0))
    for _ in range(m):
        tally[record.edge_code(A, edge)] -= 1
        edge += stride
    j = int64(m)
    for down in range(record.CODE + 1):
        code = record.CODE - down
        for _ in range(tally[code]):
            set_column(W, j, fpu, scale * A.floats[arena.POWERS + code], 1.0)
            j += 1
    return j


@inner
def leader(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, m: int64, fpu: float64, scale: float64
) -> tuple[int64, float64, int64]:
    """Returns (best edge, made if necessary, runner-up's score, edges in the block); `m`: those loaded."""
    rec = wave.field(W, e, wave.SLOT)
    j, rival = leaders(W, m)
    if m == record.move_count(A, rec):
        return j, rival, m
    unmade = visit.best_unmade(A, rec, fpu, scale)
    if unmade <= score_of(W, j):
        return j, max(rival, unmade), m
    rival = score_of(W, j)
    arena.grow_block(T, A, wave.words_of(W, e), rec, m + 1, False)
    j = int64(m)
    m = load(A, W, e, fpu, scale, m, True)
    if j + 1 < m:
        rival = max(rival, score_of(W, j + 1))
    elif m < record.move_count(A, rec):
        rival = max(rival, visit.best_unmade(A, rec, fpu, scale))
    return j, rival, m


@inner
def tried_powers(A: ArenaArrays, W: WaveArrays, e: int64, grows: bool) -> float64:
    """Returns the sum of code ** 4 over visited edges; if `grows`, also over those in flight."""
    rec, node = wave.field(W, e, wave.SLOT), wave.field(W, e, wave.NODE_OR_LEAF)
    stride = record.stride_at(A, rec)
    edge = record.edge_at(A, rec, int64(0))
    powers = 0.0
    for j in range(record.materialised(A, rec)):
        if record.edge_visits(A, edge) or (grows and wave.in_flight(W, node, j)):
            powers += visit.power_of(A, edge)
        edge += stride
    return powers


@inner
def columns(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, k: int64, grows: bool
) -> tuple[int64, float64, float64]:
    """Loads the scratch columns before `k` visits are split; returns (edges in the block, FPU, `scale_of`).

    Edges with a proven result never lead; at a restricted root, those that are not listed, and all moves have
    an edge. Edges with visits in flight are in the block: an evicted record is read back without them.
    `grows`: the exploration term grows with the visits in flight, and all but one of the `k`.
    """
    rec, node, s, restricted = (
        wave.field(W, e, wave.SLOT),
        wave.field(W, e, wave.NODE_OR_LEAF),
        wave.words_of(W, e),
        visit.is_restricted(A, W, e),
    )
    wanted = record.move_count(A, rec) if restricted else max(wave.edges_in_flight(W, node), int64(1))
    if record.materialised(A, rec) < wanted:
        arena.grow_block(T, A, s, rec, wanted, False)
    visits = int64(A.blocks[record.block_of(A, rec) + record.BLOCK_VISITS])
    if grows:
        visits += wave.all_in_flight(W, node) + k - 1
    scale = visit.scale_of(A, record.block_of(A, rec), visits)
    fpu = visit.fpu_value(A, rec, tried_powers(A, W, e, grows))
    m = load(A, W, e, fpu, scale, int64(0), not restricted)
    for j in range(m if restricted else 0):
        if A.ints[visit.LISTED + j] == 0:
            set_column(W, int64(j), visit.NEVER, 0.0, 1.0)
    return m, fpu, scale


@inner
def allocate(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, k: int64, grows: bool) -> int64:
    """Puts `k` visits in flight over a node's edges, into `counts[SPLIT:]`; returns the edges covered.

    `grows`: as for `columns`.
    """
    m, fpu, scale = columns(T, A, W, e, k, grows)
    if k > LEVEL_FROM:
        count = load_unmade(A, W, wave.field(W, e, wave.SLOT), fpu, scale, m)
        fill(W, count, k)
        for j in range(m, count):
            if W.counts[wave.SPLIT + j]:
                m = int64(j + 1)
        if m > record.materialised(A, wave.field(W, e, wave.SLOT)):
            arena.grow_block(T, A, wave.words_of(W, e), wave.field(W, e, wave.SLOT), m, False)
    else:
        for _ in range(k):
            j, _, m = leader(T, A, W, e, m, fpu, scale)
            W.counts[wave.SPLIT + j] += 1
    node = wave.field(W, e, wave.NODE_OR_LEAF)
    wave.widen_flight(W, node, record.materialised(A, wave.field(W, e, wave.SLOT)))
    fields = wave.fields_of(W, node)
    for j in range(m):
        W.flight[fields[wave.AT] + j] += W.counts[wave.SPLIT + j]
        fields[wave.SUM] += W.counts[wave.SPLIT + j]
    return m


@inner
def divide(W: WaveArrays, m: int64, total: int64) -> None:
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


# ------------------------------------------------------------------ level by level
PART_OF_LEVEL = 256  # entries
BLOCKS_AHEAD, ADMITTED_AHEAD = 8, 8  # entries between a prefetch and its use
LARGEST_SPLIT = MAX_LEGAL_MOVES  # edges of one node
CONTINUES, ENDED_HERE, UNKNOWN = 0, 1, 2
GROWN_BLOCK = 2304  # words that one node's growth may take, the old block and the new one
assert GROWN_BLOCK > 2 * record.LARGEST_BLOCK


# ------------------------------------------------------------------ entries
@inner
def has_room(A: ArenaArrays, W: WaveArrays, entries: int64) -> bool:
    """Returns whether there is room for so many more entries, and for the nodes that pass visits on."""
    if (
        W.counts[wave.ENTRIES] + entries >= W.candidates_size
        or W.counts[wave.FLIGHT_USED] + entries >= W.flight_size
    ):
        return False
    if W.counts[wave.HASHED] >= W.counts[wave.HASH_ROOM]:
        return False
    drawn = W.counts[wave.PATH_DRAWN] * record.LARGEST_BLOCK  # path draws widen their node's block
    return A.counters[arena.BLOCK_WORDS] + GROWN_BLOCK + drawn < A.blocks_size


# ------------------------------------------------------------------ a level
@inner
def _probe_part(T: BoardTable, A: ArenaArrays, W: WaveArrays, begin: int64, end: int64) -> None:
    """Finds the record of every entry by its check hash alone, memory accesses overlapped."""
    for e in range(begin, end):
        prefetch(A.table, arena.table_index(A, board.position_key(T, wave.words_of(W, int64(e)))))
    for e in range(begin, end):
        s = wave.words_of(W, int64(e))
        key, check = board.hashes_of(T, s)
        s[wave.CHECK] = check
        rec = arena.likely_slot(A, key, check)
        wave.set_field(W, int64(e), wave.SLOT, rec)
        prefetch(A.records, rec)
        prefetch(W.hash, 2 * wave.first_place(W, wave.position_tag(key, check)))


@inner
def _lists_misses(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, begin: int64, end: int64
) -> bool:
    """Lists the entries with records that are not in memory and may be in the file; returns whether any."""
    W.counts[wave.MISSES] = 0
    if F.segments_size > 1:
        _probe_part(T, A, W, begin, end)
        for e in range(begin, end):
            s, rec = wave.words_of(W, int64(e)), wave.field(W, int64(e), wave.SLOT)
            key = board.position_key(T, s)
            if rec == 0 or record.key_at(A, rec) != key:
                rec = arena.find(A, key, wave.check_of(W, int64(e)))
                wave.set_field(W, int64(e), wave.SLOT, rec)
                if rec == 0 and may_be_stored(F, s, key):
                    visit.miss(W, int64(e))
    return W.counts[wave.MISSES] > 0


@inner
def spent_over(A: ArenaArrays, W: WaveArrays, e: int64) -> int64:
    """Returns the visits over the edge to an entry: completed ones and those in flight, its own included."""
    parent = wave.field(W, e, wave.PARENT)
    if parent < 0:
        return wave.field(W, e, wave.ASKED)
    flying = wave.in_flight(W, wave.field(W, parent, wave.NODE_OR_LEAF), wave.field(W, e, wave.EDGE))
    return visit.completed_over(A, W, e) + flying


@inner
def admit(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, target: int64) -> None:
    """Makes an entry with an unknown position a leaf of the batch, if the batch is not full."""
    key = board.position_key(T, wave.words_of(W, e))
    check = wave.check_of(W, e)
    tag = wave.position_tag(key, check)
    if wave.is_leaf_in_flight(W, tag):
        visit.end_entry(A, W, e, wave.COLLISION, int64(0))
        return
    rec = arena.find(A, key, check)
    if rec:  # a terminal that an earlier entry recorded
        wave.set_field(W, e, wave.SLOT, rec)
        visit.end_entry(A, W, e, wave.TERMINAL, int64(1))
    elif W.counts[wave.LEAVES] < target:
        if visit.open_leaf(T, A, W, e, check) == wave.LEAF:
            wave.hash_put(W, wave.hash_place(W, tag), tag, -1 - wave.field(W, e, wave.NODE_OR_LEAF))
    else:
        wave.set_field(W, e, wave.KIND, wave.DROPPED)


@inner
def _end_by_path_or_record(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> int64:
    """Ends an entry where its path ends or at a known result; returns CONTINUES, ENDED_HERE or UNKNOWN."""
    if visit.ends_by_path(T, A, W, e):
        return ENDED_HERE
    spent = spent_over(A, W, e)
    rec = wave.field(W, e, wave.SLOT)
    if rec == 0 or record.key_at(A, rec) != board.position_key(T, wave.words_of(W, e)):
        rec = arena.find(A, board.position_key(T, wave.words_of(W, e)), wave.check_of(W, e))
        wave.set_field(W, e, wave.SLOT, rec)
    if rec == 0:
        return UNKNOWN
    return ENDED_HERE if visit.ends_at_known(A, W, e, spent) else CONTINUES


@inner
def enter_node(T: BoardTable, W: WaveArrays, e: int64) -> int64:
    """Sets the in-flight node of an entry before its visits are passed on; returns the node."""
    key = board.position_key(T, wave.words_of(W, e))
    node = wave.flight_at(W, wave.position_tag(key, wave.check_of(W, e)))
    wave.set_field(W, e, wave.NODE_OR_LEAF, node)
    return node


# ------------------------------------------------------------------ a round
@inner
def start_round(W: WaveArrays, root: Position, budget: int64, collisions: int64) -> None:
    """Starts a round at the root with `budget` visits and `collisions` allowed among them."""
    e = visit.start_at_root(W, root, budget)
    W.shares[e] = collisions
    W.counts[wave.ROUND_BEGIN] = e
    W.counts[wave.LEVEL_BEGIN] = e
    W.counts[wave.LEVEL_END] = e + 1


@inner
def _pass_part(T: BoardTable, A: ArenaArrays, W: WaveArrays, target: int64, begin: int64, end: int64) -> None:
    """Ends the entries of a part of a level or splits their visits over the next one."""
    flows = A.ints[visit.SCHEME] == FLOW
    for e in range(begin, min(end, begin + BLOCKS_AHEAD)):
        record.prefetch_block(A, wave.field(W, int64(e), wave.SLOT))
    for each in range(begin, end):
        e = int64(each)
        if e + BLOCKS_AHEAD < end:
            record.prefetch_block(A, wave.field(W, e + BLOCKS_AHEAD, wave.SLOT))
        state = _end_by_path_or_record(T, A, W, e)
        if state == UNKNOWN and flows:
            _list_candidate(W, e)
        elif state == UNKNOWN:
            admit(T, A, W, e, target)
        elif state == CONTINUES and not has_room(A, W, LARGEST_SPLIT):
            wave.set_field(W, e, wave.KIND, wave.DROPPED)
        elif state == CONTINUES and flows:
            _pass_flow(T, A, W, e)
        elif state == CONTINUES:
            _pass_budget(T, A, W, e)


@inner
def _pass_level(T: BoardTable, A: ArenaArrays, W: WaveArrays, target: int64, is_probed: bool) -> None:
    """Ends the entries of a level or splits their visits, after its missing records were read."""
    for i in range(W.counts[wave.MISSES]):
        e = W.misses[i]
        key = board.position_key(T, wave.words_of(W, e))
        wave.set_field(W, e, wave.SLOT, arena.find(A, key, wave.check_of(W, e)))
    W.counts[wave.MISSES] = 0
    begin, end = W.counts[wave.LEVEL_BEGIN], W.counts[wave.LEVEL_END]
    for first in range(begin, end, PART_OF_LEVEL):
        last = min(end, int64(first + PART_OF_LEVEL))
        if not is_probed:  # part by part: prefetched memory is still in the cache
            _probe_part(T, A, W, int64(first), last)
        _pass_part(T, A, W, target, int64(first), last)


@inner
def _send_down(T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, target: int64) -> bool:
    """Sends the visits of a round down, level by level; returns False if it waits for records."""
    counts = W.counts
    while counts[wave.LEVEL_BEGIN] < counts[wave.LEVEL_END]:
        begin, end = counts[wave.LEVEL_BEGIN], counts[wave.LEVEL_END]
        if counts[wave.STAGE] == wave.IN_LEVEL:
            counts[wave.STAGE] = wave.NOT_WAITING
        elif _lists_misses(T, A, W, F, begin, end):
            counts[wave.STAGE] = wave.IN_LEVEL
            return False
        _pass_level(T, A, W, target, F.segments_size > 1)
        counts[wave.LEVEL_BEGIN] = end
        counts[wave.LEVEL_END] = counts[wave.ENTRIES]
    return True


# ------------------------------------------------------------------ flow
FLOW_ROUNDS = 60
VISITS_PER_PART = 32  # a part is 1/32 of a node's visits: FPU and c(N + f) hardly change within it
MOST_ASKED, MOST_ENTRY = (1 << 31) - 1, (1 << 32) - 1  # limits of a candidate's fields


@inner
def _sift(keys: Pointer[int64], i: int64, n: int64) -> None:
    """Restores the min-heap below place `i`."""
    while True:
        child = 2 * i + 1
        if child >= n:
            return
        if child + 1 < n and keys[child + 1] < keys[child]:
            child += 1
        if keys[i] <= keys[child]:
            return
        keys[i], keys[child] = keys[child], keys[i]
        i = child


@inner
def _sort_descending(keys: Pointer[int64], n: int64) -> None:
    """Sorts n distinct integers in place, largest first (heapsort)."""
    for i in range(n // 2 - 1, -1, -1):
        _sift(keys, int64(i), n)
    for last in range(n - 1, 0, -1):
        keys[0], keys[last] = keys[last], keys[0]
        _sift(keys, int64(0), int64(last))


@inner
def _admit_all(T: BoardTable, A: ArenaArrays, W: WaveArrays, target: int64) -> None:
    """Makes leaves of the candidates, those with most visits first, until the batch is full."""
    n = W.counts[wave.CANDIDATES]
    if W.counts[wave.LEAVES] + n > target:
        _sort_descending(W.candidates, n)
    for i in range(n):
        W.candidates[i] = MOST_ENTRY - (W.candidates[i] & MOST_ENTRY)
    for i in range(n):  # with overlapping memory accesses
        if i + 2 * ADMITTED_AHEAD < n:
            words = W.candidates[i + 2 * ADMITTED_AHEAD] * wave.ENTRY_WORDS
            prefetch(W.words, words)
            prefetch(W.words, words + wave.CHECK)
        if i + ADMITTED_AHEAD < n:
            e = W.candidates[i + ADMITTED_AHEAD]
            key = board.position_key(T, wave.words_of(W, e))
            prefetch(A.table, arena.table_index(A, key))
            prefetch(W.hash, 2 * wave.first_place(W, wave.position_tag(key, wave.check_of(W, e))))
        admit(T, A, W, W.candidates[i], target)
    W.counts[wave.CANDIDATES] = 0


@inner
def _list_candidate(W: WaveArrays, e: int64) -> None:
    """Lists an entry with an unknown position: visits << 32 | 2 ** 32 - 1 - entry, its sort key."""
    asked = min(wave.field(W, e, wave.ASKED), int64(MOST_ASKED))
    W.candidates[W.counts[wave.CANDIDATES]] = (asked << 32) | (MOST_ENTRY - e)
    W.counts[wave.CANDIDATES] += 1


@inner
def _allocate_in_parts(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, k: int64) -> int64:
    """Splits `k` visits of an entry part by part into `counts[SPLIT:]`; returns the number of edges covered.

    Split at once, by the c of the last visit and the FPU of the first, those of a young node would be spread
    too thin: c(N + f) grows with every visit, and FPU falls with every edge that is tried.
    """
    covered = int64(0)
    left = int64(k)
    while left > 0:
        has = arena.child_visits(A, wave.field(W, e, wave.SLOT)) + wave.all_in_flight(
            W, wave.field(W, e, wave.NODE_OR_LEAF)
        )
        part = min(left, max(int64(1), has // VISITS_PER_PART))
        edges = allocate(T, A, W, e, part, True)
        left -= part
        for j in range(covered, edges):
            W.counts[wave.GIVEN + j] = 0
        for j in range(edges):
            W.counts[wave.GIVEN + j] += W.counts[wave.SPLIT + j]
        covered = max(covered, edges)
    for j in range(covered):
        W.counts[wave.SPLIT + j] = W.counts[wave.GIVEN + j]
    return covered


@inner
def share_of(A: ArenaArrays, rec: int64) -> int64:
    """Returns the most visits that may be in flight below a node."""
    return max(int64(1), int64(A.floats[visit.WAVE_SHARE] * float64(arena.child_visits(A, rec) + 1)))


@inner
def _pass_flow(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Splits an entry's visits over its node's edges and adds an entry for each edge that gets some."""
    node = enter_node(T, W, e)
    came = wave.field(W, e, wave.ASKED)
    asked = max(int64(0), min(came, share_of(A, wave.field(W, e, wave.SLOT)) - wave.all_in_flight(W, node)))
    W.counts[wave.RETURNED] += came - asked
    if asked == 0:
        wave.set_field(W, e, wave.KIND, wave.DROPPED)
    elif asked == 1 and wave.all_in_flight(W, node) == 0 and not visit.is_restricted(A, W, e):
        rec = wave.field(W, e, wave.SLOT)
        j = visit.select(T, A, wave.words_of(W, e), rec)
        wave.send(W, node, j, int64(1), record.materialised(A, rec))
        visit.add_child(T, A, W, e, j, int64(1))
    else:
        for j in range(_allocate_in_parts(T, A, W, e, asked)):
            if W.counts[wave.SPLIT + j]:
                visit.add_child(T, A, W, e, int64(j), W.counts[wave.SPLIT + j])


def next_budget(asked: int, leaves: int, target: int, allowed: int) -> int:
    """Returns the visits of the next round of a wave, within `allowed`.

    They are half as many again as the missing leaves require by the rate so far; where less than every other
    visit found a leaf, at least half of all visits so far.

    >>> next_budget(0, 0, 100, 1000), next_budget(100, 60, 100, 1000), next_budget(100, 60, 100, 120)
    (100, 101, 20)
    """
    lacking = target - leaves
    budget = lacking
    if 2 * leaves < asked:
        budget = max(lacking, asked // 2)
    elif asked:
        budget = lacking * 3 * asked // (2 * leaves) + 1
    return min(budget, allowed - asked)


_next_budget = inner(next_budget)


# ------------------------------------------------------------------ classic
MOST_IN_VAIN = 1024  # collisions in a row, plus twice the leaves in flight: no further visit will find a leaf
OUT_OF_ORDER = 2  # times the batch: visits without an evaluation that end a wave


@inner
def _step(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> int64:
    """Returns a new entry for the child at the edge that PUCT chooses for entry `e`, a node."""
    enter_node(T, W, e)
    m, fpu, scale = columns(T, A, W, e, int64(1), False)
    j, rival, _ = leader(T, A, W, e, m, fpu, scale)
    W.counts[wave.MULTIVISIT] = min(W.counts[wave.MULTIVISIT], visits_in_a_row(W, j, rival))
    return visit.add_child(T, A, W, e, j, int64(1))


@inner
def _descend(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position, target: int64
) -> int64:
    """Walks one visit to its end; returns its last entry, -1 if it waits for a record: call it again then."""
    waited = W.counts[wave.STAGE] == wave.ON_PATH
    e = W.counts[wave.ENTRIES] - 1 if waited else visit.start_at_root(W, root, int64(1))
    if not waited:
        W.counts[wave.MULTIVISIT] = FOREVER
    while waited or not visit.ends_by_path(T, A, W, e):
        rec = visit.look_up(T, A, W, F, e, waited)
        if rec < 0:
            return int64(-1)
        if rec == 0:
            admit(T, A, W, e, target)
            break
        waited = False
        if visit.ends_at_known(A, W, e, spent_over(A, W, e) + 1):
            break
        e = _step(T, A, W, e)
    W.counts[wave.STAGE] = wave.NOT_WAITING
    return e


@inner
def _send_path(A: ArenaArrays, W: WaveArrays, e: int64, visits: int64) -> None:
    """Puts visits in flight over every edge of the path to entry `e`; without room for them the wave ends."""
    if W.counts[wave.FLIGHT_USED] + wave.field(W, e, wave.DEPTH) * LARGEST_SPLIT >= W.flight_size:
        W.counts[wave.EVENTS_LEFT] = 0
        return
    parent = wave.field(W, e, wave.PARENT)
    while parent >= 0:
        room = record.materialised(A, wave.field(W, parent, wave.SLOT))
        wave.send(W, wave.field(W, parent, wave.NODE_OR_LEAF), wave.field(W, e, wave.EDGE), visits, room)
        e = parent
        parent = wave.field(W, e, wave.PARENT)


@inner
def _end_visit(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, first: int64) -> None:
    """Handles the end of a visit; `first`: its first entry."""
    kind = wave.field(W, e, wave.KIND)
    if kind == wave.LEAF:
        W.counts[wave.IN_VAIN] = 0
        _send_path(A, W, e, int64(1))
        return
    if kind == wave.COLLISION:
        visits = min(W.counts[wave.MULTIVISIT], W.counts[wave.COLLISIONS_LEFT])
        W.counts[wave.EVENTS_LEFT] -= 1
        W.counts[wave.COLLISIONS_LEFT] -= visits
        W.counts[wave.IN_VAIN] += 1
        _send_path(A, W, e, visits)
    else:
        visit.back_up_path(T, A, W, e)
    wave.drop_entries(W, first)


@inner
def _may_descend(A: ArenaArrays, W: WaveArrays) -> bool:
    """Returns whether there is room for one more visit, however long, and for completing the wave."""
    counts = W.counts
    if counts[wave.NODES_IN_FLIGHT] + 2 * wave.MAX_PLIES >= W.candidates_size or not has_room(
        A, W, int64(2 * wave.MAX_PLIES)
    ):
        return False
    dirty = (
        A.counters[arena.DIRTY_NODES]
        + counts[wave.ENTRIES]
        + W.before_counts[wave.ENTRIES]
        + 2 * wave.MAX_PLIES
    )
    if A.log_size and dirty >= A.log_size // arena.LOG_WORDS:
        return False
    return A.counters[arena.BLOCK_WORDS] + wave.SPARE_BLOCK_WORDS <= A.blocks_size


@inner
def gather_classic(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position, target: int64
) -> bool:
    """Fills a batch of up to `target` leaves; returns False if it waits for records: call it again then."""
    counts = W.counts
    if counts[wave.ROUND] == 0 and counts[wave.STAGE] != wave.ON_PATH:
        counts[wave.EVENTS_LEFT] = A.ints[visit.COLLISION_EVENTS]
        counts[wave.COLLISIONS_LEFT] = A.ints[visit.COLLISION_VISITS]
    while counts[wave.STAGE] == wave.ON_PATH or (
        counts[wave.LEAVES] < target
        and counts[wave.EVENTS_LEFT] > 0
        and counts[wave.COLLISIONS_LEFT] > 0
        and counts[wave.IN_VAIN] < MOST_IN_VAIN + 2 * counts[wave.LEAVES]
        and counts[wave.EARLY] < OUT_OF_ORDER * target
        and _may_descend(A, W)
    ):
        if counts[wave.STAGE] != wave.ON_PATH:
            counts[wave.ROUND] += 1
            counts[wave.VISITS_ASKED] += 1
            counts[wave.ROUND_BEGIN] = counts[wave.ENTRIES]
        e = _descend(T, A, W, F, root, target)
        if e < 0:
            return False
        _end_visit(T, A, W, e, counts[wave.ROUND_BEGIN])
    return True


# ------------------------------------------------------------------ budget
BUDGET_ROUNDS = 256
LEAVES_PER_LIMIT = 256  # leaves of a batch that MaxCollisionVisits is meant for


@inner
def _pass_budget(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Splits an entry's visits, and the collisions allowed below it, over its node's edges."""
    enter_node(T, W, e)
    m = allocate(T, A, W, e, wave.field(W, e, wave.ASKED), False)
    divide(W, m, W.shares[e])
    for j in range(m):
        if W.counts[wave.SPLIT + j]:
            child = visit.add_child(T, A, W, e, int64(j), W.counts[wave.SPLIT + j])
            W.shares[child] = int64(W.floats[wave.PART + j])


@inner
def _count_collisions(W: WaveArrays) -> None:
    """Takes the collisions of a round, of each entry at most its share, from those that are left."""
    for e in range(W.counts[wave.ROUND_BEGIN], W.counts[wave.ENTRIES]):
        kind, asked = wave.field(W, int64(e), wave.KIND), wave.field(W, int64(e), wave.ASKED)
        if kind == wave.LEAF or kind == wave.COLLISION:
            W.counts[wave.COLLISIONS_LEFT] -= min(asked - int64(kind == wave.LEAF), W.shares[e])


# ------------------------------------------------------------------ the rounds of both
@inner
def _begin_rounds(A: ArenaArrays, W: WaveArrays, root_rec: int64, target: int64) -> None:
    """Sets the collisions that the wave is allowed, and the visits that the root may have in flight."""
    collisions, before = A.ints[visit.COLLISION_VISITS], W.before_counts
    W.counts[wave.COLLISIONS_LEFT] = max(collisions, collisions * target // LEAVES_PER_LIMIT)
    W.counts[wave.ALLOWED] = share_of(A, root_rec)  # N grows within the wave
    if before[wave.LEAVES] > 0:  # visits of the wave before that neither ended nor were returned by a node
        on_their_way = before[wave.VISITS_ASKED] - before[wave.EARLY] - before[wave.RETURNED]
        W.counts[wave.ALLOWED] -= on_their_way


@inner
def gather_rounds(
    T: BoardTable,
    A: ArenaArrays,
    W: WaveArrays,
    F: FilterArrays,
    root: Position,
    root_rec: int64,
    target: int64,
) -> bool:
    """Fills a batch of up to `target` leaves; returns False if it waits for records: call it again then."""
    counts, flows = W.counts, A.ints[visit.SCHEME] == FLOW
    if counts[wave.ROUND] == 0 and counts[wave.STAGE] != wave.IN_LEVEL:
        _begin_rounds(A, W, root_rec, target)
    if flows and W.before_counts[wave.LEAVES] > 0 and counts[wave.ALLOWED] < target:
        return True  # no full batch: with nothing in flight before it, it will be a larger one
    rounds = FLOW_ROUNDS if flows else BUDGET_ROUNDS
    while counts[wave.ROUND] < rounds and (flows or counts[wave.COLLISIONS_LEFT] > 0):
        if counts[wave.STAGE] != wave.IN_LEVEL:
            asked, leaves = counts[wave.VISITS_ASKED], counts[wave.LEAVES]
            budget = target - leaves
            if flows:
                budget = _next_budget(asked, leaves, target, counts[wave.ALLOWED])
            if budget <= 0 or leaves >= target or not has_room(A, W, LARGEST_SPLIT):
                break
            counts[wave.VISITS_ASKED] += budget
            start_round(W, root, budget, counts[wave.COLLISIONS_LEFT])
        if not _send_down(T, A, W, F, target):
            return False
        if flows:
            _admit_all(T, A, W, target)
        else:
            _count_collisions(W)
        visit.settle(T, A, W, counts[wave.ROUND_BEGIN])
        counts[wave.ROUND] += 1
    return True


# ------------------------------------------------------------------ the steps of a wave
@inner
def _find_root(T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position) -> int64:
    """Returns the root's slot, 0 if it is unknown, NO_RECORDS if its record may be in the file."""
    rec, _ = visit.locate(T, A, root)
    asked = W.counts[wave.STAGE] == wave.AT_ROOT
    W.counts[wave.STAGE] = wave.NOT_WAITING
    if asked:
        wave.drop_entries(W, int64(0))
        W.counts[wave.MISSES] = 0
    elif rec == 0 and may_be_stored(F, root, board.position_key(T, root)):
        W.misses[0] = visit.start_at_root(W, root, int64(1))
        W.counts[wave.MISSES] = 1
        W.counts[wave.STAGE] = wave.AT_ROOT
        return int64(visit.NO_RECORDS)
    return rec


@inner
def _begin_or_resume(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position, target: int64
) -> int64:
    """Begins to gather a wave, or continues one that waited for records; returns the slot of the root.

    It is 0 if the unknown root is the only leaf, NO_RECORDS if the wave waits for records, NO_SPACE if there
    is too little space to begin it and complete the one in flight before it.
    """
    if W.counts[wave.STAGE] == wave.NOT_WAITING:
        if not visit.has_space(A, target + W.before_counts[wave.LEAVES]):
            return int64(visit.NO_SPACE)
        visit.begin_wave(A, W, target)
        wave.size_hash(W, target)
    if W.counts[wave.STAGE] == wave.IN_LEVEL or W.counts[wave.STAGE] == wave.ON_PATH:
        return wave.field(W, int64(0), wave.SLOT)
    rec = _find_root(T, A, W, F, root)
    if rec == 0 and W.before_counts[wave.LEAVES] == 0:
        visit.open_leaf(T, A, W, visit.start_at_root(W, root, int64(1)), board.check_hash(root))
    return rec


@kernel
def gather(T: Words, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Words, target: int64) -> int64:
    """Gathers the leaves of one wave by the arena's gatherer; returns their number, NO_SPACE or NO_RECORDS.

    After NO_SPACE the caller grows the arena; after NO_RECORDS it loads the records of `misses` that the file
    has. Then it calls again. Another wave may be evaluated meanwhile (`wave_kernel.behind`).
    """
    Tp, s = ptr(T, 0), ptr(root, 0)
    rec, is_complete = _begin_or_resume(Tp, A, W, F, s, target), True
    if rec > 0 and A.ints[visit.SCHEME] == CLASSIC:
        is_complete = gather_classic(Tp, A, W, F, s, W.counts[wave.TARGET])
    elif rec > 0:
        is_complete = gather_rounds(Tp, A, W, F, s, rec, W.counts[wave.TARGET])
    if not is_complete:
        rec = int64(visit.NO_RECORDS)
    return rec if rec < 0 else W.counts[wave.LEAVES]


@kernel
def run_waves(
    W: WaveArrays, gathering: Bound, evaluating: Bound, completing: Bound, limits: NDArray[np.int64]
) -> int64:
    """Runs waves of many visits until a limit; returns LIMITS_REACHED, or the caller's next task.

    After NO_SPACE and NO_RECORDS the caller acts as for `gather` and calls again. A number above 0 is that of
    the leaves of a gathered wave, which the caller evaluates with several threads, and completes.

    Args:
      gathering, completing: `gather` and `complete`, bound to the wave: so each is compiled once.
      evaluating: as for `run_visits`. limits: `new_limits`.
    """
    while limits[visit.VISITS] > 0 and limits[visit.EVALUATIONS] > 0 and limits[visit.WAVES] > 0:
        leaves = call_bound(gathering)
        if leaves < 0 or leaves >= limits[visit.MANY]:
            return leaves
        visit.evaluate(W, evaluating)
        limits[visit.VISITS] -= call_bound(completing)
        limits[visit.EVALUATIONS] -= leaves
        limits[visit.WAVES] -= 1
        if W.counts[wave.DECIDED]:
            break
    return int64(visit.LIMITS_REACHED)
