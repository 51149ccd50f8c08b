r"""The arena in memory: table, records, blocks of edges, their free lists, and the locks of several threads.

    key -> table  .. | slot, check hash | ..
                          |
           records .. | key | block, V | moves, state, D, flags | P codes .. |   `store/record_kernel.py`
                                  |
           blocks  .. | norm, sum n, Q, draws | edge | edge | .. |

`search/visit_kernel.py` lays out the search's part of `floats` and `ints`; `docs/contributing/kernels.md`
lists all bundles.

Guards of an arena that several threads search at once are spin locks, each with room for notes:

    row 0       | space: locked?
    row 1       | turns left | address of `sched_yield`, 0 for none | threads
    row 2...    | locked? | notes | note | note | ..          a row guards all records whose slots hash to it

A thread locks a record to read or change it, and inserts a new one into the table when it is complete. It
holds at most the rows of a record and of its parent on a path, then `space`. While it waits for a second row
it releases the first one at intervals, so threads cannot deadlock. With one thread there are no guards.

The heap of records has free pieces between the records; adjacent free pieces merge:

    slot 1                 hand                              RECORD_WORDS
      | record | free | record | record | free      | record |
                 \__________ lists by size ________/

    free piece   next slot | slot before it << 32 | words | state FREE

The lists are doubly linked, so that a piece can leave its list when it merges with a neighbour. A piece has
at least HEADER_WORDS words, so a larger one is split only if the rest has as many.

The heap of blocks has boundary tags:

    piece in use   .. 3 words .. | tag: draws (10 bits), class << 16, BEFORE_FREE | edges
    free piece     next | before it in its list | words | tag: FREE_PIECE | ..     | words

Blocks are never scanned in address order: they are moved while their owners stay. So the last word of a free
piece holds its size, which leads back to its beginning. The two halves of a tag are written separately: the
owner of a block writes the draws; the upper half changes under the guard SPACE.

Statistics of a node come from its edges; the update is idempotent:

    N = 1 + sum n_a      Q = clamp(L, H, (V + sum n_a E_a) / N)
    E_a = ((n_a - r_a) q_a + r_a draw) / n_a

The overlay holds visits of this session that are never saved: draws that only the history of its game made,
and visits forced over edges of its root.

Eviction drops records that the file has: a clock hand moves over the records in the order of their addresses.
Records visited since it last passed stay for another round; those that are dirty, being saved, part of a wave
under way or in the overlay stay.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import (
    LOW32,
    ZERO,
    U,
    adv,
    call_c,
    compare_exchange,
    exchange,
    fetch_add,
    load_acquire,
    mulhi,
    pause,
    prefetch,
    ptr,
    store_release,
    view,
)
from ..jit.types import Bundle, Items, Pointer, apart, float32, float64, int64, uint8, uint16, uint32, uint64
from ..position import board_kernel as board
from ..position.board import (
    BISHOPS,
    BLACK,
    CLOCK_BITS,
    CLOCK_SHIFT,
    KEY,
    KINGS,
    KNIGHTS,
    META,
    META_BITS,
    PAWNS,
    QUEENS,
    ROOKS,
    WHITE,
    BoardTable,
    Position,
    Words,
)
from ..position.tables import CT
from ..store import record_kernel as record
from ..store import transposition_kernel as entry
from ..store.transposition_kernel import EntryArrays

# a row of the log: squares of kinds whose number + 1 has bit 0, 1 or 2, those of Black, META with the slot
LOG_META, LOG_WORDS = 4, 5
OVERLAY_SLOT_SHIFT, OVERLAY_EDGE_BITS = 10, (1 << 9) - 1  # of an item of the overlay

# counters, int64
NODES, RECORD_WORDS, BLOCK_WORDS, DIRTY_NODES, FREED_WORDS = 0, 1, 2, 3, 4
VISITS, EVALUATIONS, CATCH_UPS, COLLISIONS, PATH_DRAWS, TERMINALS, HISTORY_DRAWS = 8, 9, 10, 11, 12, 13, 14
PLIES, SELDEPTH, WAVES, OVERLAY_LENGTH, OVERFLOWS = range(15, 20)
AHEAD = 24  # backups from a child with fewer visits than its edge (a lost child)
OVERLAY_RESERVED = 23  # overlay items reserved for the visits of the current wave
FREED_RECORD_WORDS, HAND, EVICTED, FRESH_NODES = 25, 26, 27, 28
OF_VISITS = (*range(VISITS, WAVES + 1), OVERFLOWS, AHEAD, FRESH_NODES)  # sums, except SELDEPTH
BLOCK_LISTS = 32  # heads of the free lists: one for each size in words, from EXACT_LISTS on by powers of two
EXACT_LISTS = 64
RECORD_LISTS = BLOCK_LISTS + EXACT_LISTS + 8  # LARGEST_LIST + 1 heads, by words; the last one: or larger
LARGEST_LIST = 63
COUNTERS = RECORD_LISTS + LARGEST_LIST + 1

# `floats`, float64: code ** 4 by code | a search's own
POWERS = 0
SEARCH_FLOATS = POWERS + 64
FLOATS = SEARCH_FLOATS + 8 + 4096

# `ints`, int64: edges by block class (`record_kernel.CAPACITY`) | scratch for sorting | number of the session
# (`run` in the file) that new records carry | a search's own
KEYS = 32
RUN = KEYS + 256
SEARCH_INTS = RUN + 1
INTS = SEARCH_INTS + 8 + 256


class ArenaArrays(Bundle):
    """The arrays of an arena, which `graph.arena.Arena` owns, for one of several threads or a single one."""

    table: Items[uint64]  # [places]: slot | check hash << 32, 0 empty
    records: Items[uint64]  # [words]
    blocks: Items[uint32]  # [words]
    values: Items[float32]  # the same memory as blocks
    counters: Items[int64]  # [COUNTERS], of the thread's visits
    space: Items[int64]  # [COUNTERS] of the arena; for a single thread the same as `counters`
    guards: Items[int64]  # [FIRST_ROW + rows * ROW_WORDS] of several threads; else the same as `space`
    guard_mask: int64  # rows of guards - 1; 0: a single thread uses the arena
    floats: Items[float64]  # [FLOATS]
    ints: Items[int64]  # [INTS]; each thread has its own
    moves: Items[uint16]  # [256] scratch: legal moves of the present position; each thread has its own
    overlay: Items[int64]  # [2 * ..]: (`overlay_item`, visits); never saved
    history: Items[uint64]  # Polyglot keys of positions that stood twice before the root
    log: Items[uint64]  # [LOG_WORDS * ..]: positions and slots of unsaved records; empty without a file
    entries: EntryArrays  # transposition entries of fixed-depth searches and mate proofs
    table_size: int64
    records_size: int64
    blocks_size: int64
    overlay_size: int64
    history_size: int64
    log_size: int64


def new_arrays(table: int, records: Words, blocks: NDArray[np.uint32], log: int) -> ArenaArrays:
    """Returns the arrays of an empty arena for a single thread.

    Args:
      table, log: items. records, blocks: the memory of both heaps.
    """
    counters = apart(COUNTERS, np.int64)
    return ArenaArrays(
        table=np.zeros(table, np.uint64),
        records=records,
        blocks=blocks,
        values=blocks.view(np.float32),
        counters=counters,
        space=counters,
        guards=counters,
        guard_mask=0,
        floats=np.zeros(FLOATS, np.float64),
        ints=np.zeros(INTS, np.int64),
        moves=np.zeros(256, np.uint16),
        overlay=np.zeros(1 << 16, np.int64),
        history=np.zeros(0, np.uint64),
        log=np.zeros(log, np.uint64),
        entries=entry.new_entries(int(entry.BUCKET)),
    )


# ------------------------------------------------------------------ items of the overlay
@inner
def overlay_item(rec: int64, j: int64, drawn: int64) -> int64:
    """Returns an overlay item: slot << 10 | edge << 1 | whether the visit ended there as a draw."""
    return (rec << OVERLAY_SLOT_SHIFT) | (j << 1) | drawn


@inner
def overlay_slot(item: int64) -> int64:
    """Returns the record slot of an overlay item."""
    return item >> OVERLAY_SLOT_SHIFT


# ------------------------------------------------------------------ guards
ROW_WORDS = 16  # two cache lines; most rows use only the first
SPACE, SHARED, FIRST_ROW = (int64(row * ROW_WORDS) for row in range(3))
TURNS, YIELD, THREADS = SHARED, SHARED + 1, SHARED + 2
ROWS_PER_THREAD, LEAST_ROWS = 512, 1024  # two threads collide in a row by chance once in some thousand visits
NOTES, FIRST_NOTE = 1, 2  # words of a row
MOST_NOTES = ROW_WORDS - FIRST_NOTE
MIXER = U(0x9E3779B97F4A7C15)
SPINS, PATIENCE = 64, 200  # tries before a waiting thread yields its core, or releases the row it holds


def new_guards(threads: int, address_of_yield: int) -> NDArray[np.int64]:
    """Returns guards for `threads` threads, all of them unlocked.

    Args:
      address_of_yield: of `base.system.address_of_yield`; 0: a waiting thread keeps its core.

    >>> len(new_guards(2, 0)) // ROW_WORDS - 2, len(new_guards(5, 0)) // ROW_WORDS - 2
    (1024, 4096)
    """
    rows = max(LEAST_ROWS, 1 << (ROWS_PER_THREAD * threads - 1).bit_length())
    guards = apart(int(FIRST_ROW) + rows * ROW_WORDS, np.int64)
    guards[YIELD], guards[THREADS] = address_of_yield, threads
    return guards


def of_thread(arrays: ArenaArrays, guards: NDArray[np.int64], counters: NDArray[np.int64]) -> ArenaArrays:
    """Returns an arena's arrays for one of several threads: with counts and scratch of its own."""
    return arrays.replace(
        counters=counters,
        guards=guards,
        guard_mask=(len(guards) - int(FIRST_ROW)) // ROW_WORDS - 1,
        ints=arrays.ints.copy(),
        moves=apart(256, np.uint16),
    )


