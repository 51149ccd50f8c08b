"""Finds where in the file a position may be, by the order of segments and the bloom filters, for kernels.

The formulas are those of `store/order.py` and `bloom.py`, compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import ONE, ZERO, U, bytes_at, mulhi, popc, ptr
from ...jit.types import Pointer, int64, uint64
from ...position.board import FREE_CLOCK
from ...position.board_kernel import PLACE, PW, clock_of, position_key
from ...position.words import BLACK, META, WHITE, Position
from .. import order
from ..order import COUNT_BITS, MATERIAL_BITS, PAWN_BITS, PIECE_BITS
from . import bloom

_pair_hash: Callable[[uint64, uint64, int64], uint64] = inner(order.pair_hash)
bloom_walk: Callable[[uint64], tuple[uint64, uint64]] = inner(bloom.walk)


class FilterArrays(NamedTuple):
    """The index of segments in flat arrays, immutable once made, contiguous and writable.

    Attributes:
      firsts: `[chunks]` uint64, sort key of the first record of each chunk, segment by segment, newest first.
      segments: `[segments + 1]` int64, index in these lists of each segment's first chunk.
      blooms: `[chunks]` int64, address of each chunk's bloom filter, which the array keeps alive.
      sizes: `[chunks]` int64, its bytes; 0 for a lost filter.
    """

    firsts: NDArray[np.uint64]
    segments: NDArray[np.int64]
    blooms: NDArray[np.int64]
    sizes: NDArray[np.int64]


class FilterPointers(NamedTuple):
    """Pointers to `FilterArrays`, and the number of segments."""

    firsts: Pointer[uint64]
    segments: Pointer[int64]
    blooms: Pointer[int64]
    sizes: Pointer[int64]
    segment_count: int64


def no_filter() -> FilterArrays:
    """Returns an empty filter."""
    return FilterArrays(
        np.zeros(0, np.uint64), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    )


@inner
def filter_pointers(F: FilterArrays) -> FilterPointers:
    """Returns pointers to the arrays of a filter, which the caller keeps alive."""
    return FilterPointers(
        ptr(F.firsts, 0), ptr(F.segments, 0), ptr(F.blooms, 0), ptr(F.sizes, 0), int64(len(F.segments) - 1)
    )


@inner
def _with_kind(key: uint64, s: Position, kind: int64, bits: int64) -> uint64:
    """Returns a sort key with the hash of the men of a kind appended."""
    return (key << U(bits)) | _pair_hash(s[kind] & s[WHITE], s[kind] & s[BLACK], bits)


@inner
def sort_key(s: Position) -> uint64:
    """Returns the sort key of a position, as `order.sort_keys`."""
    material = ZERO
    for kind in range(5):
        material = (material << U(COUNT_BITS)) | U(popc(s[kind] & s[WHITE]))
        material = (material << U(COUNT_BITS)) | U(popc(s[kind] & s[BLACK]))
    key = _with_kind(ZERO, s, int64(0), int64(PAWN_BITS))
    key = (key << U(MATERIAL_BITS)) | _pair_hash(material, ZERO, int64(MATERIAL_BITS))
    key = _with_kind(key, s, int64(1), int64(PIECE_BITS[0]))
    key = _with_kind(key, s, int64(2), int64(PIECE_BITS[1]))
    key = _with_kind(key, s, int64(3), int64(PIECE_BITS[2]))
    key = _with_kind(key, s, int64(4), int64(PIECE_BITS[3]))
    key = _with_kind(key, s, int64(5), int64(PIECE_BITS[4]))
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


@inner
def _below(keys: Pointer[uint64], low: int64, high: int64, key: uint64) -> int64:
    """Returns the end of the keys below `key` among the sorted keys `low` to `high`."""
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def first_piece(keys: Pointer[uint64], low: int64, high: int64, key: uint64) -> int64:
    """Returns the first of the pieces `low` to `high` that may hold a key; `keys`: the first key of each."""
    at = _below(keys, low, high, key)
    return at - 1 if at > low else at


@inner
def in_bloom(F: FilterPointers, c: int64, key: uint64) -> bool:
    """Returns whether the bloom filter of chunk `c` may hold a key; a lost filter (no bits) holds none."""
    bits = U(F.sizes[c]) << U(3)
    if bits == ZERO:
        return False
    data = bytes_at(F.blooms[c], F.sizes[c])
    x, step = bloom_walk(key)
    for _ in range(bloom.HASHES):
        at = int64(mulhi(x, bits))
        if not (int64(data[at >> 3]) >> (at & 7)) & 1:
            return False
        x += step
    return True


@inner
def next_chunk(F: FilterPointers, c: int64, end: int64, order: uint64, key: uint64) -> int64:
    """Returns the first chunk from `c` on that may hold a key with sort key `order`, `end` if none may."""
    while c < end and F.firsts[c] <= order:
        if in_bloom(F, c, key):
            return c
        c += 1
    return end


@inner
def may_be_stored(F: FilterPointers, s: Position, key: uint64) -> bool:
    """Returns False only if no segment holds a position.

    Args:
      F: `filter_pointers` of a filter.
      s: pointer to the words of the position.
      key: its key in the graph.
    """
    if F.segment_count == 0:
        return False
    order = sort_key(s)
    for segment in range(F.segment_count):
        end = F.segments[segment + 1]
        if next_chunk(F, first_piece(F.firsts, F.segments[segment], end, order), end, order, key) < end:
            return True
    return False


class BlockArrays(NamedTuple):
    """The blocks of the chunks of a filter, in flat arrays.

    Attributes:
      starts: `[chunks + 1]` int64, index in `keys` of each chunk's first block.
      keys: `[blocks]` uint64, sort key of the first record of each block.
    """

    starts: NDArray[np.int64]
    keys: NDArray[np.uint64]


@kernel
def find_blocks(
    T: NDArray[np.uint64],
    F: FilterArrays,
    B: BlockArrays,
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
      F: `FilterArrays`. B: `BlockArrays`.
      words: `[10 K]` uint64, positions.
      left: int64, indices of the positions to look for.
      segments: `[K]` int64, the first segment to search; advanced past the segment that was found.
      asked, blocks: int64, filled with positions and indices in `B.keys`.
    """
    Fp = filter_pointers(F)
    starts, keys, tables = ptr(B.starts, 0), ptr(B.keys, 0), ptr(T, 0)
    listed = int64(0)
    for i in range(len(left)):
        q = left[i]
        s = ptr(words, PW * q)
        order = sort_key(s)
        key = position_key(tables, s)
        segment = segments[q]
        begin = listed
        while segment < Fp.segment_count and listed == begin:
            end = Fp.segments[segment + 1]
            c = next_chunk(Fp, first_piece(Fp.firsts, Fp.segments[segment], end, order), end, order, key)
            while c < end:
                b = first_piece(keys, starts[c], starts[c + 1], order)
                while b < starts[c + 1] and keys[b] <= order:
                    if listed == len(blocks):
                        return begin, int64(i)
                    asked[listed] = q
                    blocks[listed] = b
                    listed += 1
                    b += 1
                c = next_chunk(Fp, c + 1, end, order, key)
            segment += 1
        segments[q] = segment
    return listed, int64(len(left))


@kernel
def match(
    words: NDArray[np.uint64],
    asked: NDArray[np.int64],
    stored: NDArray[np.uint64],
    firsts: NDArray[np.int64],
    lasts: NDArray[np.int64],
    places: NDArray[np.int64],
) -> None:
    """Finds each position among the records of one block.

    Args:
      words: `[10 K]` uint64, positions; asked: `[n]` int64, indices of those to find.
      stored: `[10 R]` uint64, positions of records.
      firsts, lasts: `[n]` int64, the records (end exclusive) to compare each with.
      places: `[n]` int64, filled with the record, or -1.
    """
    for i in range(len(asked)):
        s = ptr(words, PW * asked[i])
        places[i] = -1
        for r in range(firsts[i], lasts[i]):
            if is_same(s, ptr(stored, PW * r)):
                places[i] = r
                break
