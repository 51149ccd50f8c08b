"""`classic`: one visit at a time from the root; visits in flight count as if they were completed.

        root ---> a ---> b ---> leaf        1st visit: the leaf joins the batch
        root ---> a ---> b ---> leaf        2nd: a collision, a leaf in flight. It counts for as many visits
        root ---> c ---> leaf               as it takes until somewhere on its path the runner-up overtakes
                                            (a multivisit), and they stay in flight

A wave ends when the batch is full, after MaxCollisionEvents collisions, or when they count more than
MaxCollisionVisits: it rarely finds more than a few hundred leaves. Visits that end at a terminal, a path draw
or a catch-up are backed up at once. Records are read one by one; the other gatherers read a level at once.
"""

from __future__ import annotations

from ..graph import arena_kernel as arena
from ..graph.arena_kernel import ArenaArrays, grow_block
from ..jit.compiler import inner
from ..jit.types import int64
from ..position.words import BoardTable, Position
from ..store.index_kernel import FilterArrays
from ..store.record_kernel import materialised, move_count
from . import wave_kernel as wave
from .gather_kernel import (
    FOREVER,
    LARGEST_SPLIT,
    columns,
    enter_node,
    has_room,
    leaders,
    listed_columns,
    load,
    score_of,
    spent_over,
    tag_of,
    visits_in_a_row,
)
from .puct_kernel import COLLISION_EVENTS, COLLISION_VISITS, best_unmade
from .visit_kernel import (
    add_child,
    back_up_path,
    end_entry,
    ends_at_known,
    ends_by_path,
    is_restricted,
    look_up,
    open_leaf,
    start_at_root,
)
from .wave_kernel import (
    WaveArrays,
    check_of,
    drop_entries,
    field,
    hash_place,
    hash_put,
    is_leaf_in_flight,
    send,
    slot_at,
    words_of,
)

MOST_IN_VAIN = 1024  # collisions in a row, plus twice the leaves in flight: no further visit will find a leaf
OUT_OF_ORDER = 2  # times the batch: visits without an evaluation that end a wave


@inner
def choose(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> tuple[int64, int64]:
    """Returns (edge of the next visit, made if necessary, number of visits that it takes in a row)."""
    if is_restricted(A, W, e):
        j, rival = leaders(W, listed_columns(T, A, W, e, int64(1), False))
        return j, visits_in_a_row(W, j, rival)
    m, fpu, scale = columns(T, A, W, e, int64(1), False, True)
    j, rival = leaders(W, m)
    rec = slot_at(W, e)
    if m < move_count(A, rec):
        unmade = best_unmade(A, rec, fpu, scale)
        if unmade > score_of(W, j):
            rival = score_of(W, j)
            grow_block(T, A, words_of(W, e), rec, m + 1, False)
            j = int64(m)
            m = load(A, W, e, fpu, scale, m, True)
            if j + 1 < m:
                rival = max(rival, score_of(W, j + 1))
            elif m < move_count(A, rec):
                rival = max(rival, best_unmade(A, rec, fpu, scale))
        else:
            rival = max(rival, unmade)
    return j, visits_in_a_row(W, j, rival)


@inner
def _open(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> None:
    """Ends an entry with an unknown position: a leaf, a leaf in flight already, or a new terminal."""
    tag = tag_of(T, W, e)
    if is_leaf_in_flight(W, tag):
        end_entry(A, W, e, wave.COLLISION, int64(0))
    elif open_leaf(T, A, W, e, check_of(W, e)) == wave.LEAF:
        hash_put(W, hash_place(W, tag), tag, -1 - field(W, e, wave.NODE_OR_LEAF))


@inner
def _step(T: BoardTable, A: ArenaArrays, W: WaveArrays, e: int64) -> int64:
    """Returns a new entry for the child at the edge that PUCT chooses for entry `e`, a node."""
    enter_node(T, W, e)
    j, in_a_row = choose(T, A, W, e)
    W.counts[wave.MULTIVISIT] = min(W.counts[wave.MULTIVISIT], in_a_row)
    return add_child(T, A, W, e, j, int64(1))


@inner
def _descend(T: BoardTable, A: ArenaArrays, W: WaveArrays, F: FilterArrays, root: Position) -> int64:
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
            _open(T, A, W, e)
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
        e = _descend(T, A, W, F, root)
        if e < 0:
            return False
        _end_visit(T, A, W, e, counts[wave.ROUND_BEGIN])
    A.counters[arena.ROUNDS] += 1
    return True
