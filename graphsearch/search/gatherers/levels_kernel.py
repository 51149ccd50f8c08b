"""Sends visits down level by level, for the gatherers that split whole budgets.

        root  B=9            a level is probed as a whole, so that cache misses overlap and missing records
        /  |  \\              are read from the file at once; a position that two parents reach is one
      4    3    2             in-flight node or one leaf
     / \\   |   / \
    3  1   3  1   1

A round starts at the root. After its descent, the visits without an evaluation (terminals, path draws,
catch-ups) are backed up before the next round starts.
"""

from __future__ import annotations

from collections.abc import Callable

from ...graph import arena_kernel as arena
from ...graph.arena_kernel import ArenaPointers
from ...graph.heap_kernel import find, likely_slot, table_index
from ...jit.compiler import inlined, inner
from ...jit.pointers import prefetch
from ...jit.types import Pointer, int64, uint64
from ...position.board_kernel import hashes_of, position_key
from ...position.rules_kernel import MAX_LEGAL_MOVES
from ...position.words import BoardTable, Position
from ...store.index.locate_kernel import FilterPointers, may_be_stored
from ...store.record.node_kernel import key_at, prefetch_block
from ...store.record.node_layout import LARGEST_BLOCK
from .. import wave_kernel as wave
from ..flight_kernel import flight_at, in_flight, is_leaf_in_flight
from ..paths_kernel import (
    add_child,
    completed_over,
    end_entry,
    ends_at_known,
    ends_by_path,
    miss,
    open_leaf,
    start_at_root,
)
from ..wave_kernel import (
    WavePointers,
    check_of,
    field,
    first_place,
    hash_place,
    hash_put,
    position_tag,
    set_field,
    words_of,
)

PART_OF_LEVEL = 256  # entries
BLOCKS_AHEAD, ADMITTED_AHEAD = 8, 8  # entries between a prefetch and its use
LARGEST_SPLIT = MAX_LEGAL_MOVES  # edges of one node
CONTINUES, ENDED_HERE, UNKNOWN = 0, 1, 2
GROWN_BLOCK = 2304  # words that one node's growth may take, the old block and the new one
assert GROWN_BLOCK > 2 * LARGEST_BLOCK


# ------------------------------------------------------------------ entries
@inner
def add_children(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, edges: int64) -> None:
    """Adds an entry for each of the first `edges` edges of entry `e` with visits in `counts[SPLIT:]`."""
    for j in range(edges):
        if W.counts[wave.SPLIT + j]:
            add_child(T, A, W, e, int64(j), W.counts[wave.SPLIT + j])


@inner
def tag_of(T: BoardTable, W: WavePointers, e: int64) -> uint64:
    """Returns the tag of an entry's position within a wave; its check hash must be known."""
    return position_tag(position_key(T, words_of(W, e)), check_of(W, e))


@inner
def has_room(A: ArenaPointers, W: WavePointers, entries: int64) -> bool:
    """Returns whether there is room for so many more entries, and for the nodes that pass visits on."""
    if (
        W.counts[wave.ENTRIES] + entries >= W.capacity
        or W.counts[wave.FLIGHT_USED] + entries >= W.flight_capacity
    ):
        return False
    if W.counts[wave.HASHED] >= W.counts[wave.HASH_ROOM]:
        return False
    drawn = W.counts[wave.PATH_DRAWN] * LARGEST_BLOCK  # path draws widen their node's block
    return A.counters[arena.BLOCK_WORDS] + GROWN_BLOCK + drawn < A.block_limit


