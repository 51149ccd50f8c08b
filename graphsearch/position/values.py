"""Values as people read them: WDL, Q, centipawns, and whose they are.

Every value is seen by the side to move at the node that holds it; `negate` is the only way
to the other side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

D_SCALE = 1000  # draw probability is stored per mille, the unit of UCI_ShowWDL

# lc0's centipawns: cp = 90 tan(1.5637541897 Q); Q = +-1 gives about +-12800.
CP_FACTOR = 90.0
CP_SLOPE = 1.5637541897


@dataclass(frozen=True, slots=True)
class WDL:
    """Probabilities of win, draw and loss for the side to move; they sum to 1."""

    win: float
    draw: float
    loss: float

    @property
    def q(self) -> float:
        """Expected result in [-1, 1]: win - loss."""
        return self.win - self.loss

    def as_list(self) -> list[float]:
        """Returns `[win, draw, loss]`, for JSON."""
        return [self.win, self.draw, self.loss]


def negate(q: float) -> float:
    """Returns a Q, a bound or a score of one side as the other side sees it.

    >>> negate(0.25), negate(0.0)
    (-0.25, 0.0)
    """
    return 0.0 - q


def wdl_from_q(q: float, d: float) -> WDL:
    """Returns the WDL with mean `q` and draw probability `d`, `d` cut to at most 1 - |q|.

    >>> wdl_from_q(0.5, 0.25)
    WDL(win=0.625, draw=0.25, loss=0.125)
    """
    d = min(max(d, 0.0), 1.0 - abs(q))
    return WDL(max(0.0, (1.0 - d + q) / 2), d, max(0.0, (1.0 - d - q) / 2))  # not -1e-17 by rounding


def cp_from_q(q: float) -> int:
    """Returns lc0's centipawns of a Q in [-1, 1].

    >>> cp_from_q(0.0), cp_from_q(0.5), cp_from_q(-0.5)
    (0, 89, -89)
    """
    return round(CP_FACTOR * math.tan(CP_SLOPE * max(-1.0, min(1.0, q))))


def q_from_cp(cp: float) -> float:
    """Returns the Q whose centipawns (lc0's mapping) are `cp`.

    >>> round(q_from_cp(90), 3)
    0.502
    """
    return math.atan(cp / CP_FACTOR) / CP_SLOPE
