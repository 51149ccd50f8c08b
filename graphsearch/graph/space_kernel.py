"""The heap of records: words with free pieces between the records; adjacent free pieces merge.

    slot 1                 hand                              RECORD_WORDS
      | record | free | record | record | free      | record |
                 \\__________ lists by size ________/

    free piece   next slot | slot before it << 32 | words | state FREE

The lists are doubly linked, so that a piece can leave its list when it merges with a neighbour. A piece has
at least HEADER_WORDS words, so a larger one is split only if the rest has as many.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.pointers import LOW32, ZERO, U
from ..jit.types import int64
from ..store.record.node_kernel import add_state, move_count, record_words, state_of
from ..store.record.node_layout import FREE, HEADER_WORDS, MISC_WORD
from . import arena_kernel as arena
from .arena_kernel import ArenaPointers
from .guards_kernel import SPACE, give_guard, take_guard, threads_of

PIECE_WORDS = 1  # word of a free piece that holds its length
RESERVE = 1024  # words that one of several threads reserves at once, some 35 records


@inner
def has_freed(A: ArenaPointers, wanted: int64) -> bool:
    """Returns whether `wanted` bytes are free, and each heap has at least half of its share of them.

    Free bytes in one heap alone are of little use: the other heap would grow.
    """
    counters = A.space
    free_records, free_blocks = 8 * counters[arena.FREED_RECORD_WORDS], 4 * counters[arena.FREED_WORDS]
    if wanted > free_records + free_blocks:
        return False
    records, blocks = 8 * counters[arena.RECORD_WORDS], 4 * counters[arena.BLOCK_WORDS]
    least = wanted // 2 * records // (records + blocks)
    return free_records >= least and free_blocks >= wanted // 2 - least


@inner
def piece_words(A: ArenaPointers, slot: int64) -> int64:
    """Returns the words of the record or free piece at a slot."""
    if state_of(A, slot) & FREE:
        return int64(A.records[slot + PIECE_WORDS])
    return record_words(move_count(A, slot))


@inner
def _list_of(words: int64) -> int64:
    return arena.RECORD_LISTS + min(int64(words), int64(arena.LARGEST_LIST))


@inner
def _push(A: ArenaPointers, slot: int64, words: int64) -> None:
    """Makes a free piece of some words, and puts it at the head of its list."""
    head = _list_of(words)
    following = A.space[head]
    A.records[slot] = U(following)
    A.records[slot + PIECE_WORDS] = U(words)
    A.records[slot + MISC_WORD] = ZERO
    add_state(A, slot, FREE)
    if following:
        A.records[following] = (A.records[following] & LOW32) | (U(slot) << U(32))
    A.space[head] = slot
    A.space[arena.FREED_RECORD_WORDS] += words


@inner
def _unlink(A: ArenaPointers, slot: int64) -> int64:
    """Removes a free piece from its list; returns its words."""
    words = int64(A.records[slot + PIECE_WORDS])
    following = int64(A.records[slot] & LOW32)
    previous = int64(A.records[slot] >> U(32))
    if previous:
        A.records[previous] = (A.records[previous] & ~LOW32) | U(following)
    else:
        A.space[_list_of(words)] = following
    if following:
        A.records[following] = (A.records[following] & LOW32) | (U(previous) << U(32))
    A.space[arena.FREED_RECORD_WORDS] -= words
    return words


@inner
def take_words(A: ArenaPointers, words: int64) -> int64:
    """Allocates words and returns their slot: a free piece, part of a larger one, or new words at the end."""
    slot = _find(A, words)
    if slot == 0:
        slot = A.space[arena.RECORD_WORDS]
        A.space[arena.RECORD_WORDS] = slot + words
    return slot


@inner
def _find(A: ArenaPointers, words: int64) -> int64:
    """Allocates a free piece of `words`, or part of a larger one; returns its slot, 0 if there is none."""
    counters = A.space
    if counters[arena.FREED_RECORD_WORDS] >= words:
        size = int64(words)
        while size <= arena.LARGEST_LIST:
            slot = counters[arena.RECORD_LISTS + size]
            if slot:
                found = _unlink(A, slot)
                if found > words:
                    _push(A, slot + words, found - words)
                return slot
            size = max(size + 1, words + HEADER_WORDS)
    return int64(0)


@inner
def take_record(A: ArenaPointers, words: int64) -> int64:
    """Allocates the words of a record and returns its slot; several threads each have a reserve."""
    if A.guard_mask == 0:
        return take_words(A, words)
    own = A.counters
    left = own[arena.RECORDS_RESERVED] - words
    if left != 0 and left < HEADER_WORDS:
        return _take_shared(A, words)
    slot = own[arena.RECORD_RESERVE]
    own[arena.RECORD_RESERVE] = slot + words
    own[arena.RECORDS_RESERVED] = left
    return slot


@inner
def _take_shared(A: ArenaPointers, words: int64) -> int64:
    """Allocates words under the guard: free ones if there are many, else from a new reserve."""
    take_guard(A, SPACE)
    many = threads_of(A) * RESERVE
    slot = _find(A, words) if A.space[arena.FREED_RECORD_WORDS] >= many else int64(0)
    if slot == 0:
        _give_rest(A)
        slot = A.space[arena.RECORD_WORDS]
        A.space[arena.RECORD_WORDS] = slot + RESERVE
        A.counters[arena.RECORD_RESERVE] = slot + words
        A.counters[arena.RECORDS_RESERVED] = RESERVE - words
    give_guard(A, SPACE)
    return slot


@inner
def _give_rest(A: ArenaPointers) -> None:
    slot, words = A.counters[arena.RECORD_RESERVE], A.counters[arena.RECORDS_RESERVED]
    A.counters[arena.RECORDS_RESERVED] = 0
    if slot + words == A.space[arena.RECORD_WORDS]:
        A.space[arena.RECORD_WORDS] = slot
    elif words:  # not merged with a following free piece, at which the hand may stand
        _push(A, slot, words)


@inner
def give_record_reserve(A: ArenaPointers) -> None:
    """Frees the rest of a thread's reserve."""
    if A.guard_mask:
        take_guard(A, SPACE)
        _give_rest(A)
        give_guard(A, SPACE)


@inner
def give_words(A: ArenaPointers, slot: int64, words: int64, before: int64) -> int64:
    """Frees words and merges them with free neighbours; returns the slot of the piece.

    Args:
      before: the slot of the free piece that ends at `slot`, 0 if there is none.
    """
    begin = int64(slot)
    end = int64(slot + words)
    if before:
        _unlink(A, before)
        begin = int64(before)
    if end < A.space[arena.RECORD_WORDS] and state_of(A, end) & FREE:
        end += _unlink(A, end)
    _push(A, begin, end - begin)
    return begin


@inner
def give_end(A: ArenaPointers, slot: int64) -> None:
    """Shortens the heap by the free piece at its end."""
    _unlink(A, slot)
    A.space[arena.RECORD_WORDS] = slot


@inner
def join_pieces(A: ArenaPointers, first: int64, second: int64) -> None:
    """Merges two adjacent free pieces."""
    words = _unlink(A, first)
    words += _unlink(A, second)
    _push(A, first, words)
