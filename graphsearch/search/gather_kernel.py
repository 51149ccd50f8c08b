r"""Gatherers fill a wave with leaves: `flow`, `classic` and `budget`.

They split visits over the edges of a node, and, but for `classic`, send them down level by level.

Visits one by one, each to the edge with the highest score, would leave all edges at one common score t. So t
is computed: x_a = c P_a / (t - b_a) - (n_a + f_a) visits of an edge had a score above it, b_a its value, f_a
the visits in flight (with a c that grows with the visits given this is the
regularised policy of Grill et al. 2020, arXiv 2007.12509). The remainder of whole visits goes to the leaders,
in runs until the runner-up overtakes. With one visit and nothing in flight this is plain PUCT.

            b + c P / (1 + n + f)
        t ----------+--------+------------    <- level: the gap is filled with x visits
            edge 1  | edge 2 | edge 3

    column   of one edge: b, c P, 1 + n + f, and the visits given so far (`BASE`, `GAIN`, `MASS`, `SPLIT`)
    level    the score t above which the edges take all visits

The node is given by an entry, which has its position, its record and its visits in flight. At the root of a
search of some moves only, the other edges never lead.

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

Every node has at most a share of its own N in flight (MaxWaveShare): a sequential search would stop sending
visits to a young node as soon as the first ones disappoint, and a wave cannot see that. Visits that a node
refuses stay in flight above it; the next round goes elsewhere, or the wave is smaller. Unknown positions are
admitted by the visits sent to them, largest first; breadth-first admission would favour shallow leaves.

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

from collections.abc import Callable

import numpy as np

from ..graph import arena_kernel as arena
from ..graph.arena_kernel import (
    ArenaArrays,
    child_visits,
    find,
    grow_block,
    likely_slot,
    table_index,
)
from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, prefetch, ptr
from ..jit.types import Pointer, float64, int64, uint64
from ..position.board import BoardTable, Position, Words
from ..position.board_kernel import MAX_LEGAL_MOVES, check_hash, hashes_of, position_key
from ..store.index_kernel import FilterArrays, may_be_stored
from ..store.record_kernel import (
    BLOCK_VISITS,
    CODE,
    LARGEST_BLOCK,
    block_of,
    code_at,
    edge_at,
    edge_code,
    edge_visits,
    key_at,
    materialised,
    move_count,
    prefetch_block,
    stride_at,
)
from . import wave_kernel as wave
from .params import CLASSIC
from .visit_kernel import (
    COLLISION_EVENTS,
    COLLISION_VISITS,
    LISTED,
    NEVER,
    NO_RECORDS,
    NO_SPACE,
    SCHEME,
    WAVE_SHARE,
    add_child,
    back_up,
    back_up_path,
    begin_wave,
    best_unmade,
    completed_over,
    descend,
    edge_value,
    end_entry,
    ends_at_known,
    ends_by_path,
    expand,
    fpu_value,
    has_space,
    is_out,
    is_restricted,
    is_root_over,
    locate,
    look_up,
    make_all_edges,
    miss,
    open_leaf,
    power_of,
    scale_of,
    score,
    select,
    settle,
    start_at_root,
)
from .wave_kernel import (
    WaveArrays,
    all_in_flight,
    check_of,
    drop_entries,
    edges_in_flight,
    field,
    fields_of,
    first_place,
    flight_at,
    hash_place,
    hash_put,
    in_flight,
    is_leaf_in_flight,
    node_at,
    position_tag,
    send,
    set_field,
    slot_at,
    widen_flight,
    words_of,
)

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
    """Returns the visits, a real, that an edge takes while its score base + gain / mass is above `t`.

    Each visit adds one to mass; the whole part is the number of visits.
    """
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
    low = NEVER
    best = NEVER
    gains = 0.0
    for j in range(count):
        mass = W.floats[wave.MASS + j] + float64(k) - 1.0
        low = max(low, score(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], mass))
        best = max(best, W.floats[wave.BASE + j])
        gains += W.floats[wave.GAIN + j]
    return low, best + gains / float64(k)


@inner
def _level(W: WaveArrays, count: int64, k: int64) -> float64:
    """Returns the score t above which the edges take `k` visits together, or a little less.

    Newton from below: the sum is convex and falls with t, so every step stays below the root.
    """
    t, high = _bounds(W, count, k)
    for _ in range(NEWTON_STEPS):
        total, slope = _visits_at(W, count, t)
        missing = float64(k) - total
        if missing > -0.01:
            break
        t = t - missing / slope if slope > 0.0 else high
    return t


@inner
def _fill_to_level(W: WaveArrays, count: int64, k: int64) -> int64:
    """Gives every edge the whole visits above the common level; returns the rest of `k`."""
    t = _level(W, count, k)
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
    return score(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], mass)


@inner
def visits_to_overtake(base: float64, gain: float64, mass: float64, rival: float64) -> int64:
    """Returns the number of visits, at least one, until an edge's score is no longer above `rival`."""
    if rival <= base:
        return int64(FOREVER)
    visits = np.floor(gain / (rival - base) - mass) + 1.0
    return int64(min(max(visits, 1.0), float64(FOREVER)))


