"""`exclude`: a leaf in flight counts as an illegal move.

            root           Round 1 sends down the missing visits. Taken leaves and terminals are barred at
           /    \\          their parent. A node with all edges barred is barred at its own parent, and so on
          A      B         up to the root. Round 2 spends the unspent visits on the live edges. There is no
        x/ \\x   / \\        virtual loss: of the visits in flight, only those to leaves stay.
        o   o  o   ?

It fills any batch that the graph has leaves for, at a price: it visits positions that no search would visit.
"""

from __future__ import annotations

from ...graph import arena_kernel as arena
from ...graph.arena_kernel import ArenaPointers
from ...jit.compiler import inner
from ...jit.types import int64
from ...position.words import BoardTable, Position
from ...store.index.locate_kernel import FilterPointers
from ...store.record.node_kernel import materialised, move_count
from .. import wave_kernel as wave
from ..backup_kernel import settle
from ..flight_kernel import bar, fields_of, land
from ..paths_kernel import is_restricted
from ..wave_kernel import WavePointers, field, slot_at
from .levels_kernel import LARGEST_SPLIT, add_children, admit, enter_node, has_room, sender, start_round
from .live_edges_kernel import bar_proven, bar_unlisted, split_live

MAX_ROUNDS = 256


@inner
def _pass_on(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> None:
    """Splits an entry's visits over the live edges of its node."""
    enter_node(T, W, e)
    if is_restricted(A, W, e):
        bar_unlisted(T, A, W, e)
    elif materialised(A, slot_at(W, e)):
        bar_proven(A, W, e)
    add_children(T, A, W, e, split_live(T, A, W, e, field(W, e, wave.ASKED)))


_send_down = sender(admit, _pass_on)


@inner
def _has_nothing_left(A: ArenaPointers, W: WavePointers, e: int64) -> bool:
    """Returns whether this wave can get no more visits through an entry's edge."""
    kind = field(W, e, wave.KIND)
    if kind == wave.NODE:
        return fields_of(W, field(W, e, wave.NODE_OR_LEAF))[wave.BARRED] >= move_count(
            A, field(W, e, wave.SLOT)
        )
    return kind != wave.DROPPED and kind != wave.CATCH_UP


@inner
def land_unspent(A: ArenaPointers, W: WavePointers, first: int64) -> None:
    """Takes the unspent visits of a round out of flight, and bars exhausted edges, children first.

    `shares` counts the visits below an entry that stay in flight, or have been completed and landed.
    """
    for e in range(first, W.counts[wave.ENTRIES]):
        W.shares[e] = 1 if field(W, e, wave.KIND) == wave.LEAF else field(W, e, wave.DONE)
    for down in range(W.counts[wave.ENTRIES] - first):
        e = W.counts[wave.ENTRIES] - 1 - down
        parent = field(W, e, wave.PARENT)
        if parent < 0:
            continue
        W.shares[parent] += W.shares[e]
        node = field(W, parent, wave.NODE_OR_LEAF)
        land(W, node, field(W, e, wave.EDGE), field(W, e, wave.ASKED) - W.shares[e])
        if _has_nothing_left(A, W, e):
            bar(W, node, field(W, e, wave.EDGE), materialised(A, field(W, parent, wave.SLOT)))


@inner
def _is_exhausted(A: ArenaPointers, W: WavePointers, root_rec: int64) -> bool:
    """Returns whether the last round has left nothing live at the root."""
    node = field(W, W.counts[wave.ROUND_BEGIN], wave.NODE_OR_LEAF)
    return node >= 0 and fields_of(W, node)[wave.BARRED] >= move_count(A, root_rec)


@inner
def gather_exclude(
    T: BoardTable,
    A: ArenaPointers,
    W: WavePointers,
    F: FilterPointers,
    root: Position,
    root_rec: int64,
    target: int64,
) -> bool:
    """Fills a batch of up to `target` leaves; returns False if it waits for records: call it again then."""
    counts = W.counts
    while counts[wave.ROUND] < MAX_ROUNDS:
        if counts[wave.STAGE] != wave.IN_LEVEL:
            budget = target - counts[wave.LEAVES]
            if budget <= 0 or not has_room(A, W, LARGEST_SPLIT):
                break
            counts[wave.VISITS_ASKED] += budget
            A.counters[arena.ROUNDS] += 1
            start_round(W, root, budget, int64(0))
        if not _send_down(T, A, W, F, target):
            return False
        land_unspent(A, W, counts[wave.ROUND_BEGIN])
        settle(T, A, W, counts[wave.ROUND_BEGIN])
        counts[wave.ROUND] += 1
        if _is_exhausted(A, W, root_rec):
            break
    return True
