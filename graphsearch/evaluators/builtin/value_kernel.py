"""The value network: computes a score, a draw width and a noise."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...jit.compiler import inlined, inner
from ...jit.pointers import adv, as_f32, as_i16
from ...jit.types import Pointer, float32, float64, int16, int64, uint64
from .layout import (
    FIRST,
    MEN_PER_STACK,
    MOST_WIDTH,
    NOISE_RANGE,
    OUTPUTS,
    SECOND,
    STACKS,
    VALUE_FIRST,
    VALUE_FIRST_PLAIN,
    VALUE_LAST,
    VALUE_SECOND,
    VALUE_WIDTH,
    WIDTH_RANGE,
)
from .rows_kernel import activate, dot, section

FIRST_OUTPUTS = FIRST + OUTPUTS
# offsets in the work area, in words: the hidden layer of both views, then the layers of FIRST and SECOND
FIRST_AT = 2 * MOST_WIDTH // 4
SECOND_AT = FIRST_AT + (FIRST_OUTPUTS + 1) // 2
VALUE_WORDS = SECOND_AT + SECOND // 2


class Value(NamedTuple):
    """The network's outputs in the unit of `layout.SCORE_UNIT`, seen by the side to move."""

    score: float64
    draw_width: float64
    noise: float64


@inlined
def clipped(x: float32) -> float32:
    """Returns x limited to 0..1."""
    return min(max(x, float32(0)), float32(1))


@inner
def first_layer(weights: Pointer[int64], stack: int64, hidden: Pointer[int16], out: Pointer[float32]) -> None:
    """Writes the outputs of a stack's first layer and of its linear part: float32[FIRST + OUTPUTS]."""
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
    """Adds the outputs of the layers of FIRST and SECOND to the linear part, `first[FIRST:]`."""
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
    weights: Pointer[int64], own: Pointer[int16], other: Pointer[int16], men: int64, work: Pointer[uint64]
) -> Value:
    """Returns the `Value` of a position.

    Args:
      own, other: sums of the rows of both views, int16[width]. men: their number on the board.
      work: uint64[VALUE_WORDS], scratch.
    """
    width, hidden = int64(weights[VALUE_WIDTH]), as_i16(work)
    activate(width, own, hidden)
    activate(width, other, adv(hidden, width))
    stack = min((men - 1) // MEN_PER_STACK, int64(STACKS - 1))
    first, second = as_f32(adv(work, int64(FIRST_AT))), as_f32(adv(work, int64(SECOND_AT)))
    first_layer(weights, stack, hidden, first)
    last_layers(weights, stack, first, second)
    return Value(
        float64(first[FIRST]),
        math.exp(min(max(float64(first[FIRST + 1]), WIDTH_RANGE[0]), WIDTH_RANGE[1])),
        math.exp(min(max(float64(first[FIRST + 2]), NOISE_RANGE[0]), NOISE_RANGE[1])),
    )