# ------------------------------------------------------------------ locks
@inner
def rest(A: ArenaArrays, tries: int64) -> None:
    """Pauses in a spin loop; yields the core every SPINS tries, as the other thread may need it."""
    pause()
    if tries % SPINS == SPINS - 1 and A.guards[YIELD] != 0:
        call_c(A.guards[YIELD], ())


@inner
def _wait_for(A: ArenaArrays, at: int64) -> None:
    tries = int64(0)
    while exchange(A.guards, at, int64(1)) != 0:
        while load_acquire(A.guards, at) != 0:
            rest(A, tries)
            tries += 1


@inner
def take_guard(A: ArenaArrays, at: int64) -> None:
    """Locks the guard at a word: SPACE or the beginning of a row."""
    if A.guard_mask and exchange(A.guards, at, int64(1)) != 0:
        _wait_for(A, at)


@inner
def give_guard(A: ArenaArrays, at: int64) -> None:
    """Unlocks the guard at a word."""
    if A.guard_mask:
        store_release(A.guards, at, int64(0))


@inner
def row_of(A: ArenaArrays, number: uint64) -> int64:
    """Returns the first word of the row of a slot or a key."""
    return FIRST_ROW + (int64((number * MIXER) >> U(40)) & A.guard_mask) * ROW_WORDS


