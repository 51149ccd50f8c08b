"""Common parts of all evaluators' batch kernels (`inside.BatchKernel`): probabilities and priors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ptr
from ..jit.types import Pointer, float32, float64, int64, uint16, uint64
from ..position.board import BoardTable, Position
from ..position.board_kernel import PW
from ..position.values import LEAST_MATE, LEAST_WON

# ------------------------------------------------------------------------- values and priors
EvaluatePosition = Callable[
    [BoardTable, Pointer[int64], Position, Pointer[uint16], int64, Pointer[float32], Pointer[uint64]],
    tuple[float32, float32],
]

BEGIN, END = -2, -1  # indices of a batch kernel's arguments `begin` and `end`
# largest share of a won position that counts as drawn, and the score at which it has fallen to 1 / e of this
MOST_DOUBT, DOUBT_LENGTH = 0.15, 6650.0  # thousandths of a pawn
# largest share of a known win (`endings_kernel`) that counts as drawn
MOST_DRAWN, WON_RANGE = 0.85, LEAST_MATE - LEAST_WON - 1
LOGIT_FLOOR = 14.0  # largest distance to the best logit; keeps every prior well above 0


@inner
def sigmoid(x: float64) -> float64:
    """Returns the logistic function, in float64; limits x to +-60."""
    return 1.0 / (1.0 + math.exp(-min(max(x, -60.0), 60.0)))


@inner
def chances(score: float64, draw_width: float64, noise: float64) -> tuple[float64, float64]:
    """Returns the win and loss probability of a score, by two logistic curves."""
    return sigmoid((score - draw_width) / noise), sigmoid((-score - draw_width) / noise)


@inner
def value_of(win: float64, loss: float64) -> tuple[float32, float32]:
    """Returns Q (win - loss, in [-1, 1]) and the draw probability (in [0, 1 - |Q|]), float32."""
    q = float32(win - loss)
    return q, min(max(float32(1.0 - win - loss), float32(0.0)), float32(1.0) - abs(q))


@inner
def value_of_score(win: float64, loss: float64, score: int64) -> tuple[float32, float32]:
    """Returns `value_of` the probabilities, with a share of a won position, not of a mate, counted as drawn.

    The share falls with the score, in thousandths of a pawn. Without it the win probability is near 1 in all
    won positions, and a search that cannot distinguish them wins few of them.
    """
    if abs(score) >= LEAST_MATE:
        return value_of(win, loss)
    if abs(score) >= LEAST_WON:
        won = 1.0 - MOST_DRAWN * float64(LEAST_MATE - 1 - abs(score)) / WON_RANGE
        return value_of(won, 0.0) if score > 0 else value_of(0.0, won)
    certain = 1.0 - MOST_DOUBT * (win - loss) ** 2 * math.exp(-abs(score) / DOUBT_LENGTH)
    return value_of(win * certain, loss) if win > loss else value_of(win, loss * certain)


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


def batch_of(evaluate_position: EvaluatePosition) -> Callable[..., None]:
    """Returns the kernel `evaluate_batch` (see `inside.BatchKernel`) for the calling module.

    Args:
      evaluate_position: an inner function of (T, weights, s, moves, n, priors, scratch). It returns Q and the
        draw probability, as `value_of` does, and writes the n > 0 priors, each above 0, which sum to 1.
    """

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
        for b in range(begin, end):
            at = offsets[b]
            n = offsets[b + 1] - at
            s, p = ptr(positions, b * PW), ptr(priors, at)
            q, d = evaluate_position(ptr(T, 0), ptr(weights, 0), s, ptr(moves, at), n, p, ptr(scratch, 0))
            values[2 * b] = q
            values[2 * b + 1] = d
            temper(p, n, temperature)

    # the cache of compiled code has module and name as its key
    evaluate_batch.__module__ = evaluate_position.__module__
    evaluate_batch.__qualname__ = "evaluate_batch"
    return kernel(evaluate_batch)
