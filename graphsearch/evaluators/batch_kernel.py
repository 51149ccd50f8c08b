"""What the batch kernels of all evaluators have in common (`inside.BatchKernel`)."""

from __future__ import annotations

from typing import Any

from numpy import float32, float64

from ..jit.compiler import inner

BEGIN, END = -2, -1  # of their arguments, counted from the last: the positions to evaluate


@inner
def temper(priors: Any, n: Any, temperature: Any) -> None:
    """Flattens (temperature above 1) or sharpens n priors in place: P ** (1 / temperature), normalised."""
    if temperature == 1.0:
        return
    total = 0.0
    for j in range(n):
        priors[j] = float32(float64(priors[j]) ** (1.0 / temperature))
        total += float64(priors[j])
    for j in range(n):
        priors[j] = float32(float64(priors[j]) / total)