@inner
def lock_record(A: ArenaArrays, rec: int64) -> int64:
    """Locks the row of a record; returns its first word."""
    at = row_of(A, U(rec))
    take_guard(A, at)
    return at


@inner
def lock_above(A: ArenaArrays, below: int64, rec: int64) -> int64:
    """Locks the row of a locked record's parent; returns its first word, `below` if the row is the same."""
    at = row_of(A, U(rec))
    if A.guard_mask and at != below and exchange(A.guards, at, int64(1)) != 0:
        _wait_above(A, below, at)
    return at


@inner
def _wait_above(A: ArenaArrays, below: int64, at: int64) -> None:
    """Locks the row at `at`; while it waits, it releases the row at `below` for a moment at intervals."""
    tries = int64(0)
    while True:
        if load_acquire(A.guards, at) == 0 and exchange(A.guards, at, int64(1)) == 0:
            return
        tries += 1
        if tries % PATIENCE == 0:
            give_guard(A, below)
            rest(A, int64(SPINS - 1))
            take_guard(A, below)
        else:
            pause()


# ------------------------------------------------------------------ counts
@inner
def count_in(A: ArenaArrays, counter: int64, more: int64) -> int64:
    """Adds to a shared counter of the arena; returns the previous value."""
    if A.guard_mask:
        return fetch_add(A.space, counter, more)
    before = A.space[counter]
    A.space[counter] = before + more
    return before


@inner
def threads_of(A: ArenaArrays) -> int64:
    """Returns the number of threads that search the arena."""
    return A.guards[THREADS] if A.guard_mask else int64(1)


@inner
def takes_turn(A: ArenaArrays) -> bool:
    """Takes one turn, for one more visit; returns whether there was one."""
    return A.guard_mask == 0 or fetch_add(A.guards, TURNS, int64(-1)) > 0


@inner
def end_turns(A: ArenaArrays) -> None:
    """Sets the shared number of turns to 0."""
    if A.guard_mask:
        store_release(A.guards, TURNS, int64(0))


def merge_counters(shared: NDArray[np.int64], own: NDArray[np.int64]) -> None:
    """Adds a thread's counts to the counters of the arena, and clears them."""
    deepest = max(shared[SELDEPTH], own[SELDEPTH])
    shared[list(OF_VISITS)] += own[list(OF_VISITS)]
    shared[SELDEPTH] = deepest
    own[list(OF_VISITS)] = 0


# ------------------------------------------------------------------ the heap of records
PIECE_WORDS = 1  # word of a free piece that holds its length


@inner
def has_freed(A: ArenaArrays, wanted: int64) -> bool:
    """Returns whether `wanted` bytes are free, in each heap half of its share, so that neither grows."""
    counters = A.space
    free_records, free_blocks = 8 * counters[FREED_RECORD_WORDS], 4 * counters[FREED_WORDS]
    if wanted > free_records + free_blocks:
        return False
    records, blocks = 8 * counters[RECORD_WORDS], 4 * counters[BLOCK_WORDS]
    least = wanted // 2 * records // (records + blocks)
    return free_records >= least and free_blocks >= wanted // 2 - least


@inner
def piece_words(A: ArenaArrays, slot: int64) -> int64:
    """Returns the words of the record or free piece at a slot."""
    if record.state_of(A, slot) & record.FREE:
        return int64(A.records[slot + PIECE_WORDS])
    return record.record_words(record.move_count(A, slot))


@inner
def _record_list(words: int64) -> int64:
    return RECORD_LISTS + min(int64(words), int64(LARGEST_LIST))


@inner
def _push_words(A: ArenaArrays, slot: int64, words: int64) -> None:
    """Makes a free piece of some words, and puts it at the head of its list."""
    head = _record_list(words)
    following = A.space[head]
    A.records[slot] = U(following)
    A.records[slot + PIECE_WORDS] = U(words)
    A.records[slot + record.MISC_WORD] = ZERO
    record.add_state(A, slot, record.FREE)
    if following:
        A.records[following] = (A.records[following] & LOW32) | (U(slot) << U(32))
    A.space[head] = slot
    A.space[FREED_RECORD_WORDS] += words


@inner
def _unlink_words(A: ArenaArrays, slot: int64) -> int64:
    """Removes a free piece from its list; returns its words."""
    words = int64(A.records[slot + PIECE_WORDS])
    following = int64(A.records[slot] & LOW32)
    previous = int64(A.records[slot] >> U(32))
    if previous:
        A.records[previous] = (A.records[previous] & ~LOW32) | U(following)
    else:
        A.space[_record_list(words)] = following
    if following:
        A.records[following] = (A.records[following] & LOW32) | (U(previous) << U(32))
    A.space[FREED_RECORD_WORDS] -= words
    return words


@inner
def _find_words(A: ArenaArrays, words: int64) -> int64:
    """Allocates a free piece of `words`, or part of a larger one; returns its slot, 0 if there is none."""
    counters = A.space
    if counters[FREED_RECORD_WORDS] >= words:
        size = int64(words)
        while size <= LARGEST_LIST:
            slot = counters[RECORD_LISTS + size]
            if slot:
                found = _unlink_words(A, slot)
                if found > words:
                    _push_words(A, slot + words, found - words)
                return slot
            size = max(size + 1, words + record.HEADER_WORDS)
    return int64(0)


