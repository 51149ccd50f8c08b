"""The order of records in a segment; NumPy only. `schema/segment.md` is the reference of the sort key.

sort key  from the top bit: pawns 16 | material 8 | knights 8 | bishops 8 | rooks 8 | queens 7 | kings 8
          | turn 1; each part but the last is a hash of two words: White's and Black's men, or counts and 0
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..position.board import FREE_CLOCK
from ..position.words import BLACK, BLACK_TO_MOVE, CLOCK_BITS, CLOCK_SHIFT, META, PAWNS, WHITE, WITHOUT_CLOCK

PAWN_BITS, MATERIAL_BITS, COUNT_BITS = 16, 8, 4  # of the hashes of pawns and material, of a number of men
PIECE_BITS = (8, 8, 8, 7, 8)  # knights, bishops, rooks, queens, kings
assert PAWN_BITS + MATERIAL_BITS + sum(PIECE_BITS) + 1 == 64

IDENTITY_WORDS = META + 1  # 6 kinds, 2 colours, meta without a clock of up to 75
_WHITE, _BLACK = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_MIX, _HALF = np.uint64(0xD6E8FEB86659FD93), np.uint64(32)
_ALL = np.uint64((1 << 64) - 1)

U64s = NDArray[np.uint64]


def identities(words: U64s) -> U64s:
    """Returns the identity of each record, `[R, 9]`: the position, and its clock only above 75."""
    out = words[:, :IDENTITY_WORDS].copy()  # a copy even of one row, where a contiguous array would be a view
    clock = out[:, META] >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS)
    out[:, META] &= np.where(clock > FREE_CLOCK, _ALL, np.uint64(WITHOUT_CLOCK))
    return out


def pair_hash(a: Any, b: Any, bits: int) -> Any:
    """Returns the top bits of a hash of two words, modulo 2^64; kernels compile it."""
    x = a * _WHITE + b * _BLACK
    return ((x ^ (x >> _HALF)) * _MIX) >> np.uint64(64 - bits)


def sort_keys(words: U64s) -> U64s:
    """Returns the sort keys of packed positions, `[R]`; neighbours in this order are similar positions."""
    white, black = words[:, WHITE], words[:, BLACK]
    material = np.zeros(len(words), np.uint64)
    for kind in range(5):
        for side in (white, black):
            count = np.bitwise_count(words[:, kind] & side).astype(np.uint64)
            material = material << np.uint64(COUNT_BITS) | count
    key: U64s = pair_hash(words[:, PAWNS] & white, words[:, PAWNS] & black, PAWN_BITS)
    key = key << np.uint64(MATERIAL_BITS) | pair_hash(material, np.zeros_like(material), MATERIAL_BITS)
    for kind, bits in enumerate(PIECE_BITS, 1):
        key = key << np.uint64(bits) | pair_hash(words[:, kind] & white, words[:, kind] & black, bits)
    return key << np.uint64(1) | words[:, META] & np.uint64(BLACK_TO_MOVE)