# ------------------------------------------------------------------ a level
@inlined
def _probe_entry(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> None:
    """Finds the record of an entry by its check hash alone, and prefetches its memory."""
    s = words_of(W, e)
    key, check = hashes_of(T, s)
    s[wave.CHECK] = check
    rec = likely_slot(A, key, check)
    set_field(W, e, wave.SLOT, rec)
    prefetch(A.records, rec)
    prefetch(W.hash, 2 * first_place(W, position_tag(key, check)))


@inner
def _prefetch_place(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> None:
    """Prefetches an entry's places in the wave's hash table and in the arena's table."""
    key = position_key(T, words_of(W, e))
    tag = position_tag(key, check_of(W, e))
    prefetch(A.table, table_index(A, key))
    prefetch(W.hash, 2 * first_place(W, tag))


@inlined
def _list_miss(T: BoardTable, A: ArenaPointers, W: WavePointers, F: FilterPointers, e: int64) -> None:
    """Lists a probed entry if its record is not in memory and may be in the file."""
    key = position_key(T, words_of(W, e))
    rec = field(W, e, wave.SLOT)
    if rec == 0 or key_at(A, rec) != key:
        rec = find(A, key, check_of(W, e))
        set_field(W, e, wave.SLOT, rec)
        if rec == 0 and may_be_stored(F, words_of(W, e), key):
            miss(W, e)


@inner
def _find_misses(T: BoardTable, A: ArenaPointers, W: WavePointers) -> None:
    """Looks up the missing records of a level again."""
    for i in range(W.counts[wave.MISSES]):
        e = W.misses[i]
        set_field(W, e, wave.SLOT, find(A, position_key(T, words_of(W, e)), check_of(W, e)))
    W.counts[wave.MISSES] = 0


@inlined
def spent_over(A: ArenaPointers, W: WavePointers, e: int64) -> int64:
    """Returns the visits over the edge to an entry: completed ones and those in flight, its own included."""
    parent = field(W, e, wave.PARENT)
    if parent < 0:
        return field(W, e, wave.ASKED)
    flying = in_flight(W, field(W, parent, wave.NODE_OR_LEAF), field(W, e, wave.EDGE))
    return completed_over(A, W, e) + flying


@inlined
def admit(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, target: int64) -> None:
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
    A: ArenaPointers,
    W: WavePointers,
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


@inlined
def _end_by_path_or_record(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64) -> int64:
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


@inlined
def enter_node(T: BoardTable, W: WavePointers, e: int64) -> int64:
    """Sets the in-flight node of an entry before its visits are passed on; returns the node."""
    node = flight_at(W, tag_of(T, W, e))
    set_field(W, e, wave.NODE_OR_LEAF, node)
    return node


# ------------------------------------------------------------------ a round
@inner
def start_round(W: WavePointers, root: Position, budget: int64, collisions: int64) -> None:
    """Starts a round at the root with `budget` visits and `collisions` allowed among them."""
    e = start_at_root(W, root, budget)
    W.shares[e] = collisions
    W.counts[wave.ROUND_BEGIN] = e
    W.counts[wave.LEVEL_BEGIN] = e
    W.counts[wave.LEVEL_END] = e + 1


@inner
def _probe_part(T: BoardTable, A: ArenaPointers, W: WavePointers, begin: int64, end: int64) -> None:
    """Finds the record of every entry by its check hash alone, memory accesses overlapped."""
    for e in range(begin, end):
        prefetch(A.table, table_index(A, position_key(T, words_of(W, int64(e)))))
    for e in range(begin, end):
        _probe_entry(T, A, W, int64(e))


@inner
def _look_up_level(
    T: BoardTable, A: ArenaPointers, W: WavePointers, F: FilterPointers, begin: int64, end: int64
) -> int64:
    """Lists the entries with records that may be in the file; returns their number."""
    W.counts[wave.MISSES] = 0
    if F.segment_count:
        _probe_part(T, A, W, begin, end)
        for e in range(begin, end):
            _list_miss(T, A, W, F, int64(e))
    return W.counts[wave.MISSES]


def sender(
    open_unknown: Callable[[Pointer[uint64], ArenaPointers, WavePointers, int64, int64], None],
    pass_on: Callable[[Pointer[uint64], ArenaPointers, WavePointers, int64], None],
) -> Callable[[Pointer[uint64], ArenaPointers, WavePointers, FilterPointers, int64], bool]:
    """Returns a gatherer's `send_down`, which sends the visits of a round down, level by level.

    Args:
      open_unknown: handles an entry with an unknown position: `(T, A, W, e, target)`.
      pass_on: splits an entry's visits over its node's edges and adds the entries: `(T, A, W, e)`.
    """

    @inner
    def pass_part(
        T: BoardTable, A: ArenaPointers, W: WavePointers, target: int64, begin: int64, end: int64
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
        A: ArenaPointers,
        W: WavePointers,
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
    def send_down(T: BoardTable, A: ArenaPointers, W: WavePointers, F: FilterPointers, target: int64) -> bool:
        """Sends the visits of a round down; returns False if it waits for records: call it again then."""
        counts = W.counts
        while counts[wave.LEVEL_BEGIN] < counts[wave.LEVEL_END]:
            begin, end = counts[wave.LEVEL_BEGIN], counts[wave.LEVEL_END]
            if counts[wave.STAGE] == wave.IN_LEVEL:
                counts[wave.STAGE] = wave.NOT_WAITING
            elif _look_up_level(T, A, W, F, begin, end):
                counts[wave.STAGE] = wave.IN_LEVEL
                return False
            pass_level(T, A, W, target, begin, end, F.segment_count > 0)
            counts[wave.LEVEL_BEGIN] = end
            counts[wave.LEVEL_END] = counts[wave.ENTRIES]
        return True

    return send_down