@inner
def take_record(A: ArenaArrays, words: int64) -> int64:
    """Allocates the words of a record and returns their slot: a free piece, or new words at the end."""
    take_guard(A, SPACE)
    slot = _find_words(A, words)
    if slot == 0:
        slot = A.space[RECORD_WORDS]
        A.space[RECORD_WORDS] = slot + words
    give_guard(A, SPACE)
    return slot


@inner
def give_words(A: ArenaArrays, slot: int64, words: int64, before: int64) -> int64:
    """Frees words and merges them with free neighbours, of which `before` ends here; returns the slot."""
    begin = int64(slot)
    end = int64(slot + words)
    if before:
        _unlink_words(A, before)
        begin = int64(before)
    if end < A.space[RECORD_WORDS] and record.state_of(A, end) & record.FREE:
        end += _unlink_words(A, end)
    _push_words(A, begin, end - begin)
    return begin


# ------------------------------------------------------------------ the heap of blocks
FREE_PIECE, BEFORE_FREE = 1 << 31, 1 << 30
CLASS_SHIFT = 16
UPPER_BEFORE_FREE = uint16(BEFORE_FREE >> 16)  # in the upper half of a tag
PIECE_NEXT, PIECE_BEFORE, PIECE_SIZE, PIECE_TAG = 0, 1, 2, record.BLOCK_D  # words of a free piece
LEAST_PIECE = record.BLOCK_HEADER + 1
TRIES = 8  # pieces examined in a list of several sizes


@inner
def block_words(A: ArenaArrays, block_class: int64) -> int64:
    """Returns the words of a block of a class, header included."""
    return record.BLOCK_HEADER + A.ints[record.CAPACITY + block_class] * record.stride_of(block_class)


@inner
def _block_list(words: int64) -> int64:
    """Returns the free list of a size: one for each small size, then one for each power of two."""
    if words < EXACT_LISTS:
        return int64(BLOCK_LISTS + words)
    place = int64(EXACT_LISTS)
    size = int64(2 * EXACT_LISTS)
    while words >= size and place < EXACT_LISTS + 4:
        size *= 2
        place += 1
    return BLOCK_LISTS + place


@inner
def _push_block(A: ArenaArrays, piece: int64, words: int64) -> None:
    head = _block_list(words)
    following = A.space[head]
    A.blocks[piece + PIECE_NEXT] = uint32(following)
    A.blocks[piece + PIECE_BEFORE] = uint32(0)
    A.blocks[piece + PIECE_SIZE] = uint32(words)
    A.blocks[piece + PIECE_TAG] = uint32(FREE_PIECE)
    A.blocks[piece + words - 1] = uint32(words)
    if following:
        A.blocks[following + PIECE_BEFORE] = uint32(piece)
    A.space[head] = piece
    A.space[FREED_WORDS] += words


@inner
def _unlink_block(A: ArenaArrays, piece: int64) -> int64:
    """Removes a free piece from its list; returns its words."""
    following, previous = int64(A.blocks[piece + PIECE_NEXT]), int64(A.blocks[piece + PIECE_BEFORE])
    words = int64(A.blocks[piece + PIECE_SIZE])
    if previous:
        A.blocks[previous + PIECE_NEXT] = uint32(following)
    else:
        A.space[_block_list(words)] = following
    if following:
        A.blocks[following + PIECE_BEFORE] = uint32(previous)
    A.space[FREED_WORDS] -= words
    return words


@inner
def _find_block(A: ArenaArrays, words: int64) -> int64:
    """Returns a free piece that holds `words`, exactly or with a valid rest; 0 if it finds none."""
    if A.space[FREED_WORDS] < words:
        return int64(0)
    last = int64(BLOCK_LISTS + EXACT_LISTS + 4)
    head = _block_list(words)
    while head <= last:
        piece = A.space[head]
        for _ in range(TRIES):
            if piece == 0:
                break
            found = int64(A.blocks[piece + PIECE_SIZE])
            if found == words or found >= words + LEAST_PIECE:
                return piece
            if head < BLOCK_LISTS + EXACT_LISTS:  # all pieces of this list have one size
                break
            piece = int64(A.blocks[piece + PIECE_NEXT])
        head += 1
    return int64(0)


@inner
def _mark_before(A: ArenaArrays, piece: int64, is_free: bool) -> None:
    """Notes in a tag whether the preceding piece is free; does not touch the owner's lower half."""
    halves = view(uint16, adv(A.blocks, piece + PIECE_TAG))
    if is_free:
        halves[1] |= UPPER_BEFORE_FREE
    else:
        halves[1] &= uint16(0xFFFF - UPPER_BEFORE_FREE)


@inner
def take_block(A: ArenaArrays, block_class: int64) -> int64:
    """Allocates and returns a block of a class; only the tag of its header is set."""
    take_guard(A, SPACE)
    words = block_words(A, block_class)
    piece = _find_block(A, words)
    if piece:
        found = _unlink_block(A, piece)
        if found > words:
            _push_block(A, piece + words, found - words)
        elif piece + words < A.space[BLOCK_WORDS]:
            _mark_before(A, piece + words, False)
    else:
        piece = A.space[BLOCK_WORDS]
        A.space[BLOCK_WORDS] = piece + words
    A.blocks[piece + PIECE_TAG] = uint32(block_class) << uint32(CLASS_SHIFT)
    give_guard(A, SPACE)
    return piece


