"""The weights of the moves of one position in a Polyglot book."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..position.values import cp_from_q
from .polyglot import MAX_WEIGHT

HALVING_CP = 25.0  # a move that loses so many centipawns has half the weight
HALF, SLIGHTLY = 0.5, 1e-9  # what is next to a half goes down, whatever the last bit says


def weight_of_loss(cp: int) -> float:
    """Returns the weight of a move that loses so many centipawns, in (0, 1].

    >>> weight_of_loss(0), weight_of_loss(25)
    (1.0, 0.5)
    """
    return float(2.0 ** max(-cp / HALVING_CP, -1000.0))


def loss_weight(best: float, value: float) -> float:
    """Returns the weight of a value in [-1, 1] beside the best one of its position, in (0, 1].

    >>> loss_weight(0.5, 0.5), round(loss_weight(0.0, -0.174), 2)
    (1.0, 0.5)
    """
    return weight_of_loss(max(0, cp_from_q(best) - cp_from_q(value)))


def scaled(weights: Sequence[float], *, fill: bool) -> list[int]:
    """Returns the weights of one position in 16 bits; the largest is never 0 unless all are.

    Args:
      fill: make the largest 65,535 in any case.

    >>> scaled([3, 1, 0], fill=False), scaled([131070, 2, 1, 0.1], fill=False)
    ([3, 1, 0], [65535, 1, 0, 0])
    """
    largest = max(weights, default=0)
    if largest <= 0:
        return [0] * len(weights)
    factor = MAX_WEIGHT / largest if fill or largest > MAX_WEIGHT else 1.0
    return [max(int(w == largest), math.floor(w * factor + HALF - SLIGHTLY)) for w in weights]
