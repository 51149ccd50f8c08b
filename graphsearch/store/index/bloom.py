"""Bloom filters over keys: which chunks cannot hold a position.

A key sets the bits `(x + k * step) * bits >> 64`, k < HASHES, with x = key * MULTIPLIER; step is x with its
halves swapped, made odd. All products are modulo 2^64. `schema/segment.md` is the reference;
`codec/columns_kernel.add_to_bloom` sets the bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
HASHES = 5  # 0.5 % false positives at 12 bits per key; 8 bits had 2.2 %
BITS_PER_KEY = 12  # of new filters; any length is read
_ONE, _HALF, _LOW = np.uint64(1), np.uint64(32), np.uint64(0xFFFFFFFF)

_WORD = (1 << 64) - 1

Bits = NDArray[np.uint8]
U64s = NDArray[np.uint64]


def empty_bloom(keys: int) -> Bits:
    """Returns a filter without bits for a number of keys."""
    return np.zeros(max(8, (keys * BITS_PER_KEY + 7) // 8), np.uint8)


def walk(key: Any) -> tuple[Any, Any]:
    """Returns x of a key, or of keys, for the first bit, and the step to the next; kernels compile it.

    >>> [int(words[0]) >> 58 for words in walk(np.array([1], np.uint64))]
    [39, 31]
    """
    x = key * MULTIPLIER
    return x, (x >> _HALF) | (x << _HALF) | _ONE


def may_hold_each(bloom: Bits, keys: U64s) -> NDArray[np.bool_]:
    """Returns which keys a filter may hold, `[K]`: False only for those that were never added."""
    bits = np.uint64(8 * len(bloom))
    x, step = walk(keys)
    found = np.ones(len(keys), bool)
    for _ in range(HASHES):
        # x * bits >> 64 without 128-bit products: a filter has fewer than 2**32 bits
        place = ((x >> _HALF) * bits + ((x & _LOW) * bits >> _HALF)) >> _HALF
        bit = bloom[place >> np.uint64(3)] >> (place & np.uint64(7)).astype(np.uint8)
        found &= (bit & np.uint8(1)).astype(bool)
        x = x + step
    return found


def may_hold_one(bloom: Bits, key: int) -> bool:
    """Returns `may_hold_each` of one key: in plain integers, which take a thirtieth of the time."""
    bits, x = 8 * len(bloom), key * int(MULTIPLIER) & _WORD
    step = (x >> 32 | x << 32) & _WORD | 1
    for _ in range(HASHES):
        place = x * bits >> 64
        if not int(bloom[place >> 3]) >> (place & 7) & 1:
            return False
        x = x + step & _WORD
    return True