@inner
def give_block(A: ArenaArrays, block_class: int64, block: int64) -> None:
    """Frees a block and merges it with free neighbours."""
    take_guard(A, SPACE)
    begin = int64(block)
    end = begin + block_words(A, block_class)
    if A.blocks[begin + PIECE_TAG] & uint32(BEFORE_FREE):
        begin -= int64(A.blocks[begin - 1])
        _unlink_block(A, begin)
    if end < A.space[BLOCK_WORDS] and A.blocks[end + PIECE_TAG] & uint32(FREE_PIECE):
        end += _unlink_block(A, end)
    if end == A.space[BLOCK_WORDS]:
        A.space[BLOCK_WORDS] = begin
    else:
        _push_block(A, begin, end - begin)
        _mark_before(A, end, True)
    give_guard(A, SPACE)


@inner
def draws_of(A: ArenaArrays, block: int64) -> int64:
    """Returns the node's draw share per mille in a block's header."""
    return int64(view(uint16, adv(A.blocks, block + record.BLOCK_D))[0])


@inner
def set_draws(A: ArenaArrays, block: int64, draws: int64) -> None:
    """Sets the node's draw share per mille in a block's header."""
    view(uint16, adv(A.blocks, block + record.BLOCK_D))[0] = uint16(draws)


# ------------------------------------------------------------------ the table
# A word of the table: slot | check hash << 32; 0 is an empty place.
@inner
def slot_in(word: uint64) -> int64:
    """Returns the slot in a word of the table."""
    return int64(word & LOW32)


@inner
def check_in(word: uint64) -> uint64:
    """Returns the check hash in a word of the table."""
    return word >> U(32)


@inner
def table_index(A: ArenaArrays, key: uint64) -> int64:
    """Returns the table index at which probing for a key starts.

    It is monotonic in the key, so that the table can grow by any factor.
    """
    return int64(mulhi(key, U(A.table_size)))


@inner
def find(A: ArenaArrays, key: uint64, check: uint64) -> int64:
    """Returns the slot of the record with this key and check hash, 0 if there is none."""
    i = table_index(A, key)
    while True:
        word = load_acquire(A.table, i)
        if word == ZERO:
            return int64(0)
        if check_in(word) == check:
            rec = slot_in(word)
            if record.key_at(A, rec) == key:
                return rec
        i += 1
        if i == A.table_size:
            i = int64(0)


@inner
def likely_slot(A: ArenaArrays, key: uint64, check: uint64) -> int64:
    """Returns the first probed slot with this check hash, without reading its record; 0 if there is none."""
    i = table_index(A, key)
    while True:
        word = A.table[i]
        if word == ZERO:
            return int64(0)
        if check_in(word) == check:
            return slot_in(word)
        i += 1
        if i == A.table_size:
            i = int64(0)


@inner
def insert(A: ArenaArrays, key: uint64, check: uint64, rec: int64) -> None:
    """Inserts a complete record that is not in the table yet."""
    i = table_index(A, key)
    word = U(rec) | (check << U(32))
    while A.table[i] != ZERO or not compare_exchange(A.table, i, ZERO, word):
        i += 1
        if i == A.table_size:
            i = int64(0)


@inner
def remove(A: ArenaArrays, rec: int64) -> None:
    """Removes a record from the table, and shifts later words of its probe sequence into the gap."""
    last = A.table_size - 1
    gap = table_index(A, record.key_at(A, rec))
    while slot_in(A.table[gap]) != rec:
        gap = gap + 1 if gap < last else int64(0)
    i = gap
    while True:
        i = i + 1 if i < last else int64(0)
        word = A.table[i]
        if word == ZERO:
            break
        home = table_index(A, record.key_at(A, slot_in(word)))
        stays = gap < home <= i if gap < i else home > gap or home <= i
        if not stays:
            A.table[gap] = word
            gap = i
    A.table[gap] = ZERO


# ------------------------------------------------------------------ records
@inner
def _fold(s: Position, row: Pointer[uint64]) -> None:
    """Writes a position as a row of the log."""
    row[0] = s[PAWNS] | s[BISHOPS] | s[QUEENS]
    row[1] = s[KNIGHTS] | s[BISHOPS] | s[KINGS]
    row[2] = s[ROOKS] | s[QUEENS] | s[KINGS]
    row[3], row[4] = s[BLACK], s[META]


@inner
def _unfold(T: BoardTable, row: Pointer[uint64], s: Position, clock: int64, key: uint64) -> None:
    """Writes a folded position, whose META may have more bits above, with another clock and a graph's key."""
    first, second, third = row[0], row[1], row[2]
    s[PAWNS] = first & ~second & ~third
    s[KNIGHTS] = second & ~first & ~third
    s[BISHOPS] = first & second
    s[ROOKS] = third & ~first & ~second
    s[QUEENS] = first & third
    s[KINGS] = second & third
    s[BLACK] = row[3]
    s[WHITE] = (first | second | third) & ~row[3]
    s[META] = board.with_clock(row[4] & board.PLACE, clock)
    s[KEY] = key ^ T[CT + clock]


@inner
def mark_dirty(A: ArenaArrays, rec: int64, s: Position) -> None:
    """Marks a record as dirty, and appends its position to the log, since the record does not contain it."""
    if record.state_of(A, rec) & record.DIRTY or A.log_size == 0:
        return
    record.add_state(A, rec, record.DIRTY)
    row = adv(A.log, count_in(A, DIRTY_NODES, int64(1)) * LOG_WORDS)
    _fold(s, row)
    row[LOG_META] = board.with_clock(row[LOG_META], rec & CLOCK_BITS) | (U(rec) >> U(8) << U(META_BITS))


