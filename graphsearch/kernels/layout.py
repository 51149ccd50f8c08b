"""Where the arena keeps what: record header, block, counters; and the bundle of pointers to them.

Record (uint64 words; a slot is the index of its first word):

    word 0     key
    word 1     low half: word index of the block, or the best move while there is none; high half: V, float32
    word 2     byte 0 moves | 1 block class, 255 none | 2 largest P code beyond the block, 0 none | 3 state
               | 4 clock at evaluation | 5 evaluator (4 bits), run, bits 16-19 | 6-7 D per mille (10 bits; of
               a known mate its plies), flags (6 bits)
    word 3...  P codes, 6 bits of a byte per move in canonical order; the two upper bits of all eight bytes of
               word 3 are bits 0-15 of the run. A record without moves has those in word 1, low half

Free words between records: next free slot | the one before << 32, 0 none; number of words; state FREE.

Block (uint32 words): a header of what follows from the entries (recomputed whenever one changes, never
stored), then entries in descending P, ties in canonical order, always a prefix of that order:

    header  0 1 / sum(code ** 4), float32 | 1 sum of n | 2 node Q, float32 | 3 D per mille, tag (`blocks.py`)
    entry   0 n | 1 q, float32 | 2 move (16 bits), P code (6), d per mille or proof (10, `proofs.py`)
            | 3 r, only in classes >= WIDE
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import int64, uint8, uint32

from .entries import entry_pointers
from .jit import U, adv, as_f32, as_u8, as_u16, as_u32, inner, ptr

HEADER_WORDS = 3
MAX_EVALUATOR, MAX_RUN = 15, (1 << 20) - 1  # what 4 and 20 bits hold, as in record.py
LOG_WORDS = 11  # 10 of the position, slot
BLOCK_HEADER = 4
NORM, BLOCK_VISITS, BLOCK_Q, BLOCK_D = 0, 1, 2, 3

# block classes: number of entries; the last one holds every legal move
CAPACITIES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 224)
WIDE = 16  # added to the class of a block whose entries carry r
NO_BLOCK = 255

# state bits: not yet in the file as it is | in no version in the file | block header out of date
# | being written | visited since the clock hand passed | part of a wave under way | noted in the overlay
# | no record, but free words
DIRTY, FRESH, STALE, SAVING, USED, PINNED, HELD, FREE = 1, 2, 4, 8, 16, 32, 64, 128

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

# `floats`, float64: code ** 4 by code | parameters | c(N) sqrt(max(1, sum n)) for small sums of n
POWERS = 0
CPUCT, CPUCT_BASE, CPUCT_FACTOR, FPU_VALUE, CATCH_UP_RATIO, WAVE_SHARE, TEMPERATURE = (
    64,
    65,
    66,
    67,
    68,
    69,
    70,
)
EXPLORATION = 72
EXPLORATION_ENTRIES = 4096
FLOATS = EXPLORATION + EXPLORATION_ENTRIES

# `ints`, int64: entries by block class | scratch for sorting | the gatherer (`kinds`) and its limits | the
# root's listed edges (`listed.py`)
CAPACITY = 0
KEYS = 32
SCHEME, COLLISION_EVENTS, COLLISION_VISITS = KEYS + 256, KEYS + 257, KEYS + 258
RUN = KEYS + 259  # number of the run that new records carry
RESTRICTED = KEYS + 260  # 1: the root's edges without a mark in LISTED take no visits of this search
LISTED = KEYS + 264  # by edge, in descending P
INTS = LISTED + 256
CODE = 63  # bits of a P code in its byte


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


@inner
def header_bytes(A: Any, rec: Any) -> Any:
    """Returns the 8 single bytes of a record's header."""
    return as_u8(adv(A.records, rec + 2))


@inner
def code_bytes(A: Any, rec: Any) -> Any:
    """Returns a record's P codes."""
    return as_u8(adv(A.records, rec + HEADER_WORDS))


@inner
def _spread(run: Any) -> Any:
    """Returns bits 0-15 of a run as the two upper bits of eight bytes."""
    x = U(run) & U(0xFFFF)
    x = (x | (x << U(24))) & U(0x000000FF000000FF)
    x = (x | (x << U(12))) & U(0x000F000F000F000F)
    x = (x | (x << U(6))) & U(0x0303030303030303)
    return x << U(6)


