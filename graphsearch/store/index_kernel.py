"""The order of records in a segment, and where in the file a position may be.

`schema/segment.md` is the reference.

sort key  from the top bit: pawns 16 | material 8 | knights 8 | bishops 8 | rooks 8 | queens 7 | kings 8
          | turn 1; each part but the last is a hash of two words: White's and Black's men, or counts and 0

A key sets the bits `(x + k * step) * bits >> 64`, k < HASHES, of a chunk's bloom filter, with
x = key * MULTIPLIER; step is x with its halves swapped, made odd. All products are modulo 2^64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ONE, ZERO, U, bytes_at, mulhi, popc, ptr
from ..jit.types import Bundle, Items, Pointer, int64, uint8, uint64
from ..position.board import BLACK, FREE_CLOCK, META, WHITE, Position
from ..position.board_kernel import PLACE, PW, clock_of, position_key

# ------------------------------------------------------------------ order
IDENTITY_WORDS = META + 1  # 6 kinds, 2 colours, meta without a clock of up to 75

PAWN_BITS, MATERIAL_BITS, COUNT_BITS = 16, 8, 4  # of the hashes of pawns and material, of a number of men
PIECE_BITS = (8, 8, 8, 7, 8)  # knights, bishops, rooks, queens, kings
assert PAWN_BITS + MATERIAL_BITS + sum(PIECE_BITS) + 1 == 64

_FIRST, _SECOND, _MIX = U(0x9E3779B97F4A7C15), U(0xC2B2AE3D27D4EB4F), U(0xD6E8FEB86659FD93)


@inner
def pair_hash(a: uint64, b: uint64, bits: int64) -> uint64:
    """Returns the top bits of a hash of two words, modulo 2^64."""
    x = a * _FIRST + b * _SECOND
    return ((x ^ (x >> U(32))) * _MIX) >> U(64 - bits)


@inner
def _with_kind(key: uint64, s: Position, kind: int64, bits: int64) -> uint64:
    """Returns a sort key with the hash of the men of a kind appended."""
    return (key << U(bits)) | pair_hash(s[kind] & s[WHITE], s[kind] & s[BLACK], bits)


@inner
def sort_key(s: Position) -> uint64:
    """Returns the sort key of a position, neighbours in this order are similar positions."""
    material = ZERO
    for kind in range(5):
        material = (material << U(COUNT_BITS)) | U(popc(s[kind] & s[WHITE]))
        material = (material << U(COUNT_BITS)) | U(popc(s[kind] & s[BLACK]))
    key = _with_kind(ZERO, s, int64(0), int64(PAWN_BITS))
    key = (key << U(MATERIAL_BITS)) | pair_hash(material, ZERO, int64(MATERIAL_BITS))
    for kind in range(5):
        key = _with_kind(key, s, int64(kind + 1), int64(PIECE_BITS[kind]))
    return (key << ONE) | (s[META] & ONE)


@inner
def meta_of_identity(s: Position) -> uint64:
    """Returns the meta word, without its clock unless it is above 75."""
    return s[META] if clock_of(s) > FREE_CLOCK else s[META] & PLACE


@inner
def is_same(a: Pointer[uint64], b: Pointer[uint64]) -> bool:
    """Returns whether one record serves both positions."""
    for w in range(8):
        if a[w] != b[w]:
            return False
    return meta_of_identity(a) == meta_of_identity(b)


@kernel
def fill_sort_keys(words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
    """Fills the sort keys of positions, `[10 R]` uint64 flat."""
    for i in range(len(keys)):
        keys[i] = sort_key(ptr(words, PW * i))


@kernel
def fill_keys(T: NDArray[np.uint64], words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
    """Fills the keys in the graph of positions, `[10 R]` uint64 flat."""
    for i in range(len(keys)):
        keys[i] = position_key(ptr(T, 0), ptr(words, PW * i))


@inner
def compared(a: Pointer[uint64], b: Pointer[uint64]) -> int64:
    """Returns -1, 0 or 1: the order in a segment of two positions with the same sort key."""
    for w in range(8):
        if a[w] != b[w]:
            return int64(-1) if a[w] < b[w] else int64(1)
    x, y = meta_of_identity(a), meta_of_identity(b)
    return int64(0) if x == y else int64(-1) if x < y else int64(1)


@kernel
def settle_ties(words: NDArray[np.uint64], keys: NDArray[np.uint64], places: NDArray[np.int64]) -> int64:
    """Puts records with the same sort key in order and drops all but the first of each position.

    Args:
      words: `[10 R]` flat. keys: `[R]` their sort keys.
      places: the records sorted by key, equal keys in their original order; overwritten at the front.

    Returns:
      the number of places kept.
    """
    kept, first = int64(0), int64(0)  # `first`: where the records of this key begin among those kept
    for k in range(len(places)):
        i = places[k]
        if kept and keys[places[kept - 1]] != keys[i]:
            first = kept
        at, is_new = kept, True
        while at > first:
            how = compared(ptr(words, PW * places[at - 1]), ptr(words, PW * i))
            if how <= 0:
                is_new = how < 0
                break
            at -= 1
        if is_new:
            for j in range(kept, at, -1):
                places[j] = places[j - 1]
            places[at] = i
            kept += 1
    return kept


# ------------------------------------------------------------------ filters
MULTIPLIER = U(0x9E3779B97F4A7C15)
HASHES = 5  # 0.5 % false positives at 12 bits per key; 8 bits had 2.2 %
BITS_PER_KEY = 12  # of new filters; any length is read


class FilterArrays(Bundle):
    """The index of segments in flat arrays, immutable once made, contiguous and writable.

    Attributes:
      firsts: `[chunks]` sort key of the first record of each chunk, segment by segment, newest first.
      segments: `[segments + 1]` index in these lists of each segment's first chunk.
      blooms: `[chunks]` address of each chunk's bloom filter, which the array keeps alive.
      sizes: `[chunks]` its bytes; 0 for a lost filter.
      starts: `[chunks + 1]` index in `keys` of each chunk's first block.
      keys: `[blocks]` sort key of the first record of each block.
      shifts: `[chunks]` add it to the index of a block of the chunk to get its row.
    """

    firsts: Items[uint64]
    segments: Items[int64]
    blooms: Items[int64]
    sizes: Items[int64]
    starts: Items[int64]
    keys: Items[uint64]
    shifts: Items[int64]
    segments_size: int64


def no_filter() -> FilterArrays:
    """Returns the index of no segments."""
    numbers, keys, one = np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(1, np.int64)
    return FilterArrays(
        firsts=keys, segments=one, blooms=numbers, sizes=numbers, starts=one, keys=keys, shifts=numbers
    )


@inner
def first_piece(keys: Pointer[uint64], low: int64, high: int64, key: uint64) -> int64:
    """Returns the first of the pieces `low` to `high` that may hold a key; `keys`: the first key of each."""
    first = low
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low > first else low


@inner
def _first_bit(key: uint64) -> tuple[uint64, uint64]:
    """Returns x of a key, for its first bit, and the step to the next."""
    x = key * MULTIPLIER
    return x, (x >> U(32)) | (x << U(32)) | ONE


@inner
def _holds(bloom: Pointer[uint8], size: int64, key: uint64) -> bool:
    """Returns whether a filter of `size` bytes may hold a key."""
    bits = U(size) << U(3)
    x, step = _first_bit(key)
    for _ in range(HASHES):
        at = int64(mulhi(x, bits))
        if not (int64(bloom[at >> 3]) >> (at & 7)) & 1:
            return False
        x += step
    return True


@kernel
def add_to_bloom(keys: NDArray[np.uint64], bloom: NDArray[np.uint8]) -> None:
    """Sets the bits of keys in a bloom filter."""
    bits = U(len(bloom)) << U(3)
    for k in range(len(keys)):
        x, step = _first_bit(keys[k])
        for _ in range(HASHES):
            at = int64(mulhi(x, bits))
            bloom[at >> 3] |= uint8(1 << (at & 7))
            x += step


@kernel
def find_held(bloom: NDArray[np.uint8], keys: NDArray[np.uint64], held: NDArray[np.bool_]) -> None:
    """Fills which keys a bloom filter may hold: False only for those that were never added."""
    for k in range(len(keys)):
        held[k] = _holds(ptr(bloom, 0), int64(len(bloom)), keys[k])


@inner
def next_chunk(F: FilterArrays, c: int64, end: int64, order: uint64, key: uint64) -> int64:
    """Returns the first chunk from `c` on that may hold a key with sort key `order`, `end` if none may."""
    while c < end and F.firsts[c] <= order:
        size = F.sizes[c]
        if size > 0 and _holds(bytes_at(F.blooms[c], size), size, key):  # a lost filter holds none
            return c
        c += 1
    return end


@inner
def may_be_stored(F: FilterArrays, s: Position, key: uint64) -> bool:
    """Returns False only if no segment holds a position; `key`: of it in the graph."""
    if F.segments_size == 1:
        return False
    order = sort_key(s)
    for segment in range(F.segments_size - 1):
        end = F.segments[segment + 1]
        if next_chunk(F, first_piece(F.firsts, F.segments[segment], end, order), end, order, key) < end:
            return True
    return False


@kernel
def find_stored(
    F: FilterArrays, words: NDArray[np.uint64], keys: NDArray[np.uint64], held: NDArray[np.bool_]
) -> None:
    """Fills which positions a file may hold; `words`: `[10 K]`, keys in the graph: `[K]`."""
    for k in range(len(keys)):
        held[k] = may_be_stored(F, ptr(words, PW * k), keys[k])


@kernel
def find_blocks(
    T: NDArray[np.uint64],
    F: FilterArrays,
    words: NDArray[np.uint64],
    left: NDArray[np.int64],
    segments: NDArray[np.int64],
    asked: NDArray[np.int64],
    blocks: NDArray[np.int64],
) -> tuple[int64, int64]:
    """Lists the blocks of the newest segment that may hold each position; returns (listed, positions done).

    It stops early when there is no room for all blocks of a position.

    Args:
      T: the table of `position/tables.py`.
      words: `[10 K]` positions. left: the indices of those to look for.
      segments: `[K]` the first segment to search; advanced past the segment that was found.
      asked, blocks: filled with positions and indices in `F.keys`.
    """
    starts, keys, tables = F.starts, F.keys, ptr(T, 0)
    listed = int64(0)
    for i in range(len(left)):
        q = left[i]
        s = ptr(words, PW * q)
        order = sort_key(s)
        key = position_key(tables, s)
        segment = segments[q]
        begin = listed
        while segment < F.segments_size - 1 and listed == begin:
            end = F.segments[segment + 1]
            c = next_chunk(F, first_piece(F.firsts, F.segments[segment], end, order), end, order, key)
            while c < end:
                b = first_piece(keys, starts[c], starts[c + 1], order)
                while b < starts[c + 1] and keys[b] <= order:
                    if listed == len(blocks):
                        return begin, int64(i)
                    asked[listed] = q
                    blocks[listed] = b
                    listed += 1
                    b += 1
                c = next_chunk(F, c + 1, end, order, key)
            segment += 1
        segments[q] = segment
    return listed, int64(len(left))