@inner
def logged_slot(A: ArenaArrays, i: int64) -> int64:
    """Returns the slot in row `i` of the log: bits 0-7 in place of META's clock, the others above META."""
    word = A.log[i * LOG_WORDS + LOG_META]
    return int64((word >> U(META_BITS) << U(8)) | (word >> U(CLOCK_SHIFT)) & U(CLOCK_BITS))


@inner
def read_log(T: BoardTable, A: ArenaArrays, i: int64, s: Position) -> int64:
    """Writes the position in row `i` of the log, its clock as at evaluation; returns its record's slot."""
    rec = logged_slot(A, i)
    _unfold(T, adv(A.log, i * LOG_WORDS), s, record.clock_at_evaluation(A, rec), record.key_at(A, rec))
    return rec


@inner
def clean_record(
    A: ArenaArrays, s: Position, key: uint64, n: int64, v: float32, d: int64, flags: int64
) -> int64:
    """Returns the slot of a new clean record without codes or block; `set_source`, `insert` must follow."""
    rec = take_record(A, record.record_words(n))
    count_in(A, NODES, int64(1))
    record.fill_header(A, rec, key, n, record.USED, board.clock_of(s))
    record.set_value(A, rec, v)
    record.set_draws_and_flags(A, rec, d, flags)
    return rec


@inner
def new_record(
    A: ArenaArrays, s: Position, key: uint64, n: int64, v: float32, d: int64, flags: int64
) -> int64:
    """Returns the slot of a new record, dirty and fresh; the rest is as in `clean_record`."""
    rec = clean_record(A, s, key, n, v, d, flags)
    A.counters[FRESH_NODES] += 1
    record.add_state(A, rec, record.FRESH)
    mark_dirty(A, rec, s)
    return rec


@inner
def set_best(A: ArenaArrays, rec: int64, moves: Pointer[uint16]) -> None:
    """Stores the move with the largest P in the header, so that the first visit needs no move generation."""
    codes = record.code_bytes(A, rec)
    best = int64(0)
    for j in range(1, record.move_count(A, rec)):
        if codes[j] & record.CODE > codes[best] & record.CODE:
            best = int64(j)
    record.set_block_class(A, rec, int64(record.NO_BLOCK), record.code_at(A, rec, best))
    record.set_block(A, rec, int64(moves[best]))


# ------------------------------------------------------------------ blocks
@inner
def new_block(A: ArenaArrays, rec: int64, block_class: int64) -> int64:
    """Returns a new block for a record, its header filled and no edges."""
    block = take_block(A, block_class)
    codes = record.code_bytes(A, rec)
    total = uint32(0)
    for j in range(record.move_count(A, rec)):
        x = uint32(codes[j] & record.CODE)
        total += x * x * x * x
    A.values[block + record.NORM] = float32(1.0 / float64(total))
    A.blocks[block + record.BLOCK_VISITS] = uint32(0)
    A.values[block + record.BLOCK_Q] = record.value_of(A, rec)
    set_draws(A, block, record.value_draws(A, rec))
    return block


@inner
def _first_block(A: ArenaArrays, rec: int64) -> None:
    """Gives a record its first block: one edge, for the best move stored in the header."""
    move = uint16(record.block_of(A, rec))
    code = record.best_code_of(A, rec)
    block = new_block(A, rec, int64(0))
    record.new_edge(A, block + record.BLOCK_HEADER, int64(3), move, code)
    seen = 0
    following = int64(0)
    for j in range(record.move_count(A, rec)):
        here = record.code_at(A, rec, j)
        if here == code:
            seen += 1
        elif here > following:
            following = here
    record.set_block(A, rec, block)
    record.set_block_class(A, rec, int64(0), code if seen > 1 else following)


@inner
def rank_key(code: int64, j: int64) -> int64:
    """Returns the sort key of a move: code << 8 | 255 - j, where `j` is its index in canonical order."""
    return (code << 8) | (255 - j)


@inner
def ranked_move(key: int64) -> int64:
    """Returns the index in canonical order in a rank key."""
    return 255 - (key & 255)


@inner
def ranked_code(key: int64) -> int64:
    """Returns the P code in a rank key."""
    return key >> 8


@inner
def rank_codes(codes: Pointer[uint8], n: int64, wanted: int64, keys: Pointer[int64]) -> None:
    """Writes the rank keys of `n` P codes, the best `wanted` sorted at the front.

    Blocks grow by half, so selection costs O(n) per edge ever made; a full sort would cost more.
    """
    for j in range(n):
        keys[j] = rank_key(int64(codes[j]) & record.CODE, j)
    for a in range(min(wanted, n)):
        best = a
        for i in range(a + 1, n):
            if keys[i] > keys[best]:
                best = i
        keys[a], keys[best] = keys[best], keys[a]


@inner
def _move_edges(
    A: ArenaArrays, old: int64, old_class: int64, block: int64, new_class: int64, m: int64
) -> None:
    """Copies header and edges to a larger block and frees the old one."""
    for word in range(record.BLOCK_D):
        A.blocks[block + word] = A.blocks[old + word]
    set_draws(A, block, draws_of(A, old))
    stride = record.stride_of(new_class)
    old_stride = record.stride_of(old_class)
    for i in range(m):
        to = block + record.BLOCK_HEADER + i * stride
        edge = old + record.BLOCK_HEADER + i * old_stride
        for word in range(record.EDGE_R):
            A.blocks[to + word] = A.blocks[edge + word]
        if stride == 4:
            record.set_draw_visits(A, to, record.draw_visits(A, edge, old_stride))
    give_block(A, old_class, old)


