r"""`budget`: a node splits its batch budget over its children, and its collision budget in proportion.

    9 leaves, 50 collisions          A leaf takes one visit of its budget; the others sent there are
     /        |        \             collisions, as are all visits to a leaf in flight. They stay in
2, 11      3, 17      4, 22           flight and use up collision budget. The rest of both budgets
                                     goes back to the root for the next round, until one of them
                                     is used up. A terminal takes one visit and no place.
"""

from __future__ import annotations

from ..graph import arena_kernel as arena
from ..graph.arena_kernel import ArenaArrays
from ..jit.compiler import inner
from ..jit.types import int64
from ..position.words import BoardTable, Position
from ..store.index_kernel import FilterArrays
from . import wave_kernel as wave
from .gather_kernel import LARGEST_SPLIT, admit, allocate, divide, enter_node, has_room, sender, start_round
from .puct_kernel import COLLISION_VISITS
from .visit_kernel import add_child, settle
from .wave_kernel import WaveArrays, field

MAX_ROUNDS = 256
LEAVES_PER_LIMIT = 256  # leaves of a batch that MaxCollisionVisits is meant for


@inner
def _pass_on(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Splits an entry's visits, and the collisions allowed below it, over its node's edges."""
    enter_node(T, W, e)
    m = allocate(T, A, W, e, field(W, e, wave.ASKED), False)
    divide(W, m, W.shares[e])
    for j in range(m):
        if W.counts[wave.SPLIT + j]:
            child = add_child(T, A, W, e, int64(j), W.counts[wave.SPLIT + j])
            W.shares[child] = int64(W.floats[wave.PART + j])


_send_down = sender(admit, _pass_on)


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
    while counts[wave.ROUND] < MAX_ROUNDS and counts[wave.COLLISIONS_LEFT] > 0:
        if counts[wave.STAGE] != wave.IN_LEVEL:
            budget = target - counts[wave.LEAVES]
            if budget <= 0 or not has_room(A, W, LARGEST_SPLIT):
                break
            counts[wave.VISITS_ASKED] += budget
            A.counters[arena.ROUNDS] += 1
            start_round(W, root, budget, counts[wave.COLLISIONS_LEFT])
        if not _send_down(T, A, W, F, target):
            return False
        counts[wave.COLLISIONS_LEFT] -= collisions_of(W, counts[wave.ROUND_BEGIN])
        settle(T, A, W, counts[wave.ROUND_BEGIN])
        counts[wave.ROUND] += 1
    return True