@inner
def leaders(W: WaveArrays, count: int64) -> tuple[int64, float64]:
    """Returns the edge with the highest score, the first of equals, and the runner-up's score."""
    best = NEVER
    second = NEVER
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
    """Returns the number of visits that edge `j` takes before a rival's score overtakes it."""
    mass = W.floats[wave.MASS + j] + float64(W.counts[wave.SPLIT + j])
    return visits_to_overtake(W.floats[wave.BASE + j], W.floats[wave.GAIN + j], mass, rival)


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
    A: ArenaArrays, W: WaveArrays, e: int64, fpu: float64, scale: float64, first: int64, heeds: bool
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
def _tally_unmade(A: ArenaArrays, rec: int64, m: int64) -> Pointer[int64]:
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
def load_unmade(A: ArenaArrays, W: WaveArrays, rec: int64, fpu: float64, scale: float64, m: int64) -> int64:
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
def make_edges(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, m: int64, count: int64) -> int64:
    """Adds edges to the block as far as `counts[SPLIT:]` has visits; returns the number of edges covered."""
    last = int64(m)
    for j in range(m, count):
        if W.counts[wave.SPLIT + j]:
            last = int64(j + 1)
    if last > m:
        grow_block(T, A, words_of(W, e), slot_at(W, e), last, False)
    return last


@inner
def _leader(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, m: int64, fpu: float64, scale: float64
) -> tuple[int64, float64, int64]:
    """Returns (edge with the highest score, made if necessary, score of the runner-up, edges in the block).

    `m`: of them before, loaded.
    """
    rec = slot_at(W, e)
    j, rival = leaders(W, m)
    if m == move_count(A, rec):
        return j, rival, m
    unmade = best_unmade(A, rec, fpu, scale)
    if unmade <= score_of(W, j):
        return j, max(rival, unmade), m
    rival = score_of(W, j)
    grow_block(T, A, words_of(W, e), rec, m + 1, False)
    j = int64(m)
    m = load(A, W, e, fpu, scale, m, True)
    if j + 1 < m:
        rival = max(rival, score_of(W, j + 1))
    elif m < move_count(A, rec):
        rival = max(rival, best_unmade(A, rec, fpu, scale))
    return j, rival, m


