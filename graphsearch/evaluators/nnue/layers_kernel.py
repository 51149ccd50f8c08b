"""The layers after the accumulators: from the two accumulators to the network's output."""

from __future__ import annotations

from ...jit.compiler import inlined, inner
from ...jit.pointers import add_products, adv, as_i16, as_i32, as_u16
from ...jit.types import Pointer, int16, int32, int64, uint16
from .layout import (
    FIRST,
    FIRST_BIAS,
    FIRST_WEIGHTS,
    LAST_BIAS,
    LAST_WEIGHTS,
    SECOND,
    SECOND_BIAS,
    SECOND_INPUTS,
    SECOND_WEIGHTS,
    STACK_WORDS,
    STACKS_AT,
    WIDTH,
)

MOST = 127  # the largest clipped value
MOST_BITS = 7
WEIGHT_BITS = 6
SQUARE_MOST = 1 << 13  # its square fits in 32 bits and is clipped anyway
OUTPUT_SCALE = 16
SKIPPED, SKIPPED_UNIT = 600 * OUTPUT_SCALE, MOST << WEIGHT_BITS  # scale of the first layer's last sum
# offsets in the work area, in words; last the inputs, int16[width + 2], and the places for `add_products`
SUMS = 0  # int32[FIRST]
SECOND_INPUT = SUMS + FIRST // 2  # int16[SECOND_INPUTS + 2]
SECOND_SUMS = SECOND_INPUT + SECOND_INPUTS // 4 + 8  # int32[SECOND]
INPUTS = SECOND_SUMS + SECOND // 2


def work_words(width: int) -> int:
    """Returns the number of words in the work area."""
    return INPUTS + width // 4 + 1 + width // 8 + 2


@inner
def activate(half: int64, accumulator: Pointer[int16], out: Pointer[int16]) -> None:
    """Writes the clipped products of an accumulator's halves, int16[half] in 0..126."""
    for j in range(half):
        a = min(max(accumulator[j], int16(0)), int16(MOST))
        b = min(max(accumulator[j + half], int16(0)), int16(MOST))
        out[j] = int16(int16(a * b) >> int16(MOST_BITS))


@inlined
def places_at(work: Pointer[int64], width: int64) -> Pointer[uint16]:
    """Returns the places for `add_products` in the work area."""
    return as_u16(adv(work, INPUTS + (width >> 2) + 1))


@inner
def first_layer(width: int64, stack: Pointer[int64], work: Pointer[int64]) -> None:
    """Writes the first layer's sums, and the second one's inputs: sums squared, then plain, all clipped."""
    bias, weights = as_i32(adv(stack, int64(FIRST_BIAS))), as_i16(adv(stack, int64(FIRST_WEIGHTS)))
    inputs, sums = as_i16(adv(work, int64(INPUTS))), as_i32(adv(work, int64(SUMS)))
    out = as_i16(adv(work, int64(SECOND_INPUT)))
    for r in range(FIRST):
        sums[r] = bias[r]
    add_products(sums, inputs, weights, width >> 1, places_at(work, width))
    for r in range(FIRST - 1):
        size = min(abs(sums[r]), int32(SQUARE_MOST))
        out[r] = int16(min(int32(int32(size * size) >> int32(2 * WEIGHT_BITS + MOST_BITS)), int32(MOST)))
        out[r + FIRST - 1] = clipped(sums[r])
    for r in range(2 * (FIRST - 1), SECOND_INPUTS):
        out[r] = int16(0)


@inner
def clipped(total: int32) -> int16:
    """Returns the next layer's input for a layer's sum: scaled and clipped to 0..127."""
    return int16(min(max(int32(total >> int32(WEIGHT_BITS)), int32(0)), int32(MOST)))


@inner
def other_layers(width: int64, stack: Pointer[int64], work: Pointer[int64]) -> int64:
    """Runs the second and last layer; returns the last layer's sum."""
    bias, weights = as_i32(adv(stack, int64(SECOND_BIAS))), as_i16(adv(stack, int64(SECOND_WEIGHTS)))
    last, inputs = as_i16(adv(stack, int64(LAST_WEIGHTS))), as_i16(adv(work, int64(SECOND_INPUT)))
    sums, places = as_i32(adv(work, int64(SECOND_SUMS))), places_at(work, width)
    for r in range(SECOND):
        sums[r] = bias[r]
    for r in range(0, SECOND, FIRST):
        add_products(adv(sums, r), inputs, adv(weights, r * SECOND_INPUTS), int64(SECOND_INPUTS // 2), places)
    total = int32(0)
    for r in range(SECOND):
        total += int32(clipped(sums[r])) * int32(last[r])
    return total + int64(stack[LAST_BIAS])


@inner
def whole(a: int64, b: int64) -> int64:
    """Returns a / b rounded towards 0, as in C; b > 0."""
    return a // b if a >= 0 else -(-a // b)


@inner
def output(
    weights: Pointer[int64], ours: Pointer[int64], theirs: Pointer[int64], i: int64, work: Pointer[int64]
) -> int64:
    """Returns the network's output for two accumulators, in the network's unit, seen by the side to move.

    Args:
      ours, theirs: accumulators of the side to move and of the other side.
      i: index of the stack.
      work: int64[work_words(width)], zeros before the first call.
    """
    width = int64(weights[WIDTH])
    stack = adv(weights, int64(weights[STACKS_AT]) + i * int64(weights[STACK_WORDS]))
    inputs = as_i16(adv(work, int64(INPUTS)))
    activate(width >> 1, as_i16(ours), inputs)
    activate(width >> 1, as_i16(theirs), adv(inputs, width >> 1))
    first_layer(width, stack, work)
    skipped = whole(int64(as_i32(adv(work, int64(SUMS)))[FIRST - 1]) * SKIPPED, int64(SKIPPED_UNIT))
    at = (width >> 1) + i
    material = whole(int64(as_i32(ours)[at]) - int64(as_i32(theirs)[at]), int64(2))
    return whole(material + other_layers(width, stack, work) + skipped, int64(OUTPUT_SCALE))
