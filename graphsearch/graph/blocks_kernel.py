"""The heap of blocks: pieces with boundary tags, which merge with free neighbours when they are freed.

    piece in use   .. 3 words .. | tag: draws (10 bits), class << 16, BEFORE_FREE | edges
    free piece     next | before it in its list | words | tag: FREE_PIECE | ..     | words

Unlike records, blocks are never scanned in address order, because they are moved while their owners stay. So
the last word of a free piece holds its size, which leads back to its beginning.

The two halves of a tag are written separately: the owner of a block writes the draws; the upper half changes
under the guard SPACE.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.pointers import adv, as_u16
from ..jit.types import int64, uint16, uint32
from ..store.record import node_layout as layout
from ..store.record.node_kernel import stride_of
from . import arena_kernel as arena
from .arena_kernel import ArenaPointers
from .guards_kernel import SPACE, give_guard, take_guard

FREE_PIECE, BEFORE_FREE = 1 << 31, 1 << 30
CLASS_SHIFT = 16
UPPER_BEFORE_FREE = uint16(BEFORE_FREE >> 16)  # in the upper half of a tag
FOLLOWING, PREVIOUS, WORDS, TAG = 0, 1, 2, layout.BLOCK_D  # words of a free piece
LEAST_PIECE = layout.BLOCK_HEADER + 1
TRIES = 8  # pieces examined in a list of several sizes


@inner
def block_words(A: ArenaPointers, block_class: int64) -> int64:
    """Returns the words of a block of a class, header included."""
    return layout.BLOCK_HEADER + A.ints[layout.CAPACITY + block_class] * stride_of(block_class)


@inner
def _list_of(words: int64) -> int64:
    """Returns the free list of a size: one for each small size, then one for each power of two."""
    if words < arena.EXACT_LISTS:
        return int64(arena.BLOCK_LISTS + words)
    place = int64(arena.EXACT_LISTS)
    size = int64(2 * arena.EXACT_LISTS)
    while words >= size and place < arena.EXACT_LISTS + 4:
        size *= 2
        place += 1
    return arena.BLOCK_LISTS + place


@inner
def _push(A: ArenaPointers, piece: int64, words: int64) -> None:
    head = _list_of(words)
    following = A.space[head]
    A.blocks[piece + FOLLOWING] = uint32(following)
    A.blocks[piece + PREVIOUS] = uint32(0)
    A.blocks[piece + WORDS] = uint32(words)
    A.blocks[piece + TAG] = uint32(FREE_PIECE)
    A.blocks[piece + words - 1] = uint32(words)
    if following:
        A.blocks[following + PREVIOUS] = uint32(piece)
    A.space[head] = piece
    A.space[arena.FREED_WORDS] += words


@inner
def _unlink(A: ArenaPointers, piece: int64) -> int64:
    """Removes a free piece from its list; returns its words."""
    following, previous = int64(A.blocks[piece + FOLLOWING]), int64(A.blocks[piece + PREVIOUS])
    words = int64(A.blocks[piece + WORDS])
    if previous:
        A.blocks[previous + FOLLOWING] = uint32(following)
    else:
        A.space[_list_of(words)] = following
    if following:
        A.blocks[following + PREVIOUS] = uint32(previous)
    A.space[arena.FREED_WORDS] -= words
    return words


@inner
def _fits(found: int64, words: int64) -> bool:
    return found == words or found >= words + LEAST_PIECE


@inner
def _find(A: ArenaPointers, words: int64) -> int64:
    """Returns a free piece that holds `words`, exactly or with a valid rest; 0 if it finds none."""
    if A.space[arena.FREED_WORDS] < words:
        return int64(0)
    last = int64(arena.BLOCK_LISTS + arena.EXACT_LISTS + 4)
    head = _list_of(words)
    while head <= last:
        piece = A.space[head]
        for _ in range(TRIES):
            if piece == 0:
                break
            if _fits(int64(A.blocks[piece + WORDS]), words):
                return piece
            if head < arena.BLOCK_LISTS + arena.EXACT_LISTS:  # all pieces of this list have one size
                break
            piece = int64(A.blocks[piece + FOLLOWING])
        head += 1
    return int64(0)


@inner
def _mark_before(A: ArenaPointers, piece: int64, is_free: bool) -> None:
    """Notes in a tag whether the preceding piece is free; does not touch the owner's lower half."""
    halves = as_u16(adv(A.blocks, piece + TAG))
    if is_free:
        halves[1] |= UPPER_BEFORE_FREE
    else:
        halves[1] &= uint16(0xFFFF - UPPER_BEFORE_FREE)


@inner
def take_block(A: ArenaPointers, block_class: int64) -> int64:
    """Allocates and returns a block of a class; only the tag of its header is set."""
    take_guard(A, SPACE)
    words = block_words(A, block_class)
    piece = _find(A, words)
    if piece:
        found = _unlink(A, piece)
        if found > words:
            _push(A, piece + words, found - words)
        elif piece + words < A.space[arena.BLOCK_WORDS]:
            _mark_before(A, piece + words, False)
    else:
        piece = A.space[arena.BLOCK_WORDS]
        A.space[arena.BLOCK_WORDS] = piece + words
    A.blocks[piece + TAG] = uint32(block_class) << uint32(CLASS_SHIFT)
    give_guard(A, SPACE)
    return piece


@inner
def give_block(A: ArenaPointers, block_class: int64, block: int64) -> None:
    """Frees a block and merges it with free neighbours."""
    take_guard(A, SPACE)
    _give_piece(A, block_class, block)
    give_guard(A, SPACE)


@inner
def _give_piece(A: ArenaPointers, block_class: int64, block: int64) -> None:
    begin = int64(block)
    end = begin + block_words(A, block_class)
    if A.blocks[begin + TAG] & uint32(BEFORE_FREE):
        begin -= int64(A.blocks[begin - 1])
        _unlink(A, begin)
    if end < A.space[arena.BLOCK_WORDS] and A.blocks[end + TAG] & uint32(FREE_PIECE):
        end += _unlink(A, end)
    if end == A.space[arena.BLOCK_WORDS]:
        A.space[arena.BLOCK_WORDS] = begin
        return
    _push(A, begin, end - begin)
    _mark_before(A, end, True)


@inner
def draws_of(A: ArenaPointers, block: int64) -> int64:
    """Returns the node's draw share per mille in a block's header."""
    return int64(as_u16(adv(A.blocks, block + layout.BLOCK_D))[0])


@inner
def set_draws(A: ArenaPointers, block: int64, draws: int64) -> None:
    """Sets the node's draw share per mille in a block's header."""
    as_u16(adv(A.blocks, block + layout.BLOCK_D))[0] = uint16(draws)
