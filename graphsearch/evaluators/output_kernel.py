"""From scores to chances and from logits to priors, for evaluators in kernels.

The map of scores is two logistic curves, by phase and material:

    numbers    int64, millionths: the factor of scores, MAP_TERMS of the draw's width, MAP_TERMS of the noise
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import float32

from ..jit.compiler import inner
from ..jit.pointers import U, adv, popc
from ..position.board_kernel import side_to_move
from ..position.words import BISHOPS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE
from .builtin.layout import MAP_TERMS, SCALAR_UNIT
from .builtin.terms_kernel import PHASE_MAX, opposite_bishops, phase_of

DRAW_WIDTH, NOISE = np.int64(1), np.int64(1 + MAP_TERMS)
LOGIT_FLOOR = -12.0  # below the best; keeps every prior well above 0
QUEEN_SIDE = U(0x0F0F0F0F0F0F0F0F)  # files a to d


@inner
def sigmoid(x: Any) -> Any:
    """Returns the logistic function, in float64; it is 0 or 1 beyond +-60."""
    return 1.0 / (1.0 + math.exp(-min(max(x, -60.0), 60.0)))


@inner
def map_exponent(numbers: Any, s: Any, score: Any) -> Any:
    """Returns the logarithm of one width of the value map: linear in phase, material and its kind.

    `numbers` are its MAP_TERMS; the side that the score favours counts as the strong one.
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
def wdl_of(numbers: Any, s: Any, score: Any) -> Any:
    """Returns the chances to win and to lose of a score in thousandths of a pawn, as two logistic curves.

    win = sigmoid((x - a) / b), loss = sigmoid((-x - a) / b): x the score in pawns, a half the width of the
    draw, b the noise.
    """
    a = math.exp(map_exponent(adv(numbers, DRAW_WIDTH), s, score))
    b = math.exp(map_exponent(adv(numbers, NOISE), s, score))
    x = score * 0.001 * SCALAR_UNIT * numbers[0]
    return sigmoid((x - a) / b), sigmoid((-x - a) / b)


@inner
def value_of(numbers: Any, s: Any, score: Any) -> Any:
    """Returns Q (win - loss, in [-1, 1]) and the chance of a draw (in [0, 1 - |Q|]) of a score."""
    win, loss = wdl_of(numbers, s, score)
    q = float32(win - loss)
    room = float32(1.0) - abs(q)
    return q, min(max(float32(1.0 - win - loss), float32(0.0)), room)


@inner
def write_softmax(priors: Any, n: Any, top: Any) -> None:
    """Turns logits, of which `top` is the largest, into priors in place."""
    # Summing in the order of the moves keeps this deterministic; float64 makes a colour flip agree to 1e-7.
    total = 0.0
    for i in range(n):
        weight = math.exp(max(priors[i] - top, LOGIT_FLOOR))
        priors[i] = float32(weight)
        total += weight
    for i in range(n):
        priors[i] = float32(priors[i] / total)
