"""Maps scores to win and loss probabilities by two logistic curves with widths by phase and material.

numbers    int64, millionths: factor of scores | MAP_TERMS of the draw width | MAP_TERMS of the noise
"""

from __future__ import annotations

import math

from ...jit.compiler import inner
from ...jit.pointers import U, adv, popc
from ...jit.types import Pointer, float64, int64
from ...position.board_kernel import side_to_move
from ...position.words import BISHOPS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE, Position
from ..batch_kernel import chances
from .layout import MAP_TERMS, SCALAR_UNIT

DRAW_WIDTH, NOISE = int64(1), int64(1 + MAP_TERMS)
QUEEN_SIDE = U(0x0F0F0F0F0F0F0F0F)  # files a to d
DARK = U(0xAA55AA55AA55AA55)  # squares
PHASE_MAX = 24  # 4 knights and bishops each 1, 4 rooks 2, 2 queens 4


@inner
def phase_of(s: Position) -> int64:
    """Returns the phase, from 0 (kings and pawns) to 24 (all pieces)."""
    return min(PHASE_MAX, popc(s[KNIGHTS] | s[BISHOPS]) + 2 * popc(s[ROOKS]) + 4 * popc(s[QUEENS]))


@inner
def opposite_bishops(s: Position) -> bool:
    """Returns whether the only bishops are one of each side, on different colours."""
    bishops = s[BISHOPS]
    return popc(bishops) == 2 and popc(bishops & s[WHITE]) == 1 and popc(bishops & DARK) == 1


@inner
def map_exponent(numbers: Pointer[int64], s: Position, score: int64) -> float64:
    """Returns the logarithm of one width of the value map: a fitted sum over phase and material.

    Args:
      numbers: the MAP_TERMS terms of this width.
      score: its sign selects the strong side, whose pawns are a term.
    """
    stm = side_to_move(s)
    strong = s[PAWNS] & s[WHITE + (stm if score > 0 else 1 - stm)]
    pieces = s[KNIGHTS] | s[BISHOPS] | s[QUEENS]
    u = phase_of(s) / PHASE_MAX - 0.5
    out = numbers[0] + numbers[1] * u + numbers[2] * u * u
    out += numbers[3] * (popc(s[PAWNS]) / 8.0 - 1.0) + numbers[4] * (popc(strong) / 4.0 - 1.0)
    if s[QUEENS]:
        out += numbers[5]
    if opposite_bishops(s):
        out += numbers[6]
    if not pieces:
        out += numbers[7] if s[ROOKS] else numbers[8]
    if s[PAWNS] & QUEEN_SIDE and s[PAWNS] & ~QUEEN_SIDE:
        out += numbers[9]
    return SCALAR_UNIT * out


@inner
def chances_of(numbers: Pointer[int64], s: Position, score: int64) -> tuple[float64, float64]:
    """Returns the win and loss probability of a score in thousandths of a pawn, as `chances` does."""
    a = math.exp(map_exponent(adv(numbers, DRAW_WIDTH), s, score))
    b = math.exp(map_exponent(adv(numbers, NOISE), s, score))
    x = score * 0.001 * SCALAR_UNIT * numbers[0]
    return chances(x, a, b)