@inner
def grow_block(T: BoardTable, A: ArenaArrays, s: Position, rec: int64, wanted: int64, wide: bool) -> None:
    """Moves a record's edges to the smallest block with room for `wanted` of them, with r if `wide`."""
    m = record.materialised(A, rec)
    if m == 0 and wanted == 1 and not wide:
        _first_block(A, rec)
        return
    n = record.move_count(A, rec)
    old_class = record.block_class_of(A, rec)
    new_class = int64(0)
    while A.ints[record.CAPACITY + new_class] < wanted:
        new_class += 1
    if wide or (m and old_class >= record.WIDE):
        new_class += record.WIDE
    if m:
        block = take_block(A, new_class)
        _move_edges(A, record.block_of(A, rec), old_class, block, new_class, m)
    else:
        block = new_block(A, rec, new_class)
    record.set_block(A, rec, block)
    record.set_block_class(A, rec, new_class, record.best_code_of(A, rec))
    m2 = record.materialised(A, rec)
    if m2 == m:
        return
    board.generate_moves(T, s, A.moves)
    keys = adv(A.ints, KEYS)
    rank_codes(record.code_bytes(A, rec), n, m2 + 1, keys)
    stride = record.stride_of(new_class)
    for i in range(m, m2):
        move, code = A.moves[ranked_move(keys[i])], ranked_code(keys[i])
        record.new_edge(A, block + record.BLOCK_HEADER + i * stride, stride, move, code)
    record.set_block_class(A, rec, new_class, ranked_code(keys[m2]) if m2 < n else int64(0))


@kernel
def rehash(A: ArenaArrays, old: NDArray[np.uint64]) -> None:
    """Fills the arena's new, larger and empty table from the old one, nearly in order."""
    for i in range(old.size):
        if i + 16 < old.size:
            prefetch(A.records, slot_in(old[i + 16]))
        word = old[i]
        if word != ZERO:
            insert(A, record.key_at(A, slot_in(word)), check_in(word), slot_in(word))


@kernel
def find_position(T: NDArray[np.uint64], A: ArenaArrays, words: NDArray[np.uint64]) -> int64:
    """Returns the slot of the record of a packed position (`uint64[10]`), 0 if there is none."""
    key, check = board.hashes_of(ptr(T, 0), ptr(words, 0))
    return find(A, key, check)


# ------------------------------------------------------------------ statistics of a node
DRAW_MILLE = 1000
MAX_VISITS = 0xFFFFFFFF


@inner
def cap_draws(draws: int64, q: float32) -> int64:
    """Returns a draw share per mille, limited to 1 - |Q|: means of rounded shares can exceed it."""
    return min(int64(draws), int64(float64(DRAW_MILLE) * (1.0 - abs(float64(q))) + 0.5))


@inner
def weighed(n: int64, r: int64, q: float32, draws: int64) -> tuple[float64, int64]:
    """Returns an edge's terms in its node's sums of Q and of draws per mille; `draws`: its draw field."""
    return float64(n - r) * float64(q), (n - r) * record.share_of(q, draws) + r * DRAW_MILLE


