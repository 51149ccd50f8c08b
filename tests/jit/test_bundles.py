"""Kernels read a bundle as Python does."""

from __future__ import annotations

import numpy as np
import pytest

from graphsearch.jit.compiler import kernel
from graphsearch.jit.types import Bundle, Items, float64, int64, uint16, uint64


class Inside(Bundle):
    small: Items[uint16]
    small_size: int64


class Outside(Bundle):
    values: Items[float64]
    inside: Inside
    number: int64
    keys: Items[uint64]
    keys_size: int64


@kernel
def read_and_write(B: Outside) -> tuple[float64, int64, int64]:
    total = 0.0
    for i in range(B.keys_size):
        total += B.values[i]
    B.values[0] = 7.5
    return total, B.number, int64(B.inside.small[B.inside.small_size - 1])


def test_a_kernel_reads_arrays_sizes_numbers_and_bundles_in_a_bundle() -> None:
    inside = Inside(small=np.arange(4, dtype=np.uint16))
    bundle = Outside(values=np.array([1.0, 2.0, 4.0]), inside=inside, number=-3, keys=np.zeros(2, np.uint64))
    assert read_and_write(bundle) == (3.0, -3, 3)
    assert bundle.values.tolist() == [7.5, 2.0, 4.0]
    other = bundle.replace(inside=Inside(small=np.array([9], np.uint16)), number=1 << 40)
    assert read_and_write(other) == (9.5, 1 << 40, 9)
    assert read_and_write(bundle) == (9.5, -3, 3)
    assert [len(array) for array in bundle.arrays()] == [3, 2]


def test_a_bundle_refuses_missing_fields_and_arrays_with_gaps() -> None:
    with pytest.raises(TypeError, match="small"):
        Inside(big=1)
    with pytest.raises(TypeError, match="contiguous"):
        _ = Inside(small=np.zeros(8, np.uint16)[::2]).words_