@inner
def _split_few(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, k: int64, fpu: float64, scale: float64
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
def tried_powers(A: ArenaArrays, W: WaveArrays, e: int64, grows: bool) -> float64:
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
def spent_below(A: ArenaArrays, W: WaveArrays, e: int64, k: int64, grows: bool) -> int64:
    """Returns the visits for `scale_of`; if `grows`, with those in flight, and all but one of `k` more."""
    visits = int64(A.blocks[block_of(A, slot_at(W, e)) + BLOCK_VISITS])
    return visits + all_in_flight(W, node_at(W, e)) + k - 1 if grows else visits


@inner
def cover_flight(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Adds all edges with visits in flight to the block: an evicted record is read back without them."""
    wanted = max(edges_in_flight(W, node_at(W, e)), int64(1))
    if materialised(A, slot_at(W, e)) < wanted:
        grow_block(T, A, words_of(W, e), slot_at(W, e), wanted, False)


@inner
def columns(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, k: int64, grows: bool, heeds: bool
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
def listed_columns(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, k: int64, grows: bool) -> int64:
    """Loads the columns of all edges of a restricted root; unlisted ones never lead. Returns their number."""
    make_all_edges(T, A, words_of(W, e), slot_at(W, e))
    m = columns(T, A, W, e, k, grows, False)[0]
    for j in range(m):
        if A.ints[LISTED + j] == 0:
            set_column(W, int64(j), NEVER, 0.0, 1.0)
    return m


@inner
def send_split(A: ArenaArrays, W: WaveArrays, e: int64, m: int64) -> None:
    """Puts the visits of `counts[SPLIT:]` in flight over the first m edges of a node."""
    node = node_at(W, e)
    widen_flight(W, node, materialised(A, slot_at(W, e)))
    fields = fields_of(W, node)
    for j in range(m):
        W.flight[fields[wave.AT] + j] += W.counts[wave.SPLIT + j]
        fields[wave.SUM] += W.counts[wave.SPLIT + j]


@inner
def _split_listed(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, k: int64, grows: bool) -> int64:
    """Splits `k` visits of a restricted root over its listed edges."""
    m = listed_columns(T, A, W, e, k, grows)
    if k > LEVEL_FROM:
        fill(W, m, k)
    else:
        for _ in range(k):
            W.counts[wave.SPLIT + leaders(W, m)[0]] += 1
    return m


@inner
def allocate(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, k: int64, grows: bool) -> int64:
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


@inner
def allocate_first(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> int64:
    """Gives one visit to a node that has none in flight; returns its edge. A faster `allocate`."""
    rec = slot_at(W, e)
    j = select(T, A, words_of(W, e), rec)
    send(W, node_at(W, e), j, int64(1), materialised(A, rec))
    return j


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
assert GROWN_BLOCK > 2 * LARGEST_BLOCK


# ------------------------------------------------------------------ entries
@inner
def add_children(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, edges: int64) -> None:
    """Adds an entry for each of the first `edges` edges of entry `e` with visits in `counts[SPLIT:]`."""
    for j in range(edges):
        if W.counts[wave.SPLIT + j]:
            add_child(T, A, W, e, int64(j), W.counts[wave.SPLIT + j])


@inner
def tag_of(T: BoardTable, W: WaveArrays, e: int64) -> uint64:
    """Returns the tag of an entry's position within a wave; its check hash must be known."""
    return position_tag(position_key(T, words_of(W, e)), check_of(W, e))


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
    drawn = W.counts[wave.PATH_DRAWN] * LARGEST_BLOCK  # path draws widen their node's block
    return A.counters[arena.BLOCK_WORDS] + GROWN_BLOCK + drawn < A.blocks_size


# ------------------------------------------------------------------ a level
@inner
def _probe_entry(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Finds the record of an entry by its check hash alone, and prefetches its memory."""
    s = words_of(W, e)
    key, check = hashes_of(T, s)
    s[wave.CHECK] = check
    rec = likely_slot(A, key, check)
    set_field(W, e, wave.SLOT, rec)
    prefetch(A.records, rec)
    prefetch(W.hash, 2 * first_place(W, position_tag(key, check)))


@inner
def _prefetch_place(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Prefetches an entry's places in the wave's hash table and in the arena's table."""
    key = position_key(T, words_of(W, e))
    tag = position_tag(key, check_of(W, e))
    prefetch(A.table, table_index(A, key))
    prefetch(W.hash, 2 * first_place(W, tag))


@inner
def _list_miss(T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, e: int64) -> None:
    """Lists a probed entry if its record is not in memory and may be in the file."""
    key = position_key(T, words_of(W, e))
    rec = field(W, e, wave.SLOT)
    if rec == 0 or key_at(A, rec) != key:
        rec = find(A, key, check_of(W, e))
        set_field(W, e, wave.SLOT, rec)
        if rec == 0 and may_be_stored(F, words_of(W, e), key):
            miss(W, e)


@inner
def _find_misses(T: BoardTable, A: ArenaArrays, W: WaveArrays) -> None:
    """Looks up the missing records of a level again."""
    for i in range(W.counts[wave.MISSES]):
        e = W.misses[i]
        set_field(W, e, wave.SLOT, find(A, position_key(T, words_of(W, e)), check_of(W, e)))
    W.counts[wave.MISSES] = 0


@inner
def spent_over(A: ArenaArrays, W: WaveArrays, e: int64) -> int64:
    """Returns the visits over the edge to an entry: completed ones and those in flight, its own included."""
    parent = field(W, e, wave.PARENT)
    if parent < 0:
        return field(W, e, wave.ASKED)
    flying = in_flight(W, field(W, parent, wave.NODE_OR_LEAF), field(W, e, wave.EDGE))
    return completed_over(A, W, e) + flying


@inner
def admit(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, target: int64) -> None:
    """Makes an entry with an unknown position a leaf of the batch, if the batch is not full."""
    key = position_key(T, words_of(W, e))
    check = check_of(W, e)
    tag = position_tag(key, check)
    if is_leaf_in_flight(W, tag):
        end_entry(A, W, e, wave.COLLISION, int64(0))
        return
    rec = find(A, key, check)
    if rec:  # a terminal that an earlier entry recorded
        set_field(W, e, wave.SLOT, rec)
        end_entry(A, W, e, wave.TERMINAL, int64(1))
    elif W.counts[wave.LEAVES] < target:
        if open_leaf(T, A, W, e, check) == wave.LEAF:
            hash_put(W, hash_place(W, tag), tag, -1 - field(W, e, wave.NODE_OR_LEAF))
    else:
        set_field(W, e, wave.KIND, wave.DROPPED)


@inner
def admit_in_order(
    T: BoardTable,
    A: ArenaArrays,
    W: WaveArrays,
    entries: Pointer[int64],
    begin: int64,
    end: int64,
    target: int64,
) -> None:
    """Admits the listed entries from place `begin` to `end`, with overlapping memory accesses."""
    for i in range(begin, end):
        if i + 2 * ADMITTED_AHEAD < end:
            e = entries[i + 2 * ADMITTED_AHEAD]
            prefetch(W.words, e * wave.ENTRY_WORDS)
            prefetch(W.words, e * wave.ENTRY_WORDS + wave.CHECK)
        if i + ADMITTED_AHEAD < end:
            _prefetch_place(T, A, W, entries[i + ADMITTED_AHEAD])
        admit(T, A, W, entries[i], target)


@inner
def _end_by_path_or_record(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> int64:
    """Ends an entry where its path ends or at a known result; returns CONTINUES, ENDED_HERE or UNKNOWN."""
    if ends_by_path(T, A, W, e):
        return ENDED_HERE
    spent = spent_over(A, W, e)
    rec = field(W, e, wave.SLOT)
    if rec == 0 or key_at(A, rec) != position_key(T, words_of(W, e)):
        rec = find(A, position_key(T, words_of(W, e)), check_of(W, e))
        set_field(W, e, wave.SLOT, rec)
    if rec == 0:
        return UNKNOWN
    return ENDED_HERE if ends_at_known(A, W, e, spent) else CONTINUES


@inner
def enter_node(T: BoardTable, W: WaveArrays, e: int64) -> int64:
    """Sets the in-flight node of an entry before its visits are passed on; returns the node."""
    node = flight_at(W, tag_of(T, W, e))
    set_field(W, e, wave.NODE_OR_LEAF, node)
    return node


# ------------------------------------------------------------------ a round
@inner
def start_round(W: WaveArrays, root: Position, budget: int64, collisions: int64) -> None:
    """Starts a round at the root with `budget` visits and `collisions` allowed among them."""
    e = start_at_root(W, root, budget)
    W.shares[e] = collisions
    W.counts[wave.ROUND_BEGIN] = e
    W.counts[wave.LEVEL_BEGIN] = e
    W.counts[wave.LEVEL_END] = e + 1


@inner
def _probe_part(T: BoardTable, A: ArenaArrays, W: WaveArrays, begin: int64, end: int64) -> None:
    """Finds the record of every entry by its check hash alone, memory accesses overlapped."""
    for e in range(begin, end):
        prefetch(A.table, table_index(A, position_key(T, words_of(W, int64(e)))))
    for e in range(begin, end):
        _probe_entry(T, A, W, int64(e))


@inner
def _look_up_level(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, begin: int64, end: int64
) -> int64:
    """Lists the entries with records that may be in the file; returns their number."""
    W.counts[wave.MISSES] = 0
    if F.segments_size > 1:
        _probe_part(T, A, W, begin, end)
        for e in range(begin, end):
            _list_miss(T, A, W, F, int64(e))
    return W.counts[wave.MISSES]


def sender(
    open_unknown: Callable[[Pointer[uint64], ArenaArrays, WaveArrays, int64, int64], None],
    pass_on: Callable[[Pointer[uint64], ArenaArrays, WaveArrays, int64], None],
) -> Callable[[Pointer[uint64], ArenaArrays, WaveArrays, FilterArrays, int64], bool]:
    """Returns a gatherer's `send_down`, which sends the visits of a round down, level by level.

    Args:
      open_unknown: handles an entry with an unknown position: `(T, A, W, e, target)`.
      pass_on: splits an entry's visits over its node's edges and adds the entries: `(T, A, W, e)`.
    """

    @inner
    def pass_part(
        T: BoardTable, A: ArenaArrays, W: WaveArrays, target: int64, begin: int64, end: int64
    ) -> None:
        """Ends the entries of a part of a level or splits their visits over the next one."""
        for e in range(begin, min(end, begin + BLOCKS_AHEAD)):
            prefetch_block(A, field(W, int64(e), wave.SLOT))
        for each in range(begin, end):
            e = int64(each)
            if e + BLOCKS_AHEAD < end:
                prefetch_block(A, field(W, e + BLOCKS_AHEAD, wave.SLOT))
            state = _end_by_path_or_record(T, A, W, e)
            if state == UNKNOWN:
                open_unknown(T, A, W, e, target)
            elif state == CONTINUES:
                if has_room(A, W, LARGEST_SPLIT):
                    pass_on(T, A, W, e)
                else:
                    set_field(W, e, wave.KIND, wave.DROPPED)

    @inner
    def pass_level(
        T: BoardTable,
        A: ArenaArrays,
        W: WaveArrays,
        target: int64,
        begin: int64,
        end: int64,
        is_probed: bool,
    ) -> None:
        """Ends the entries of a level or splits their visits, after its missing records were read."""
        _find_misses(T, A, W)
        for first in range(begin, end, PART_OF_LEVEL):
            last = min(end, int64(first + PART_OF_LEVEL))
            if not is_probed:  # part by part: prefetched memory is still in the cache
                _probe_part(T, A, W, int64(first), last)
            pass_part(T, A, W, target, int64(first), last)

    @inner
    def send_down(T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, target: int64) -> bool:
        """Sends the visits of a round down; returns False if it waits for records: call it again then."""
        counts = W.counts
        while counts[wave.LEVEL_BEGIN] < counts[wave.LEVEL_END]:
            begin, end = counts[wave.LEVEL_BEGIN], counts[wave.LEVEL_END]
            if counts[wave.STAGE] == wave.IN_LEVEL:
                counts[wave.STAGE] = wave.NOT_WAITING
            elif _look_up_level(T, A, W, F, begin, end):
                counts[wave.STAGE] = wave.IN_LEVEL
                return False
            pass_level(T, A, W, target, begin, end, F.segments_size > 1)
            counts[wave.LEVEL_BEGIN] = end
            counts[wave.LEVEL_END] = counts[wave.ENTRIES]
        return True

    return send_down


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
def _candidate(asked: int64, e: int64) -> int64:
    """Returns the sort key of a candidate: visits << 32 | 2 ** 32 - 1 - entry."""
    return (min(asked, int64(MOST_ASKED)) << 32) | (MOST_ENTRY - e)


@inner
def _admit_all(T: BoardTable, A: ArenaArrays, W: WaveArrays, target: int64) -> None:
    """Makes leaves of the candidates, those with most visits first, until the batch is full."""
    n = W.counts[wave.CANDIDATES]
    if W.counts[wave.LEAVES] + n > target:
        _sort_descending(W.candidates, n)
    for i in range(n):
        W.candidates[i] = MOST_ENTRY - (W.candidates[i] & MOST_ENTRY)
    admit_in_order(T, A, W, W.candidates, int64(0), n, target)
    W.counts[wave.CANDIDATES] = 0


@inner
def _list_candidate(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, target: int64) -> None:
    """Lists an entry with an unknown position; after the descent it is admitted by its visits."""
    W.candidates[W.counts[wave.CANDIDATES]] = _candidate(field(W, e, wave.ASKED), e)
    W.counts[wave.CANDIDATES] += 1


@inner
def _allocate_in_parts(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, k: int64) -> int64:
    """Splits `k` visits of an entry part by part into `counts[SPLIT:]`; returns the number of edges covered.

    c(N + f) grows with every visit, and FPU falls with every edge that is tried. Split at once, by the c of
    the last visit and the FPU of the first, the visits of a young node would be spread too thin.
    """
    covered = int64(0)
    left = int64(k)
    while left > 0:
        has = child_visits(A, slot_at(W, e)) + all_in_flight(W, node_at(W, e))
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
    return max(int64(1), int64(A.floats[WAVE_SHARE] * float64(child_visits(A, rec) + 1)))


@inner
def _pass_flow(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Splits an entry's visits over its node's edges and adds an entry for each edge that gets some."""
    node = enter_node(T, W, e)
    came = field(W, e, wave.ASKED)
    asked = max(int64(0), min(came, share_of(A, slot_at(W, e)) - all_in_flight(W, node)))
    W.counts[wave.RETURNED] += came - asked
    if asked == 0:
        set_field(W, e, wave.KIND, wave.DROPPED)
    elif asked == 1 and all_in_flight(W, node) == 0 and not is_restricted(A, W, e):
        add_child(T, A, W, e, allocate_first(T, A, W, e), int64(1))
    else:
        add_children(T, A, W, e, _allocate_in_parts(T, A, W, e, asked))


_send_flow = sender(_list_candidate, _pass_flow)


@inner
def asked_before(W: WaveArrays) -> int64:
    """Returns the visits of the wave before that neither ended nor were returned by a node."""
    before = W.before_counts
    if before[wave.LEAVES] == 0:
        return int64(0)
    return before[wave.VISITS_ASKED] - before[wave.EARLY] - before[wave.RETURNED]


def next_budget(asked: int, leaves: int, target: int, allowed: int) -> int:
    """Returns the visits of the next round of a wave, within `allowed`.

    It covers the missing leaves: half as many visits again as the rate so far requires; where less than every
    other visit found a leaf, at least half of all visits so far.

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


@inner
def gather_flow(
    T: BoardTable,
    A: ArenaArrays,
    W: WaveArrays,
    F: FilterArrays,
    root: Position,
    root_rec: int64,
    target: int64,
) -> bool:
    """Fills a batch of up to `target` leaves; returns False if it waits for records: call it again then."""
    if W.counts[wave.ROUND] == 0 and W.counts[wave.STAGE] != wave.IN_LEVEL:
        W.counts[wave.ALLOWED] = share_of(A, root_rec) - asked_before(W)  # N grows within the wave
    allowed = W.counts[wave.ALLOWED]
    if W.before_counts[wave.LEAVES] > 0 and allowed < target:
        return True  # no full batch: with nothing in flight before it, it will be a larger one
    while W.counts[wave.ROUND] < FLOW_ROUNDS:
        if W.counts[wave.STAGE] != wave.IN_LEVEL:
            asked, leaves = W.counts[wave.VISITS_ASKED], W.counts[wave.LEAVES]
            budget = _next_budget(asked, leaves, int64(target), allowed)
            if budget <= 0 or W.counts[wave.LEAVES] >= target or not has_room(A, W, LARGEST_SPLIT):
                break
            W.counts[wave.VISITS_ASKED] += budget
            start_round(W, root, budget, int64(0))
        if not _send_flow(T, A, W, F, target):
            return False
        _admit_all(T, A, W, target)
        settle(T, A, W, W.counts[wave.ROUND_BEGIN])
        W.counts[wave.ROUND] += 1
    return True


# ------------------------------------------------------------------ classic
MOST_IN_VAIN = 1024  # collisions in a row, plus twice the leaves in flight: no further visit will find a leaf
OUT_OF_ORDER = 2  # times the batch: visits without an evaluation that end a wave


@inner
def choose(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> tuple[int64, int64]:
    """Returns (edge of the next visit, made if necessary, number of visits that it takes in a row)."""
    if is_restricted(A, W, e):
        j, rival = leaders(W, listed_columns(T, A, W, e, int64(1), False))
    else:
        m, fpu, scale = columns(T, A, W, e, int64(1), False, True)
        j, rival, _ = _leader(T, A, W, e, m, fpu, scale)
    return j, visits_in_a_row(W, j, rival)


@inner
def _step(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> int64:
    """Returns a new entry for the child at the edge that PUCT chooses for entry `e`, a node."""
    enter_node(T, W, e)
    j, in_a_row = choose(T, A, W, e)
    W.counts[wave.MULTIVISIT] = min(W.counts[wave.MULTIVISIT], in_a_row)
    return add_child(T, A, W, e, j, int64(1))


@inner
def _descend(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position, target: int64
) -> int64:
    """Walks one visit to its end; returns its last entry, -1 if it waits for a record: call it again then."""
    waited = W.counts[wave.STAGE] == wave.ON_PATH
    e = W.counts[wave.ENTRIES] - 1 if waited else start_at_root(W, root, int64(1))
    if not waited:
        W.counts[wave.MULTIVISIT] = FOREVER
    while waited or not ends_by_path(T, A, W, e):
        rec = look_up(T, A, W, F, e, waited)
        if rec < 0:
            return int64(-1)
        if rec == 0:
            admit(T, A, W, e, target)
            break
        waited = False
        if ends_at_known(A, W, e, spent_over(A, W, e) + 1):
            break
        e = _step(T, A, W, e)
    W.counts[wave.STAGE] = wave.NOT_WAITING
    return e


@inner
def _send_path(A: ArenaArrays, W: WaveArrays, e: int64, visits: int64) -> None:
    """Puts visits in flight over every edge of the path to entry `e`; without room for them the wave ends."""
    if W.counts[wave.FLIGHT_USED] + field(W, e, wave.DEPTH) * LARGEST_SPLIT >= W.flight_size:
        W.counts[wave.EVENTS_LEFT] = 0
        return
    parent = field(W, e, wave.PARENT)
    while parent >= 0:
        room = materialised(A, field(W, parent, wave.SLOT))
        send(W, field(W, parent, wave.NODE_OR_LEAF), field(W, e, wave.EDGE), visits, room)
        e = parent
        parent = field(W, e, wave.PARENT)


@inner
def _end_visit(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64, first: int64) -> None:
    """Handles the end of a visit; `first`: its first entry."""
    kind = field(W, e, wave.KIND)
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
        back_up_path(T, A, W, e)
    drop_entries(W, first)


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
        counts[wave.EVENTS_LEFT] = A.ints[COLLISION_EVENTS]
        counts[wave.COLLISIONS_LEFT] = A.ints[COLLISION_VISITS]
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
    m = allocate(T, A, W, e, field(W, e, wave.ASKED), False)
    divide(W, m, W.shares[e])
    for j in range(m):
        if W.counts[wave.SPLIT + j]:
            child = add_child(T, A, W, e, int64(j), W.counts[wave.SPLIT + j])
            W.shares[child] = int64(W.floats[wave.PART + j])


_send_budget = sender(admit, _pass_budget)


@inner
def collisions_of(W: WaveArrays, first: int64) -> int64:
    """Returns the collisions that the entries from `first` on used up, each at most its share."""
    spent = int64(0)
    for e in range(first, W.counts[wave.ENTRIES]):
        kind = field(W, e, wave.KIND)
        if kind == wave.LEAF:
            spent += min(field(W, e, wave.ASKED) - 1, W.shares[e])
        elif kind == wave.COLLISION:
            spent += min(field(W, e, wave.ASKED), W.shares[e])
    return spent


@inner
def collision_budget(A: ArenaArrays, target: int64) -> int64:
    """Returns the collisions allowed in a wave: MaxCollisionVisits for every 256 leaves."""
    allowed = A.ints[COLLISION_VISITS]
    return max(allowed, allowed * target // LEAVES_PER_LIMIT)


@inner
def gather_budget(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position, target: int64
) -> bool:
    """Fills a batch of up to `target` leaves; returns False if it waits for records: call it again then."""
    counts = W.counts
    if counts[wave.ROUND] == 0 and counts[wave.STAGE] != wave.IN_LEVEL:
        counts[wave.COLLISIONS_LEFT] = collision_budget(A, target)
    while counts[wave.ROUND] < BUDGET_ROUNDS and counts[wave.COLLISIONS_LEFT] > 0:
        if counts[wave.STAGE] != wave.IN_LEVEL:
            budget = target - counts[wave.LEAVES]
            if budget <= 0 or not has_room(A, W, LARGEST_SPLIT):
                break
            counts[wave.VISITS_ASKED] += budget
            start_round(W, root, budget, counts[wave.COLLISIONS_LEFT])
        if not _send_budget(T, A, W, F, target):
            return False
        counts[wave.COLLISIONS_LEFT] -= collisions_of(W, counts[wave.ROUND_BEGIN])
        settle(T, A, W, counts[wave.ROUND_BEGIN])
        counts[wave.ROUND] += 1
    return True


# ------------------------------------------------------------------ the steps of a wave
@inner
def lacks_space(A: ArenaArrays, W: WaveArrays, target: int64) -> bool:
    """Returns whether there is too little space to begin a wave and complete the one in flight before it."""
    return W.counts[wave.STAGE] == wave.NOT_WAITING and not has_space(
        A, target + W.before_counts[wave.LEAVES]
    )


@inner
def _find_root(T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position) -> int64:
    """Returns the root's slot, 0 if it is unknown, -1 if its record may be in the file."""
    rec, _ = locate(T, A, root)
    asked = W.counts[wave.STAGE] == wave.AT_ROOT
    W.counts[wave.STAGE] = wave.NOT_WAITING
    if asked:
        drop_entries(W, int64(0))
        W.counts[wave.MISSES] = 0
    elif rec == 0 and may_be_stored(F, root, position_key(T, root)):
        W.misses[0] = start_at_root(W, root, int64(1))
        W.counts[wave.MISSES] = 1
        W.counts[wave.STAGE] = wave.AT_ROOT
        return int64(-1)
    return rec


@inner
def begin_or_resume(
    T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position, target: int64
) -> int64:
    """Begins to gather a wave, or continues one that waited for records.

    Returns the slot of the root from which a batch is to be filled, 0 if the wave is complete (of one visit,
    or with an unknown root as its only leaf), -1 if it waits for records from the file.
    """
    if W.counts[wave.STAGE] == wave.NOT_WAITING:
        begin_wave(A, W, target)
    if W.counts[wave.TARGET] == 1 and W.before_counts[wave.LEAVES] == 0:
        return int64(0) if descend(T, A, W, F, root) else int64(-1)
    if W.counts[wave.STAGE] == wave.IN_LEVEL or W.counts[wave.STAGE] == wave.ON_PATH:
        return field(W, int64(0), wave.SLOT)
    rec = _find_root(T, A, W, F, root)
    if rec == 0 and W.before_counts[wave.LEAVES] == 0:
        open_leaf(T, A, W, start_at_root(W, root, int64(1)), check_hash(root))
    return rec


@kernel
def gather(T: Words, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Words, target: int64) -> int64:
    """Gathers the leaves of one wave by `flow`; returns their number, NO_SPACE or NO_RECORDS.

    After NO_SPACE the caller grows the arena; after NO_RECORDS it loads the records of `misses` that the file
    has. Then it calls again. Another wave may be evaluated meanwhile (`wave_kernel.behind`).
    """
    if lacks_space(A, W, target):
        return int64(NO_SPACE)
    Tp, s = ptr(T, 0), ptr(root, 0)
    rec = begin_or_resume(Tp, A, W, F, s, target)
    if rec < 0 or (rec > 0 and not gather_flow(Tp, A, W, F, s, rec, W.counts[wave.TARGET])):
        return int64(NO_RECORDS)
    return W.counts[wave.LEAVES]


@kernel
def complete(T: Words, A: ArenaArrays, W: WaveArrays, evaluator: int64) -> None:
    """Expands the evaluated leaves of a gathered wave and backs it up."""
    expand(ptr(T, 0), A, W, evaluator)
    back_up(ptr(T, 0), A, W)
    W.counts[wave.DECIDED] = int64(is_root_over(A, W))


@kernel
def gather_otherwise(
    T: Words, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Words, target: int64
) -> int64:
    """Gathers the leaves of a wave by `classic` or `budget`; else like `gather`."""
    if lacks_space(A, W, target):
        return int64(NO_SPACE)
    Tp, s = ptr(T, 0), ptr(root, 0)
    rec = begin_or_resume(Tp, A, W, F, s, target)
    is_complete = rec == 0
    if rec > 0 and A.ints[SCHEME] == CLASSIC:
        is_complete = gather_classic(Tp, A, W, F, s, W.counts[wave.TARGET])
    elif rec > 0:
        is_complete = gather_budget(Tp, A, W, F, s, W.counts[wave.TARGET])
    if not is_complete:
        return int64(NO_RECORDS)
    return W.counts[wave.LEAVES]
