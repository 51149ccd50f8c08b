"""Room for blocks: pieces of a heap that know whether the piece before them is free, and join when freed.

    piece in use   .. 3 words .. | tag: draws (10 bits), class << 16, BEFORE_FREE | edges
    free piece     next | before it in its list | words | tag: FREE_PIECE | ..     | words

Unlike records, blocks grow and shrink while their owners stay, so nobody passes over them in order: the last
word of a free piece leads back to its beginning.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.types import int64, uint32
from ..store.record import node_layout as layout
from ..store.record.node_kernel import stride_of
from . import arena_kernel as arena
from .arena_kernel import ArenaPointers

FREE_PIECE, BEFORE_FREE = 1 << 31, 1 << 30
CLASS_SHIFT = 16
FOLLOWING, PREVIOUS, WORDS, TAG = 0, 1, 2, layout.BLOCK_D  # words of a free piece
LEAST_PIECE = layout.BLOCK_HEADER + 1
TRIES = 8  # pieces of a list of several sizes that are looked at


@inner
def block_words(A: ArenaPointers, block_class: int64) -> int64:
    """Returns the size of a block of a class."""
    return layout.BLOCK_HEADER + A.ints[layout.CAPACITY + block_class] * stride_of(block_class)


@inner
def _list_of(words: int64) -> int64:
    """Returns the list of free pieces of a size: one for each small size, then one for each power of two."""
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
    following = A.counters[head]
    A.blocks[piece + FOLLOWING] = uint32(following)
    A.blocks[piece + PREVIOUS] = uint32(0)
    A.blocks[piece + WORDS] = uint32(words)
    A.blocks[piece + TAG] = uint32(FREE_PIECE)
    A.blocks[piece + words - 1] = uint32(words)
    if following:
        A.blocks[following + PREVIOUS] = uint32(piece)
    A.counters[head] = piece
    A.counters[arena.FREED_WORDS] += words


@inner
def _unlink(A: ArenaPointers, piece: int64) -> int64:
    """Takes a free piece out of its list; returns its words."""
    following, previous = int64(A.blocks[piece + FOLLOWING]), int64(A.blocks[piece + PREVIOUS])
    words = int64(A.blocks[piece + WORDS])
    if previous:
        A.blocks[previous + FOLLOWING] = uint32(following)
    else:
        A.counters[_list_of(words)] = following
    if following:
        A.blocks[following + PREVIOUS] = uint32(previous)
    A.counters[arena.FREED_WORDS] -= words
    return words


@inner
def _fits(found: int64, words: int64) -> bool:
    return found == words or found >= words + LEAST_PIECE


@inner
def _find(A: ArenaPointers, words: int64) -> int64:
    """Returns a free piece that can give `words`, 0 if none is at hand."""
    if A.counters[arena.FREED_WORDS] < words:
        return int64(0)
    last = int64(arena.BLOCK_LISTS + arena.EXACT_LISTS + 4)
    head = _list_of(words)
    while head <= last:
        piece = A.counters[head]
        for _ in range(TRIES):
            if piece == 0:
                break
            if _fits(int64(A.blocks[piece + WORDS]), words):
                return piece
            piece = int64(A.blocks[piece + FOLLOWING])
        head += 1
    return int64(0)


@inner
def take_block(A: ArenaPointers, block_class: int64) -> int64:
    """Returns a block of a class; of its header only the tag is set."""
    words = block_words(A, block_class)
    piece = _find(A, words)
    if piece:
        found = _unlink(A, piece)
        if found > words:
            _push(A, piece + words, found - words)
        elif piece + words < A.counters[arena.BLOCK_WORDS]:
            A.blocks[piece + words + TAG] &= uint32(0xFFFFFFFF - BEFORE_FREE)
    else:
        piece = A.counters[arena.BLOCK_WORDS]
        A.counters[arena.BLOCK_WORDS] = piece + words
    A.blocks[piece + TAG] = uint32(block_class) << uint32(CLASS_SHIFT)
    return piece


@inner
def give_block(A: ArenaPointers, block_class: int64, block: int64) -> None:
    """Frees a block, joined with free neighbours."""
    begin = int64(block)
    end = begin + block_words(A, block_class)
    if A.blocks[begin + TAG] & uint32(BEFORE_FREE):
        begin -= int64(A.blocks[begin - 1])
        _unlink(A, begin)
    if end < A.counters[arena.BLOCK_WORDS] and A.blocks[end + TAG] & uint32(FREE_PIECE):
        end += _unlink(A, end)
    if end == A.counters[arena.BLOCK_WORDS]:
        A.counters[arena.BLOCK_WORDS] = begin
        return
    _push(A, begin, end - begin)
    A.blocks[end + TAG] |= uint32(BEFORE_FREE)


@inner
def draws_of(A: ArenaPointers, block: int64) -> int64:
    """Returns the node's draw share per mille in a block's header."""
    return int64(A.blocks[block + layout.BLOCK_D] & uint32(layout.DRAW_BITS))


@inner
def set_draws(A: ArenaPointers, block: int64, draws: int64) -> None:
    """Sets it."""
    tag = A.blocks[block + layout.BLOCK_D] & uint32(0xFFFFFFFF - layout.DRAW_BITS)
    A.blocks[block + layout.BLOCK_D] = tag | uint32(draws)