@inner
def mean(flags: int64, total: float64, draws: int64, node_n: int64) -> tuple[float32, int64]:
    """Returns node Q = clamp(L, H, total / N), float32, and the draw share per mille, from its sums."""
    lower, upper = record.lower_in(flags), record.upper_in(flags)
    q = float32(min(max(total / float64(node_n), float64(lower)), float64(upper)))
    if lower == upper:
        return q, int64(0) if q else int64(DRAW_MILLE)
    return q, cap_draws((2 * draws + node_n) // (2 * node_n), q)


@inner
def refresh(A: ArenaArrays, rec: int64) -> None:
    """Recomputes a record's block header (sum of n, Q, draw share) and its bounds from its edges."""
    record.clear_state(A, rec, record.STALE)
    if not record.has_block(A, rec):
        return
    stride = record.stride_at(A, rec)
    block = record.block_of(A, rec)
    edge = record.edge_at(A, rec, int64(0))
    visits = int64(0)
    draws = record.value_draws(A, rec)
    total = float64(record.value_of(A, rec))
    proves = False
    for _ in range(record.materialised(A, rec)):
        n = record.edge_visits(A, edge)
        if n:
            r = record.draw_visits(A, edge, stride)
            visits += n
            q, d = record.edge_q(A, edge), record.edge_draws(A, edge)
            if record.is_special(q, d):
                proves = True
            value, drawn = weighed(n, r, q, d)
            total += value
            draws += drawn
        edge += stride
    if proves:
        record.tighten(A, rec)
    if visits > MAX_VISITS:
        A.counters[OVERFLOWS] += 1
    A.blocks[block + record.BLOCK_VISITS] = uint32(visits)
    node_mean, share = mean(record.flags_of(A, rec), total, draws, visits + 1)
    A.values[block + record.BLOCK_Q] = node_mean
    set_draws(A, block, share)


@inner
def child_visits(A: ArenaArrays, rec: int64) -> int64:
    """Returns the sum of n of a record's edges, node N - 1."""
    if not record.has_block(A, rec):
        return int64(0)
    return int64(A.blocks[record.block_of(A, rec) + record.BLOCK_VISITS])


# ------------------------------------------------------------------ the overlay
def folded(overlay: NDArray[np.int64], length: int) -> tuple[NDArray[np.int64], int]:
    """Returns an overlay of `length` notes with the notes of each item summed, and its new length."""
    items, inverse = np.unique(overlay[0 : 2 * length : 2], return_inverse=True)
    sums = np.zeros(len(items), np.int64)
    np.add.at(sums, inverse, overlay[1 : 2 * length : 2])
    found = np.zeros(max(len(overlay), 8 * len(items)), np.int64)
    found[0 : 2 * len(items) : 2] = items
    found[1 : 2 * len(items) : 2] = sums
    return found, len(items)


@kernel
def shift_overlay(A: ArenaArrays, sign: int64) -> None:
    """Subtracts (`sign` -1) or adds (+1) the visits of the overlay.

    The file has the records without them, so this makes no record dirty.
    """
    for i in range(A.counters[OVERLAY_LENGTH]):
        item = A.overlay[2 * i]
        change = sign * A.overlay[2 * i + 1]
        rec = overlay_slot(item)
        if not record.has_block(A, rec):
            continue
        edge = record.edge_at(A, rec, (item >> 1) & OVERLAY_EDGE_BITS)
        record.set_edge_visits(A, edge, record.edge_visits(A, edge) + change)
        if item & 1:
            record.set_draw_visits(A, edge, record.draw_visits(A, edge, record.stride_at(A, rec)) + change)
        refresh(A, rec)


# ------------------------------------------------------------------ eviction
STAYS = record.DIRTY | record.SAVING | record.PINNED | record.HELD
HAND_ROUNDS = 2  # in the first all records may have been visited


@inner
def _enough(A: ArenaArrays, wanted: int64, nodes: int64) -> bool:
    return A.counters[NODES] <= nodes and has_freed(A, wanted)


@inner
def _drop(A: ArenaArrays, rec: int64, words: int64, before: int64) -> int64:
    """Evicts a record; returns the slot of the resulting free piece."""
    remove(A, rec)
    if record.has_block(A, rec):
        give_block(A, record.block_class_of(A, rec), record.block_of(A, rec))
    A.counters[NODES] -= 1
    A.counters[EVICTED] += 1
    return give_words(A, rec, words, before)


@inner
def _switch(A: ArenaArrays, rec: int64, bit: int64, on: bool) -> None:
    if on:
        record.add_state(A, rec, bit)
    else:
        record.clear_state(A, rec, bit)


@inner
def _pass_piece(A: ArenaArrays, at: int64, before: int64, drops: bool) -> tuple[int64, int64]:
    """Passes the piece of the heap at a slot, and evicts its record if `drops`.

    Returns (the next slot, the slot of the free piece that ends there, 0 for none); `before`: of `at`.
    """
    words = piece_words(A, at)
    if record.state_of(A, at) & record.FREE:
        if before:  # they become one
            joined = _unlink_words(A, before)
            joined += _unlink_words(A, at)
            _push_words(A, before, joined)
        else:
            before = at
        return at + words, before
    if not drops:
        return at + words, int64(0)
    before = _drop(A, at, words, before)
    return before + piece_words(A, before), before  # it may have merged with the next free piece


@kernel
def evict(A: ArenaArrays, wanted: int64, nodes: int64) -> bool:
    """Evicts until `wanted` bytes are free and at most `nodes` nodes are left; returns whether it succeeded.

    It gives up after the hand has gone round twice.
    """
    end = A.counters[RECORD_WORDS]
    hand = A.counters[HAND]
    before = int64(0)
    left = HAND_ROUNDS * end
    while left > 0 and not _enough(A, wanted, nodes):
        if hand < 1 or hand >= end:
            hand = int64(1)
            before = int64(0)
            if end == 1:
                break
        drops = record.state_of(A, hand) & (STAYS | record.USED) == 0
        if record.state_of(A, hand) & record.FREE == 0:
            record.clear_state(A, hand, record.USED)
        following, before = _pass_piece(A, hand, before, drops)
        left -= following - hand
        hand = following
    A.counters[HAND] = int64(1) if before == 0 and hand >= end else (before if before else hand)
    return _enough(A, wanted, nodes)


@kernel
def cut(A: ArenaArrays, record_end: int64, block_end: int64) -> None:
    """Evicts the records beyond these sizes of either heap, unless they must stay; shortens both heaps."""
    end = A.counters[RECORD_WORDS]
    at = int64(1)
    before = int64(0)
    while at < end:
        lies_within = at + piece_words(A, at) <= record_end
        if lies_within and record.has_block(A, at):
            block_class = record.block_class_of(A, at)
            lies_within = record.block_of(A, at) + block_words(A, block_class) <= block_end
        stays = record.state_of(A, at) & STAYS or lies_within
        at, before = _pass_piece(A, at, before, not stays)
    if before:  # the free piece at the end
        _unlink_words(A, before)
        A.space[RECORD_WORDS] = before
    A.counters[HAND] = int64(1)


@kernel
def pin(A: ArenaArrays, slots: NDArray[np.uint64], on: bool) -> None:
    """Pins or unpins the records at some slots, `uint64[R]`; slot 0 is none."""
    for i in range(slots.size):
        if slots[i]:
            _switch(A, int64(slots[i]), record.PINNED, on)


@kernel
def hold(A: ArenaArrays, on: bool) -> None:
    """Sets or clears HELD on the records of the overlay, which stay in memory while it is set."""
    for i in range(A.counters[OVERLAY_LENGTH]):
        _switch(A, overlay_slot(A.overlay[2 * i]), record.HELD, on)
