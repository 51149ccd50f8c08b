"""No knowledge: every move equally likely; a win, a draw and a loss with 1/3 each."""

from __future__ import annotations

from typing import Any

from numpy import float32

from ..jit.compiler import inner, kernel
from ..jit.pointers import ptr

SCRATCH_WORDS = 1


@inner
def evaluate_evenly(offsets: Any, values: Any, priors: Any, begin: Any, end: Any) -> None:
    """Writes Q, the chance of a draw and the priors of the positions from `begin` to `end`."""
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
    T: Any,
    weights: Any,
    positions: Any,
    moves: Any,
    offsets: Any,
    values: Any,
    priors: Any,
    scratch: Any,
    temperature: Any,
    begin: Any,
    end: Any,
) -> None:
    """Evaluates positions, as `BatchKernel` says."""
    evaluate_evenly(ptr(offsets, 0), ptr(values, 0), ptr(priors, 0), begin, end)