@inner
def _gathered(word: Any) -> Any:
    """Returns what `_spread` put into a word."""
    x = (word >> U(6)) & U(0x0303030303030303)
    x = (x | (x >> U(6))) & U(0x000F000F000F000F)
    x = (x | (x >> U(12))) & U(0x000000FF000000FF)
    return int64((x | (x >> U(24))) & U(0xFFFF))


@inner
def set_source(A: Any, rec: Any, evaluator: Any, run: Any) -> None:
    """Notes where a record comes from; its P codes must be there already, for they share their bytes."""
    hb = header_bytes(A, rec)
    hb[5] = uint8(int64(evaluator) | ((int64(run) >> 16) << 4))
    if hb[0]:
        word = A.records[rec + HEADER_WORDS] & U(0x3F3F3F3F3F3F3F3F)
        A.records[rec + HEADER_WORDS] = word | _spread(run)
    else:
        set_block(A, rec, int64(run) & 0xFFFF)


@inner
def evaluator_of(A: Any, rec: Any) -> Any:
    """Returns the number of a record's evaluator."""
    return int64(header_bytes(A, rec)[5]) & MAX_EVALUATOR


@inner
def run_of(A: Any, rec: Any) -> Any:
    """Returns the number of the run that a record comes from."""
    hb = header_bytes(A, rec)
    low = _gathered(A.records[rec + HEADER_WORDS]) if hb[0] else block_of(A, rec)
    return ((int64(hb[5]) >> 4) << 16) | low


@inner
def move_count(A: Any, rec: Any) -> Any:
    """Returns how many legal moves a record has; 0 for a terminal one."""
    return int64(header_bytes(A, rec)[0])


@inner
def record_words(moves: Any) -> Any:
    """Returns the words of a record of so many moves."""
    return HEADER_WORDS + ((int64(moves) + 7) >> 3)


@inner
def state_of(A: Any, rec: Any) -> Any:
    """Returns the state bits of a record."""
    return int64(header_bytes(A, rec)[3])


@inner
def block_class_of(A: Any, rec: Any) -> Any:
    """Returns the class of a record's block, NO_BLOCK if it has none."""
    return int64(header_bytes(A, rec)[1])


@inner
def block_of(A: Any, rec: Any) -> Any:
    """Returns the word index of a record's block (or its best move while it has none)."""
    return int64(as_u32(adv(A.records, rec + 1))[0])


@inner
def set_block(A: Any, rec: Any, block: Any) -> None:
    """Sets the word index of a record's block."""
    as_u32(adv(A.records, rec + 1))[0] = uint32(block)


@inner
def value_of(A: Any, rec: Any) -> Any:
    """Returns V, float32."""
    return as_f32(adv(A.records, rec + 1))[1]


@inner
def draw_word(A: Any, rec: Any) -> Any:
    """Returns D per mille | flags << 10."""
    return int64(as_u16(adv(A.records, rec + 2))[3])


@inner
def is_exact(A: Any, rec: Any) -> Any:
    """Returns whether a record's bounds leave one result."""
    flags = draw_word(A, rec) >> 10
    return (flags >> 2) & 3 == (flags >> 4) & 3


@inner
def stride_of(block_class: Any) -> Any:
    """Returns the words of one entry in blocks of a class."""
    return int64(4) if block_class >= WIDE else int64(3)


@inner
def stride_at(A: Any, rec: Any) -> Any:
    """Returns the words of one entry of a record's block."""
    return stride_of(block_class_of(A, rec))


@inner
def entry_at(A: Any, rec: Any, j: Any) -> Any:
    """Returns the word index of entry `j` of a record's block."""
    return block_of(A, rec) + BLOCK_HEADER + j * stride_at(A, rec)


@inner
def materialised(A: Any, rec: Any) -> Any:
    """Returns how many edges of a record have an entry."""
    block_class = block_class_of(A, rec)
    if block_class == NO_BLOCK:
        return int64(0)
    return min(A.ints[CAPACITY + block_class], move_count(A, rec))


@inner
def draw_visits(A: Any, x: Any, stride: Any) -> Any:
    """Returns r of the entry at word `x`."""
    return int64(A.blocks[x + 3]) if stride == 4 else int64(0)
