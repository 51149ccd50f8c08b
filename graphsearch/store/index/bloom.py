"""Bloom filters over keys: which chunks cannot hold a position.

`layout.py` has the formula; `codec/columns_kernel.add_to_bloom` does the same in bulk.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .layout import BLOOM_MULTIPLIER, HASHES

BITS_PER_KEY = 12  # of new filters; any length is read
_U64 = (1 << 64) - 1

Bits = NDArray[np.uint8]


def empty_bloom(keys: int) -> Bits:
    """Returns a filter without bits for a number of keys."""
    return np.zeros(max(8, (keys * BITS_PER_KEY + 7) // 8), np.uint8)


def bit_places(key: int, bits: int) -> Iterator[int]:
    """Yields the places of a key in a filter of so many bits.

    >>> list(bit_places(1, 64))
    [39, 7, 39, 7, 38]
    """
    x = key * BLOOM_MULTIPLIER & _U64
    step = (x >> 32 | x << 32) & _U64 | 1
    for _ in range(HASHES):
        yield x * bits >> 64
        x = x + step & _U64


def may_hold(bloom: Bits, key: int) -> bool:
    """Returns False only if the key was never added."""
    return all(bloom.item(place >> 3) >> (place & 7) & 1 for place in bit_places(key, 8 * len(bloom)))


def may_hold_each(bloom: Bits, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Returns `may_hold` of each key, `[K]`."""
    bits = np.uint64(8 * len(bloom))
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x = keys * np.uint64(BLOOM_MULTIPLIER)
    step = (x >> half | x << half) | np.uint64(1)
    found = np.ones(len(keys), bool)
    for _ in range(HASHES):
        # x * bits >> 64 without 128-bit products: a filter has fewer than 2**32 bits
        place = ((x >> half) * bits + ((x & low) * bits >> half)) >> half
        found &= (
            bloom[place >> np.uint64(3)] >> (place & np.uint64(7)).astype(np.uint8) & np.uint8(1)
        ).astype(bool)
        x = x + step
    return found
