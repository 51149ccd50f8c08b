"""Order, identity and keys of records in bulk; `order_kernel.py` has the rules."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..position.board import FREE_CLOCK, POSITION_WORDS, clock_term
from ..position.words import CLOCK_BITS, CLOCK_SHIFT, KEY, META, WITHOUT_CLOCK
from .codec.bulk import owned
from .order_kernel import fill_sort_keys, settle_ties

IDENTITY_WORDS = META + 1  # 6 kinds, 2 colours, meta without a clock of up to 75
_ALL = np.uint64((1 << 64) - 1)
_CLOCK_TERMS = np.array([clock_term(clock) for clock in range(256)], np.uint64)
assert not _CLOCK_TERMS[: FREE_CLOCK + 1].any()

U64s = NDArray[np.uint64]
Places = NDArray[np.int64]


def identities(words: U64s) -> U64s:
    """Returns the identity of each record, `[R, 9]`: the position, and its clock only above 75."""
    out = words[:, :IDENTITY_WORDS].copy()  # a copy even of one row, where a contiguous array would be a view
    clock = out[:, META] >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS)
    out[:, META] &= np.where(clock > FREE_CLOCK, _ALL, np.uint64(WITHOUT_CLOCK))
    return out


def keys_of(words: U64s) -> U64s:
    """Returns the keys of packed positions."""
    clocks = words[:, META] >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS)
    return words[:, KEY] ^ _CLOCK_TERMS[clocks.astype(np.intp)]


def sort_keys(words: U64s) -> U64s:
    """Returns the sort keys of packed positions, `[R]`; neighbours in this order are similar positions."""
    keys = np.empty(len(words), np.uint64)
    fill_sort_keys(owned(words, np.uint64).reshape(-1), keys)
    return keys


def segment_order(words: U64s, keys: U64s) -> Places:
    """Returns the indices of records of distinct positions in the order of a segment.

    Args:
      words: `[R, 10]` or wider, their positions. keys: their sort keys.
    """
    places = np.argsort(keys)  # quicksort takes a quarter of the time of a stable sort; only ties need that
    is_tied = np.zeros(len(keys), np.bool_)
    ties = np.flatnonzero(np.diff(keys[places]) == 0)
    is_tied[ties] = is_tied[ties + 1] = True
    tied = places[is_tied]
    places[is_tied] = tied[newest_in_order(words[tied, :POSITION_WORDS], keys[tied])]
    return places


def newest_in_order(words: U64s, keys: U64s) -> Places:
    """Returns the indices of records in the order of a segment, only the first record of each position.

    Args:
      words: `[R, 10]` packed positions. keys: `[R]` their sort keys.
    """
    places = np.argsort(keys, kind="stable")  # faster on records that are already in order
    return places[: settle_ties(owned(words, np.uint64).reshape(-1), keys, places)]
