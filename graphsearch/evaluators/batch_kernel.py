"""What the batch kernels of all evaluators have in common (`inside.BatchKernel`): chances, priors."""

from __future__ import annotations

import math

from ..jit.compiler import inner
from ..jit.types import Pointer, float32, float64, int64

BEGIN, END = -2, -1  # of their arguments, counted from the last: the positions to evaluate
LOGIT_FLOOR = 14.0  # below the best logit, where others end; keeps every prior well above 0


@inner
def sigmoid(x: float64) -> float64:
    """Returns the logistic function, in float64; it is 0 or 1 beyond +-60."""
    return 1.0 / (1.0 + math.exp(-min(max(x, -60.0), 60.0)))


@inner
def value_of(win: float64, loss: float64) -> tuple[float32, float32]:
    """Returns Q (win - loss, in [-1, 1]) and the chance of a draw (in [0, 1 - |Q|]), float32."""
    q = float32(win - loss)
    return q, min(max(float32(1.0 - win - loss), float32(0.0)), float32(1.0) - abs(q))


@inner
def softmax(logits: Pointer[float32], n: int64) -> None:
    """Turns n logits, float32, into priors, in place."""
    top = logits[0]
    for i in range(1, n):
        top = max(top, logits[i])
    # Summing in the order of the moves keeps this deterministic; float64 makes a colour flip agree to 1e-7.
    total = 0.0
    for i in range(n):
        weight = math.exp(max(float64(logits[i]) - float64(top), -LOGIT_FLOOR))
        logits[i] = float32(weight)
        total += weight
    for i in range(n):
        logits[i] = float32(float64(logits[i]) / total)


@inner
def temper(priors: Pointer[float32], n: int64, temperature: float64) -> None:
    """Flattens (temperature above 1) or sharpens n priors in place: P ** (1 / temperature), normalised."""
    if temperature == 1.0:
        return
    total = 0.0
    for j in range(n):
        priors[j] = float32(float64(priors[j]) ** (1.0 / temperature))
        total += float64(priors[j])
    for j in range(n):
        priors[j] = float32(float64(priors[j]) / total)
