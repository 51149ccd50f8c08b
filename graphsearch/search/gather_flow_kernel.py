"""`flow`: a node splits its whole budget at once, and exploration grows with the visits in flight.

        visits so far      ####  ##  #            all edges of a node end at one score, as far as a search
        in flight          ++    +++ ++  +        that went on alone would have brought them: the wave spreads
                           ---------------- t     as the search itself would, instead of piling up

Every node has at most a share of its own N in flight (MaxWaveShare): a sequential search would stop sending
visits to a young node as soon as the first ones disappoint, and a wave cannot see that. Visits that a node
refuses stay in flight above it; the next round goes elsewhere, or the wave is smaller. Unknown positions are
admitted by the visits sent to them, largest first; breadth-first admission would favour shallow leaves.
"""

from __future__ import annotations

from ..graph import arena_kernel as arena
from ..graph.arena_kernel import ArenaArrays, child_visits
from ..jit.compiler import inner
from ..jit.types import Pointer, float64, int64
from ..position.words import BoardTable, Position
from ..store.index_kernel import FilterArrays
from . import wave_kernel as wave
from .gather_kernel import (
    LARGEST_SPLIT,
    add_children,
    admit_in_order,
    allocate,
    allocate_first,
    enter_node,
    has_room,
    sender,
    start_round,
)
from .puct_kernel import WAVE_SHARE
from .visit_kernel import add_child, is_restricted, settle
from .wave_kernel import WaveArrays, all_in_flight, field, node_at, set_field, slot_at

MAX_ROUNDS = 60
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
def pass_on(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
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


_send_down = sender(_list_candidate, pass_on)


@inner
def on_their_way(counts: Pointer[int64]) -> int64:
    """Returns the visits that a wave asked for and that neither ended nor were returned by a node."""
    return counts[wave.VISITS_ASKED] - counts[wave.EARLY] - counts[wave.RETURNED]


@inner
def asked_before(W: WaveArrays) -> int64:
    """Returns `on_their_way` of the wave before."""
    if W.before_counts[wave.LEAVES] == 0:
        return int64(0)
    return on_their_way(W.before_counts)


@inner
def can_be_followed(A: ArenaArrays, W: WaveArrays) -> bool:
    """Returns whether the next wave can be a full batch with this one in flight: then the two may overlap."""
    rec = field(W, int64(0), wave.SLOT)
    if W.counts[wave.LEAVES] == 0 or rec == 0:
        return False
    return share_of(A, rec) - on_their_way(W.counts) >= W.counts[wave.TARGET]


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
    while W.counts[wave.ROUND] < MAX_ROUNDS:
        if W.counts[wave.STAGE] != wave.IN_LEVEL:
            asked, leaves = W.counts[wave.VISITS_ASKED], W.counts[wave.LEAVES]
            budget = _next_budget(asked, leaves, int64(target), allowed)
            if budget <= 0 or W.counts[wave.LEAVES] >= target or not has_room(A, W, LARGEST_SPLIT):
                break
            W.counts[wave.VISITS_ASKED] += budget
            A.counters[arena.ROUNDS] += 1
            start_round(W, root, budget, int64(0))
        if not _send_down(T, A, W, F, target):
            return False
        _admit_all(T, A, W, target)
        settle(T, A, W, W.counts[wave.ROUND_BEGIN])
        W.counts[wave.ROUND] += 1
    return True
