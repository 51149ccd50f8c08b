"""Quiescence search over a network; updates the accumulators along the line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import ZERO, adv, as_i64, popc, ptr
from ...jit.types import Pointer, int64, uint64
from ...position.board_kernel import PW, side_to_move
from ...position.scores import LEAST_WON
from ...position.words import BLACK, WHITE, BoardTable
from ..bare_king_kernel import bare_king_score
from ..quiescence.quiescence_kernel import FRAME_WORDS, FRAMES, KEPT, STACK_WORDS, quiescence_over
from .accumulator_kernel import BOARD_WORDS, LISTS_WORDS, accumulate, accumulator_at
from .layers_kernel import output, work_words
from .layout import MEN_PER_STACK, PAWN, ROW_WORDS, row_words

MOST_STATIC = LEAST_WON - 1


def area_words(width: int) -> int:
    """Returns the number of words of a network's search area, which follows its stack."""
    accumulators = FRAMES * 2 * row_words(width)
    return LISTS_WORDS + accumulators + 2 * 64 * (BOARD_WORDS + row_words(width)) + work_words(width)


@inner
def work_at(weights: Pointer[int64], area: Pointer[uint64]) -> Pointer[int64]:
    """Returns the work area of the layers; after `static_at` it has the first layer's sums."""
    words = int64(weights[ROW_WORDS])
    return as_i64(adv(area, LISTS_WORDS + (FRAMES * 2 + 2 * 64) * words + 2 * 64 * BOARD_WORDS))


@inner
def network_score(
    weights: Pointer[int64], stack: Pointer[uint64], ply: int64, area: Pointer[uint64]
) -> int64:
    """Returns the network's score of a frame's position in thousandths of a pawn, for the side to move."""
    accumulate(weights, stack, ply, area)
    frame = adv(stack, ply * FRAME_WORDS)
    stm = side_to_move(frame)
    value = output(
        weights,
        accumulator_at(weights, area, ply, stm),
        accumulator_at(weights, area, ply, 1 - stm),
        (popc(frame[WHITE] | frame[BLACK]) - 1) // MEN_PER_STACK,
        work_at(weights, area),
    )
    return value * 1000 // int64(weights[PAWN])


@inner
def static_at(
    T: BoardTable, weights: Pointer[int64], stack: Pointer[uint64], ply: int64, area: Pointer[uint64]
) -> int64:
    """Returns `network_score` of a frame's position, or its `bare_king_score`; adds to the accumulators."""
    score = network_score(weights, stack, ply, area)
    bare = bare_king_score(adv(stack, ply * FRAME_WORDS))
    return bare if bare else min(max(score, int64(-MOST_STATIC)), int64(MOST_STATIC))


search = quiescence_over(static_at)


@kernel
def scores(
    T: NDArray[np.uint64],
    weights: NDArray[np.int64],
    positions: NDArray[np.uint64],
    quiet: NDArray[np.int64],
    out: NDArray[np.int64],
    scratch: NDArray[np.uint64],
) -> None:
    """Writes each position's score in thousandths of a pawn, seen by the side to move.

    Args:
      positions: uint64[B * 10].
      quiet: int64[2]: window of the quiescence search; two equal numbers: the network's score alone.
      out: int64[B] out.
      scratch: uint64[STACK_WORDS + area_words(width)].
    """
    stack, area = ptr(scratch, 0), ptr(scratch, STACK_WORDS)
    for b in range(out.shape[0]):
        for i in range(PW):
            stack[i] = positions[b * PW + i]
        stack[KEPT] = ZERO
        if quiet[0] == quiet[1]:
            out[b] = network_score(ptr(weights, 0), stack, int64(0), area)
        else:
            out[b] = search(
                ptr(T, 0), ptr(weights, 0), stack, area, int64(0), quiet[0], quiet[1], int64(0), False
            )
