"""The order of records in a segment, and which of several versions is the newest; numpy only.

`schema/segment.md` is the reference of the sort key.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..position.board import FREE_CLOCK
from ..position.words import BLACK, BLACK_TO_MOVE, CLOCK_BITS, CLOCK_SHIFT, META, PAWNS, WHITE, WITHOUT_CLOCK
from .index.layout import COUNT_BITS, MATERIAL_BITS, PAWN_BITS, PIECE_BITS, SORT_BLACK, SORT_MIX, SORT_WHITE

ALL = np.uint64((1 << 64) - 1)
IDENTITY_WORDS = META + 1  # 6 kinds, 2 colours, meta without a clock of up to 75
_WHITE, _BLACK, _MIX = (np.uint64(x) for x in (SORT_WHITE, SORT_BLACK, SORT_MIX))

U64s = NDArray[np.uint64]
Order = NDArray[np.int64]


def identities(words: U64s) -> U64s:
    """Returns what tells records apart, `[R, 9]`: the position, and its clock only above 75."""
    out = words[:, :IDENTITY_WORDS].copy()  # of its own also for one row, where a contiguous array is a view
    clock = out[:, META] >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS)
    out[:, META] &= np.where(clock > FREE_CLOCK, ALL, np.uint64(WITHOUT_CLOCK))
    return out


def _mixed(a: U64s, b: U64s, bits: int) -> U64s:
    """Returns the top bits of a hash of two words."""
    x = a * _WHITE + b * _BLACK
    x ^= x >> np.uint64(32)
    return (x * _MIX) >> np.uint64(64 - bits)


def sort_keys(words: U64s) -> U64s:
    """Returns the structure key of packed positions, `[R]`: records near each other in it look alike.

    `index/layout.py` has the formula.
    """
    white, black = words[:, WHITE], words[:, BLACK]
    material = np.zeros(len(words), np.uint64)
    for kind in range(5):
        for side in (white, black):
            material = material << np.uint64(COUNT_BITS) | np.bitwise_count(words[:, kind] & side).astype(
                np.uint64
            )
    key = _mixed(words[:, PAWNS] & white, words[:, PAWNS] & black, PAWN_BITS)
    key = key << np.uint64(MATERIAL_BITS) | _mixed(material, np.zeros_like(material), MATERIAL_BITS)
    for kind, bits in enumerate(PIECE_BITS, 1):
        key = key << np.uint64(bits) | _mixed(words[:, kind] & white, words[:, kind] & black, bits)
    return key << np.uint64(1) | words[:, META] & np.uint64(BLACK_TO_MOVE)


def newest_in_order(
    words: U64s,
    keys: U64s,
    rank: NDArray[np.int64] | None = None,
    *,
    kind: Literal["stable", "quicksort"] = "stable",
) -> Order:
    """Returns the indices of the records in the order of a segment, one per position: that of least rank.

    Args:
      words: `[R, >= 9]` packed positions.
      keys: `[R]` their sort keys.
      rank: `[R]` 0 for the newest version; without it, records that come first are the newer ones.
      kind: how numpy sorts them. "stable" makes use of what is in order already; "quicksort" takes a quarter
        of the time for what is not.
    """
    order = np.argsort(keys, kind=kind)
    same = keys[order[1:]] == keys[order[:-1]]
    if not same.any():
        return order
    tied = np.zeros(len(order), bool)
    tied[1:] |= same
    tied[:-1] |= same
    places = np.nonzero(tied)[0]
    some = order[places]
    position = identities(words[some])
    columns = [some if rank is None else rank[some], *position.T[::-1], keys[some]]
    within = np.lexsort(columns)
    order[places] = some[within]
    keep = np.ones(len(order), bool)
    position = position[within]
    again = (places[1:] == places[:-1] + 1) & (position[1:] == position[:-1]).all(1)
    keep[places[1:][again]] = False
    return order[keep]
