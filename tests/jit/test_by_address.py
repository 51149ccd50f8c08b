"""Named tuples whose arrays a kernel gets as pointers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphsearch.jit.compiler import by_address, inner, kernel
from graphsearch.jit.pointers import ptr
from graphsearch.jit.types import Pointer, float64, int64, uint16


@by_address
class Sums(NamedTuple):
    """Numbers and their sum."""

    size: int64
    numbers: Pointer[uint16]
    total: Pointer[float64]


class Pair(NamedTuple):
    """One within another tuple, and an array of its own."""

    sums: Sums
    factors: NDArray[np.int64]


@inner
def _add(sums: Sums, factor: int64) -> None:
    for i in range(sums.size):
        sums.total[0] += int64(sums.numbers[i]) * factor


@kernel
def add(pair: Pair) -> int64:
    """Adds numbers times factors; returns how many factors there are."""
    for i in range(pair.factors.size):
        _add(pair.sums, pair.factors[i])
    return int64(pair.factors.size)


def test_arrays_of_a_tuple_by_address_are_read_and_written_in_place() -> None:
    numbers, total = np.array([7, 1, 2, 65535], np.uint16), np.zeros(1)
    pair = Pair(Sums(3, ptr(numbers[1:], 0), ptr(total, 0)), np.array([1, 10], np.int64))
    assert add(pair) == 2
    assert total[0] == 11 * (1 + 2 + 65535)
    numbers[1] = 5  # the tuple has the array, not a copy
    add(pair)
    assert total[0] == 11 * (1 + 5 + 2 * (2 + 65535))
