"""The value network: a score, and how wide the draw and the noise around it are."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...jit.compiler import inner
from ...jit.pointers import adv, as_f32, as_i16
from ...jit.types import Pointer, float32, float64, int16, int32, int64
from ..batch_kernel import sigmoid
from .layout import (
    FULL,
    MEN_PER_STACK,
    NOISE_RANGE,
    OUTPUTS,
    STACKS,
    VALUE_BIAS,
    VALUE_OUT,
    VALUE_OUT_BIAS,
    VALUE_ROWS,
    VALUE_WIDTH,
    WIDTH_RANGE,
)


class Value(NamedTuple):
    """What the network says: all in the unit of `layout.SCORE_UNIT`, seen by the side to move."""

    score: float64
    draw_width: float64
    noise: float64


@inner
def section(weights: Pointer[int64], name: int64) -> Pointer[int16]:
    """Returns a section of int16."""
    return as_i16(adv(weights, int64(weights[name])))


@inner
def sum_rows(
    width: int64,
    rows: Pointer[int16],
    bias: Pointer[int16],
    features: Pointer[int64],
    n: int64,
    out: Pointer[int16],
) -> None:
    """Writes the bias and the rows of n features, summed: int16[width]; four rows in one pass."""
    for i in range(width):
        out[i] = bias[i]
    whole = n & ~3
    for j in range(0, whole, 4):
        a, b = adv(rows, features[j] * width), adv(rows, features[j + 1] * width)
        c, d = adv(rows, features[j + 2] * width), adv(rows, features[j + 3] * width)
        for i in range(width):
            out[i] += a[i] + b[i] + c[i] + d[i]
    for j in range(whole, n):
        a = adv(rows, features[j] * width)
        for i in range(width):
            out[i] += a[i]


@inner
def activate(width: int64, sums: Pointer[int16]) -> None:
    """Clips sums to 0..FULL and squares them, in place."""
    for i in range(width):
        x = min(max(sums[i], int16(0)), int16(FULL))
        sums[i] = int16(x * x)


@inner
def dot(n: int64, a: Pointer[int16], b: Pointer[int16]) -> int32:
    """Returns the sum of the products of some int16, as int32; `weights.py` sees to it that it fits."""
    total = int32(0)
    for i in range(n):
        total += int32(a[i]) * int32(b[i])
    return int32(total)


@inner
def network_value(
    weights: Pointer[int64], own: Pointer[int64], other: Pointer[int64], n: int64, work: Pointer[int16]
) -> Value:
    """Returns the `Value` of a position, given as its features.

    Args:
      own, other: int64[n], as `list_features` writes them.
      work: int16[2 * width].
    """
    width = int64(weights[VALUE_WIDTH])
    rows, bias = section(weights, int64(VALUE_ROWS)), section(weights, int64(VALUE_BIAS))
    sum_rows(width, rows, bias, own, n, work)
    sum_rows(width, rows, bias, other, n, adv(work, width))
    activate(2 * width, work)
    stack = min((n - 1) // MEN_PER_STACK, int64(STACKS - 1))
    last = adv(section(weights, int64(VALUE_OUT)), stack * OUTPUTS * 2 * width)
    plain = as_f32(adv(weights, int64(weights[VALUE_OUT_BIAS])))
    score = _output(width, last, plain, stack, int64(0), work)
    draw_width = _output(width, last, plain, stack, int64(1), work)
    noise = _output(width, last, plain, stack, int64(2), work)
    return Value(
        score,
        math.exp(min(max(draw_width, WIDTH_RANGE[0]), WIDTH_RANGE[1])),
        math.exp(min(max(noise, NOISE_RANGE[0]), NOISE_RANGE[1])),
    )


@inner
def _output(
    width: int64, last: Pointer[int16], plain: Pointer[float32], stack: int64, k: int64, work: Pointer[int16]
) -> float64:
    """Returns one output of a stack, float64."""
    total = dot(2 * width, work, adv(last, k * 2 * width))
    return float64(plain[stack * OUTPUTS + k]) + float64(plain[STACKS * OUTPUTS + k]) * float64(total)


@inner
def chances_of(score: float64, value: Value) -> tuple[float64, float64]:
    """Returns the chances to win and to lose of a score, in the unit of `Value`: two logistic curves.

    win = sigmoid((score - draw width) / noise), loss = sigmoid((-score - draw width) / noise)
    """
    win = sigmoid((score - value.draw_width) / value.noise)
    return win, sigmoid((-score - value.draw_width) / value.noise)
