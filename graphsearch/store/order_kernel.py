"""The order of records in a segment, and their identity. `schema/segment.md` is the reference.

sort key  from the top bit: pawns 16 | material 8 | knights 8 | bishops 8 | rooks 8 | queens 7 | kings 8
          | turn 1; each part but the last is a hash of two words: White's and Black's men, or counts and 0
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ONE, ZERO, U, popc, ptr
from ..jit.types import Pointer, int64, uint64
from ..position.board import FREE_CLOCK
from ..position.board_kernel import PLACE, PW, clock_of
from ..position.words import BLACK, META, WHITE, Position

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


@kernel
def fill_sort_keys(words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
    """Fills the sort keys of positions, `[10 R]` uint64 flat."""
    for i in range(len(keys)):
        keys[i] = sort_key(ptr(words, PW * i))


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
      words: `[10 R]` uint64 flat. keys: `[R]` their sort keys.
      places: int64, the records sorted by key, equal keys in their original order; overwritten.

    Returns:
      the number of places kept, at the front.
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


@kernel
def pair(
    old: NDArray[np.uint64],
    old_keys: NDArray[np.uint64],
    new: NDArray[np.uint64],
    new_keys: NDArray[np.uint64],
    places: NDArray[np.int64],
) -> int64:
    """Fills the record of `old` with the position of each of `new`, or -1; returns the number found.

    Args:
      old, new: words, `[10 R]` uint64 flat, in the order of a segment, without duplicates.
      old_keys, new_keys: their sort keys.
      places: int64, one for each of `new`.
    """
    at, found = int64(0), int64(0)
    for i in range(len(new_keys)):
        places[i] = -1
        while at < len(old_keys) and old_keys[at] <= new_keys[i]:
            if old_keys[at] == new_keys[i]:
                how = compared(ptr(old, PW * at), ptr(new, PW * i))
                if how == 0:
                    places[i] = at
                    found += 1
                if how >= 0:
                    break
            at += 1
    return found
