"""What an arena is made of: its arrays, the bundle of pointers to them, and what the counters count.

Records and blocks are laid out as `record/node_layout.py` says; what a search keeps in `floats` and `ints`
is laid out in `search/layout.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import int64

from ..jit.compiler import inner
from ..jit.pointers import U, as_f32, ptr
from ..record.transposition_kernel import entry_pointers

LOG_WORDS = 11  # 10 of the position, slot

# counters, int64
NODES, RECORD_WORDS, BLOCK_WORDS, DIRTY_NODES, FREED_WORDS = 0, 1, 2, 3, 4
VISITS, EVALUATIONS, CATCH_UPS, COLLISIONS, PATH_DRAWS, TERMINALS, HISTORY_DRAWS = 8, 9, 10, 11, 12, 13, 14
PLIES, SELDEPTH, WAVES, ROUNDS, CLASHES, DEPTH_CUTS, OVERLAY_LENGTH, OVERFLOWS = (
    15,
    16,
    17,
    18,
    19,
    20,
    21,
    22,
)
AHEAD = 24  # times an edge took the value of a child with fewer visits than itself (a lost one)
OVERLAY_RESERVED = 23  # overlay places that the visits of the current wave will fill
COUNTED = slice(8, 25)  # what visits count
FREED_RECORD_WORDS, HAND, EVICTED, FRESH_NODES = 25, 26, 27, 28
SLOT_SHIFT = 10  # of an overlay item: slot << 10 | edge << 1 | is draw
BLOCK_LISTS = 32  # heads of the lists of free pieces: by words, from EXACT_LISTS on by powers of two
EXACT_LISTS = 64
RECORD_LISTS = BLOCK_LISTS + EXACT_LISTS + 8  # LARGEST_LIST + 1 heads, by words; the last: so many or more
LARGEST_LIST = 63
COUNTERS = RECORD_LISTS + LARGEST_LIST + 1

# `floats`, float64: code ** 4 by code | a search's own
POWERS = 0
SEARCH_FLOATS = POWERS + 64
FLOATS = SEARCH_FLOATS + 8 + 4096

# `ints`, int64: entries by block class (`node_layout.CAPACITY`) | scratch for sorting | number of the run
# that new records carry | a search's own
KEYS = 32
RUN = KEYS + 256
SEARCH_INTS = RUN + 1
INTS = SEARCH_INTS + 8 + 256


class ArenaArrays(NamedTuple):
    """The arrays of an arena."""

    table: Any  # uint64: slot | check hash << 32, 0 empty
    records: Any  # uint64
    blocks: Any  # uint32
    counters: Any  # int64[COUNTERS]
    floats: Any  # float64[FLOATS]
    ints: Any  # int64[INTS]
    moves: Any  # uint16[256] scratch
    overlay: Any  # int64[2 * ..]: (slot << 10 | edge << 1 | is draw, visits) that ended in a draw by history
    history: Any  # uint64: Polyglot keys of positions that stood twice before the root
    log: Any  # uint64[LOG_WORDS * ..]: position and slot of every dirty record; empty if there is no file
    entries: Any  # EntryArrays: what searches of fixed depth and mate proofs have found out


class ArenaPointers(NamedTuple):
    """Pointers to them, and their sizes."""

    table: Any
    records: Any
    blocks: Any
    values: Any  # blocks as float32
    counters: Any
    floats: Any
    ints: Any
    moves: Any
    overlay: Any
    history: Any
    log: Any
    entries: Any
    size: Any
    record_limit: Any
    block_limit: Any
    overlay_size: Any
    history_size: Any
    log_size: Any


@inner
def pointers(A: Any) -> Any:
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
        U(A.table.size),
        int64(A.records.size),
        int64(A.blocks.size),
        int64(A.overlay.size // 2),
        int64(A.history.size),
        int64(A.log.size // LOG_WORDS),
    )
