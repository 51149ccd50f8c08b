"""Quiescence search over a network; updates the accumulators along the line."""

from __future__ import annotations

from ...jit.compiler import inner
from ...jit.pointers import adv, as_i64, popc
from ...jit.types import Pointer, int64, uint64
from ...position.board_kernel import side_to_move
from ...position.scores import LEAST_WON
from ...position.words import BLACK, WHITE, BoardTable
from ..bare_king_kernel import bare_king_score
from ..quiescence.quiescence_kernel import FRAME_WORDS, FRAMES, quiescence_over
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
