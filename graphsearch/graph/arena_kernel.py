"""The layout of an arena: its arrays, the bundle of pointers to them, and the counters.

    key -> table  .. | slot, check hash | ..
                          |
           records .. | key | block, V | moves, state, D, flags | P codes .. |   `store/record/node_layout.py`
                                  |
           blocks  .. | norm, sum n, Q, draws | edge | edge | .. |

`search/param_layout.py` lays out the search's part of `floats` and `ints`; `docs/contributing/kernels.md`
lists all bundles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner
from ..jit.pointers import U, as_f32, ptr
from ..jit.types import Pointer, float32, float64, int64, uint16, uint32, uint64
from ..position.board_kernel import PW
from ..store.record.transposition_kernel import EntryArrays, EntryPointers, entry_pointers

LOG_WORDS = PW + 1  # position, slot of its record
LOG_SLOT = PW
OVERLAY_SLOT_SHIFT, OVERLAY_EDGE_BITS = 10, (1 << 9) - 1  # of an item of the overlay

# counters, int64
NODES, RECORD_WORDS, BLOCK_WORDS, DIRTY_NODES, FREED_WORDS = 0, 1, 2, 3, 4
VISITS, EVALUATIONS, CATCH_UPS, COLLISIONS, PATH_DRAWS, TERMINALS, HISTORY_DRAWS = 8, 9, 10, 11, 12, 13, 14
PLIES, SELDEPTH, WAVES, ROUNDS, CLASHES, DEPTH_CUTS, OVERLAY_LENGTH, OVERFLOWS = range(15, 23)
AHEAD = 24  # backups from a child with fewer visits than its edge (a lost child)
OVERLAY_RESERVED = 23  # overlay items reserved for the visits of the current wave
FREED_RECORD_WORDS, HAND, EVICTED, FRESH_NODES = 25, 26, 27, 28
# per thread, if there are several: its record reserve (first word, words left), turns it has taken
RECORD_RESERVE, RECORDS_RESERVED, TURNS_TAKEN = 5, 6, 7
OF_VISITS = (*range(VISITS, ROUNDS + 1), DEPTH_CUTS, OVERFLOWS, AHEAD, FRESH_NODES)  # sums, except SELDEPTH
BLOCK_LISTS = 32  # heads of the free lists: one for each size in words, from EXACT_LISTS on by powers of two
EXACT_LISTS = 64
RECORD_LISTS = BLOCK_LISTS + EXACT_LISTS + 8  # LARGEST_LIST + 1 heads, by words; the last one: or larger
LARGEST_LIST = 63
COUNTERS = RECORD_LISTS + LARGEST_LIST + 1

# `floats`, float64: code ** 4 by code | a search's own
POWERS = 0
SEARCH_FLOATS = POWERS + 64
FLOATS = SEARCH_FLOATS + 8 + 4096

# `ints`, int64: edges by block class (`node_layout.CAPACITY`) | scratch for sorting | number of the session
# (`run` in the file) that new records carry | a search's own
KEYS = 32
SESSION = KEYS + 256
SEARCH_INTS = SESSION + 1
INTS = SEARCH_INTS + 8 + 256


class ArenaArrays(NamedTuple):
    """The arrays of an arena, which `graph.arena.Arena` owns."""

    table: NDArray[np.uint64]  # [places]: slot | check hash << 32, 0 empty
    records: NDArray[np.uint64]  # [words]
    blocks: NDArray[np.uint32]  # [words]
    counters: NDArray[np.int64]  # [COUNTERS]
    floats: NDArray[np.float64]  # [FLOATS]
    ints: NDArray[np.int64]  # [INTS]
    moves: NDArray[np.uint16]  # [256] scratch: legal moves of the present position
    overlay: NDArray[np.int64]  # [2 * ..]: (`overlay_item`, visits); never saved
    history: NDArray[np.uint64]  # Polyglot keys of positions that stood twice before the root
    log: NDArray[np.uint64]  # [LOG_WORDS * ..]: position and slot of every dirty record; empty without a file
    entries: EntryArrays  # transposition entries of fixed-depth searches and mate proofs


class ArenaPointers(NamedTuple):
    """Pointers to the arrays of `ArenaArrays`, in the same order, and their sizes."""

    table: Pointer[uint64]
    records: Pointer[uint64]
    blocks: Pointer[uint32]
    values: Pointer[float32]  # the same memory as blocks
    counters: Pointer[int64]
    floats: Pointer[float64]
    ints: Pointer[int64]
    moves: Pointer[uint16]
    overlay: Pointer[int64]
    history: Pointer[uint64]
    log: Pointer[uint64]
    entries: EntryPointers
    space: Pointer[int64]  # the arena's counters, even where `counters` belongs to one of several threads
    guards: Pointer[int64]  # of `guards_kernel.py`
    guard_mask: int64  # rows of guards - 1; 0: a single thread uses the arena
    size: uint64  # places of the table
    record_limit: int64  # words of records
    block_limit: int64  # words of blocks
    overlay_size: int64  # items of the overlay
    history_size: int64  # keys of the history
    log_size: int64  # rows of the log


# ------------------------------------------------------------------ items of the overlay
@inner
def overlay_item(rec: int64, j: int64, drawn: int64) -> int64:
    """Returns an overlay item: slot << 10 | edge << 1 | whether the visit ended there as a draw."""
    return (rec << OVERLAY_SLOT_SHIFT) | (j << 1) | drawn


@inner
def overlay_slot(item: int64) -> int64:
    """Returns the record slot of an overlay item."""
    return item >> OVERLAY_SLOT_SHIFT


@inner
def overlay_edge(item: int64) -> int64:
    """Returns the edge number of an overlay item."""
    return (item >> 1) & OVERLAY_EDGE_BITS


@inner
def overlay_draws(item: int64) -> int64:
    """Returns 1 if the visits of an overlay item are draws of the path, else 0."""
    return item & 1


# ------------------------------------------------------------------ the bundle
@inner
def pointers(A: ArenaArrays) -> ArenaPointers:
    """Returns the pointer bundle of an arena's arrays."""
    return ArenaPointers(
        ptr(A.table, 0),
        ptr(A.records, 0),
        ptr(A.blocks, 0),
        as_f32(ptr(A.blocks, 0)),
        ptr(A.counters, 0),
        ptr(A.floats, 0),
        ptr(A.ints, 0),
        ptr(A.moves, 0),
        ptr(A.overlay, 0),
        ptr(A.history, 0),
        ptr(A.log, 0),
        entry_pointers(A.entries),
        ptr(A.counters, 0),
        ptr(A.counters, 0),
        int64(0),
        U(A.table.size),
        int64(A.records.size),
        int64(A.blocks.size),
        int64(A.overlay.size // 2),
        int64(A.history.size),
        int64(A.log.size // LOG_WORDS),
    )
