"""Restores a wave that was in flight when its search stopped: level by level from the root.

place_level    makes the moves, finds the records, and lists those that may be in the file as missing
check_level    inner positions must be known and leaves unknown; else the graph has changed: drop the wave
send_flights   puts the visits in flight over every edge
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..graph.arena_kernel import ArenaArrays, ArenaPointers, pointers
from ..graph.heap_kernel import grow_block
from ..jit.compiler import inner, kernel
from ..jit.pointers import ZERO, ptr
from ..jit.types import int64
from ..position.board_kernel import position_key
from ..position.words import BoardTable, Position
from ..store.index.locate_kernel import FilterArrays, filter_pointers, may_be_stored
from ..store.record.node_kernel import materialised, move_count
from . import wave_kernel as wave
from .flight_kernel import flight_at, send
from .gatherers.levels_kernel import find_misses, has_room, tag_of
from .paths_kernel import add_child, locate, miss, open_leaf, start_at_root
from .wave_kernel import (
    WaveArrays,
    WavePointers,
    check_of,
    clear_wave,
    field,
    hash_place,
    hash_put,
    set_field,
    size_hash,
    wave_pointers,
    words_of,
)
from .waves_kernel import has_space


@kernel
def begin(A: ArenaArrays, W: WaveArrays, target: int64, asked: int64, early: int64) -> bool:
    """Empties a wave for `target` leaves; returns whether the arena has room for one."""
    Wp = wave_pointers(W, W)
    clear_wave(Wp)
    size_hash(Wp, target)
    Wp.counts[wave.VISITS_ASKED] = asked
    Wp.counts[wave.EARLY] = early
    return has_space(pointers(A), target)


@inner
def _place(
    T: BoardTable, A: ArenaPointers, W: WavePointers, root: Position, parent: int64, j: int64
) -> int64:
    """Returns a new entry for the child at edge `j` of entry `parent`, or for the root; -1: no such edge."""
    if parent < 0:
        return start_at_root(W, root, int64(0))
    rec = field(W, parent, wave.SLOT)
    if j < 0 or j >= move_count(A, rec):
        return int64(-1)
    if materialised(A, rec) <= j:
        grow_block(T, A, words_of(W, parent), rec, j + 1, False)
    return add_child(T, A, W, parent, j, int64(0))


@kernel
def place_level(
    T: NDArray[np.uint64],
    A: ArenaArrays,
    W: WaveArrays,
    F: FilterArrays,
    root: NDArray[np.uint64],
    tree: NDArray[np.int64],
    end: int64,
) -> int64:
    """Adds the rows of the tree up to `end` as entries; their parents must be placed and checked.

    Returns the number of records that may be in the file (listed in `misses`); -1 if a row cannot be placed.
    """
    Tp, Ap, Wp, Fp = ptr(T, 0), pointers(A), wave_pointers(W, W), filter_pointers(F)
    Wp.counts[wave.MISSES] = 0
    for row in range(Wp.counts[wave.ENTRIES], end):
        if not has_room(Ap, Wp, int64(1)):
            return int64(-1)
        e = _place(Tp, Ap, Wp, ptr(root, 0), int64(tree[row, 0]), int64(tree[row, 1]))
        if e < 0:
            return int64(-1)
        s = words_of(Wp, e)
        rec, check = locate(Tp, Ap, s)
        s[wave.CHECK] = check
        set_field(Wp, e, wave.SLOT, rec)
        if rec == 0 and may_be_stored(Fp, s, position_key(Tp, s)):
            miss(Wp, e)
    return Wp.counts[wave.MISSES]


@inner
def _enters(T: BoardTable, A: ArenaPointers, W: WavePointers, e: int64, leaf: int64) -> bool:
    """Puts an entry's position in flight; returns False if it has changed."""
    rec = field(W, e, wave.SLOT)
    if leaf < 0:
        if rec == 0 or move_count(A, rec) == 0:
            return False
        set_field(W, e, wave.NODE_OR_LEAF, flight_at(W, tag_of(T, W, e)))
        return field(W, e, wave.NODE_OR_LEAF) >= 0
    place = hash_place(W, tag_of(T, W, e))
    if rec or W.hash[2 * place] != ZERO:
        return False
    hash_put(W, place, tag_of(T, W, e), -1 - leaf)
    W.leaf_entry[leaf] = e
    return True


@kernel
def check_level(
    T: NDArray[np.uint64], A: ArenaArrays, W: WaveArrays, tree: NDArray[np.int64], begin: int64, end: int64
) -> bool:
    """Puts placed rows in flight after missing records were read; returns whether all are unchanged."""
    Tp, Ap, Wp = ptr(T, 0), pointers(A), wave_pointers(W, W)
    find_misses(Tp, Ap, Wp)
    for e in range(begin, end):
        if not _enters(Tp, Ap, Wp, int64(e), int64(tree[e, 2])):
            return False
    return True


@kernel
def send_flights(
    T: NDArray[np.uint64], A: ArenaArrays, W: WaveArrays, flights: NDArray[np.int64], leaves: int64
) -> bool:
    """Opens the leaves, in their order, and puts all visits in flight; returns False if that fails."""
    Tp, Ap, Wp = ptr(T, 0), pointers(A), wave_pointers(W, W)
    for leaf in range(leaves):
        e = Wp.leaf_entry[leaf]
        if open_leaf(Tp, Ap, Wp, e, check_of(Wp, e)) != wave.LEAF:
            return False
    for i in range(len(flights)):
        e, j, visits = int64(flights[i, 0]), int64(flights[i, 1]), int64(flights[i, 2])
        rec = field(Wp, e, wave.SLOT)
        if j < 0 or j >= move_count(Ap, rec) or not has_room(Ap, Wp, move_count(Ap, rec)):
            return False
        if materialised(Ap, rec) <= j:
            grow_block(Tp, Ap, words_of(Wp, e), rec, j + 1, False)
        send(Wp, field(Wp, e, wave.NODE_OR_LEAF), j, visits, materialised(Ap, rec))
    return True
