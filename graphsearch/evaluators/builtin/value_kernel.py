"""The value network: a score, and how wide the draw and the noise around it are."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...jit.compiler import inlined, inner
from ...jit.pointers import adv, as_f32, as_i16
from ...jit.types import Pointer, float32, float64, int16, int32, int64, uint64
from .layout import (
    FIRST,
    FULL,
    MEN_PER_STACK,
    MOST_WIDTH,
    NOISE_RANGE,
    OUTPUTS,
    SECOND,
    STACKS,
    VALUE_BIAS,
    VALUE_FIRST,
    VALUE_FIRST_PLAIN,
    VALUE_LAST,
    VALUE_ROWS,
    VALUE_SECOND,
    VALUE_WIDTH,
    WIDTH_RANGE,
)

FIRST_OUTPUTS = FIRST + OUTPUTS
# words of the work area: sums of both views, then the layers of FIRST and SECOND
FIRST_AT = 2 * MOST_WIDTH // 4
SECOND_AT = FIRST_AT + (FIRST_OUTPUTS + 1) // 2
VALUE_WORDS = SECOND_AT + SECOND // 2


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


@inlined
def clipped(x: float32) -> float32:
    """Returns a float32 within 0..1."""
    return min(max(x, float32(0)), float32(1))


@inner
def first_layer(weights: Pointer[int64], stack: int64, hidden: Pointer[int16], out: Pointer[float32]) -> None:
    """Writes what the first layer of a stack and its linear part say: float32[FIRST + OUTPUTS]."""
    width = int64(weights[VALUE_WIDTH])
    rows = adv(section(weights, int64(VALUE_FIRST)), stack * FIRST_OUTPUTS * 2 * width)
    plain = as_f32(adv(weights, int64(weights[VALUE_FIRST_PLAIN])))
    for k in range(FIRST_OUTPUTS):
        at = stack * FIRST_OUTPUTS + k
        total = float32(dot(2 * width, hidden, adv(rows, k * 2 * width)))
        out[k] = plain[at] + plain[STACKS * FIRST_OUTPUTS + at] * total


@inner
def last_layers(
    weights: Pointer[int64], stack: int64, first: Pointer[float32], second: Pointer[float32]
) -> None:
    """Adds to the linear part, `first[FIRST:]`, what the layers of FIRST and SECOND say."""
    rows = as_f32(adv(weights, int64(weights[VALUE_SECOND])))
    rows = adv(rows, stack * (2 * FIRST + 1) * SECOND)
    last = adv(as_f32(adv(weights, int64(weights[VALUE_LAST]))), stack * SECOND * OUTPUTS)
    for j in range(SECOND):
        second[j] = rows[2 * FIRST * SECOND + j]
    for i in range(FIRST):
        x = clipped(first[i])
        a, b = adv(rows, i * SECOND), adv(rows, (FIRST + i) * SECOND)
        for j in range(SECOND):
            second[j] += x * a[j] + x * x * b[j]
    for j in range(SECOND):
        x = clipped(second[j])
        for k in range(OUTPUTS):
            first[FIRST + k] += x * last[j * OUTPUTS + k]


@inner
def network_value(
    weights: Pointer[int64],
    own: Pointer[int64],
    other: Pointer[int64],
    n: int64,
    men: int64,
    work: Pointer[uint64],
) -> Value:
    """Returns the `Value` of a position, given as its features.

    Args:
      own, other: int64[n], as `list_features` writes them. men: on the board.
      work: uint64[VALUE_WORDS].
    """
    width, sums = int64(weights[VALUE_WIDTH]), as_i16(work)
    rows, bias = section(weights, int64(VALUE_ROWS)), section(weights, int64(VALUE_BIAS))
    sum_rows(width, rows, bias, own, n, sums)
    sum_rows(width, rows, bias, other, n, adv(sums, width))
    activate(2 * width, sums)
    stack = min((men - 1) // MEN_PER_STACK, int64(STACKS - 1))
    first, second = as_f32(adv(work, int64(FIRST_AT))), as_f32(adv(work, int64(SECOND_AT)))
    first_layer(weights, stack, sums, first)
    last_layers(weights, stack, first, second)
    return Value(
        float64(first[FIRST]),
        math.exp(min(max(float64(first[FIRST + 1]), WIDTH_RANGE[0]), WIDTH_RANGE[1])),
        math.exp(min(max(float64(first[FIRST + 2]), NOISE_RANGE[0]), NOISE_RANGE[1])),
    )
