"""Evaluates without knowledge: all moves equally likely; win, draw and loss 1/3 each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ptr
from ..jit.types import Pointer, float32, float64, int64

SCRATCH_WORDS = 1


@inner
def evaluate_evenly(
    offsets: Pointer[int64], values: Pointer[float32], priors: Pointer[float32], begin: int64, end: int64
) -> None:
    """Writes Q, the draw probability and the priors of the positions from `begin` to `end` (exclusive)."""
    for b in range(begin, end):
        at = offsets[b]
        n = offsets[b + 1] - at
        share = float32(1.0 / float32(n))
        for j in range(n):
            priors[at + j] = share
        values[2 * b] = float32(0.0)
        values[2 * b + 1] = float32(1.0 / 3.0)


@kernel
def evaluate_batch(
    T: NDArray[np.uint64],
    weights: NDArray[np.int64],
    positions: NDArray[np.uint64],
    moves: NDArray[np.uint16],
    offsets: NDArray[np.int64],
    values: NDArray[np.float32],
    priors: NDArray[np.float32],
    scratch: NDArray[np.uint64],
    temperature: float64,
    begin: int64,
    end: int64,
) -> None:
    """Evaluates positions, as `BatchKernel` specifies."""
    evaluate_evenly(ptr(offsets, 0), ptr(values, 0), ptr(priors, 0), begin, end)
