"""The powers of ten by which kernels write numbers, and where they stand. Without Numba."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

LEAST_POWER, MOST_POWER = -292, 324  # of ten, for all numbers of 64 bits


@cache
def load_powers() -> NDArray[np.uint64]:
    """Returns the first 128 bits of each power of ten, rounded up: `[2 * 617]` uint64, low half first.

    >>> [hex(word) for word in load_powers().reshape(-1, 2)[-LEAST_POWER + 1].tolist()]
    ['0x0', '0xa000000000000000']
    """
    powers = [_leading_bits(power) for power in range(LEAST_POWER, MOST_POWER + 1)]
    halves = [(bits & (1 << 64) - 1, bits >> 64) for bits in powers]
    return np.array(halves, np.uint64).reshape(-1)


def _leading_bits(power: int) -> int:
    top, bottom = int(10 ** max(power, 0)) << 1200, int(10 ** max(-power, 0))
    excess = (top // bottom).bit_length() - 128
    return -(-top // (bottom << excess))
