"""Values as people read them: WDL, Q and centipawns; scores of alpha-beta searches. Does not import Numba.

Every value is from the view of the side to move at its node; only `negate` changes the view.

A score is in thousandths of a pawn, or a mate by its plies. Quiescence, fixed-depth searches, transposition
entries and their rows in the file share this scale.
"""

from __future__ import annotations

import math
from typing import NamedTuple

D_SCALE = 1000  # draw probability is stored per mille, the unit of UCI_ShowWDL

# lc0's centipawns of a Q, so that scores and Q always have one order; Q = +-1 gives +-12780
CP_FACTOR = 90.0
CP_SLOPE = 1.5637541897

MATE_CE = 32767  # the largest `ce` of EPD: the opponent is mated
MOST_CP = 1000  # for losses of a move, a value is cut to ten pawns


class WDL(NamedTuple):
    """Probabilities of win, draw and loss for the side to move; they sum to 1."""

    win: float
    draw: float
    loss: float

    @property
    def q(self) -> float:
        """Expected result in [-1, 1]: win - loss."""
        return self.win - self.loss


def negate(q: float) -> float:
    """Returns a Q, a bound or a score from the other side's view; never -0.0.

    >>> negate(0.25), negate(0.0)
    (-0.25, 0.0)
    """
    return 0.0 - q


def draw_beside(q: float, d: float) -> float:
    """Returns the draw probability of a value with mean `q`: `d`, limited to [0, 1 - |q|]."""
    return min(max(d, 0.0), 1.0 - abs(q))


def wdl_from_q(q: float, d: float) -> WDL:
    """Returns the WDL with mean `q` and the draw probability `draw_beside(q, d)`.

    >>> wdl_from_q(0.5, 0.25)
    WDL(win=0.625, draw=0.25, loss=0.125)
    """
    d = draw_beside(q, d)
    return WDL(max(0.0, (1.0 - d + q) / 2), d, max(0.0, (1.0 - d - q) / 2))  # not -1e-17 by rounding


def cp_of(q: float) -> int:
    """Returns the centipawns of a Q in [-1, 1], `90 tan(1.5637541897 Q)`; a greater Q never has fewer.

    >>> cp_of(0.0), cp_of(0.5), cp_of(-0.5), cp_of(1.0)
    (0, 89, -89, 12780)
    """
    return round(CP_FACTOR * math.tan(CP_SLOPE * max(-1.0, min(1.0, q))))


def rounded_shares(wdl: WDL, whole: int) -> tuple[int, int, int]:
    """Returns win, draw and loss as whole parts of `whole`, and win less loss is always that part of Q.

    So of two values, the parts never say the opposite of Q.

    >>> rounded_shares(WDL(0.455, 0.32, 0.225), 100), rounded_shares(WDL(0.225, 0.32, 0.455), 100)
    ((45, 33, 22), (22, 33, 45))
    """
    q = round(whole * wdl.q)
    lesser = min(round(whole * min(wdl.win, wdl.loss)), (whole - abs(q)) // 2)
    win, loss = lesser + max(q, 0), lesser - min(q, 0)
    return win, whole - win - loss, loss


def loss_of(best_cp: int, cp: int) -> int:
    """Returns the centipawns that a move loses against the best one, at least 0.

    Both values are cut to ten pawns, so differences between clearly won positions do not count.

    >>> loss_of(50, 20), loss_of(1400, 1100), loss_of(1400, 900), loss_of(0, 30)
    (30, 0, 100, 0)
    """
    return max(0, clipped(best_cp) - clipped(cp))


def clipped(cp: int) -> int:
    """Returns centipawns cut to ten pawns: more says only that the game is won."""
    return max(-MOST_CP, min(MOST_CP, cp))


# ------------------------------------------------------------------ scores
MATE = 100_000  # a lost position with no move, negated; MATE - n mates in n plies
LEAST_MATE = MATE - 1000  # scores from here on are forced mates
LEAST_WON = 50_000  # from here on: known to be won (`evaluators.endings_kernel`)
FAR = 200_000  # beyond every score


def mate_moves(value: int) -> int | None:
    """Returns the number of moves to mate of a score, negative if the side to move is mated; None if no mate.

    >>> mate_moves(99_995), mate_moves(-99_996), mate_moves(-100_000), mate_moves(310)
    (3, -2, 0, None)
    """
    if abs(value) < LEAST_MATE:
        return None
    moves = (MATE - abs(value) + 1) // 2
    return moves if value > 0 else -moves


def centipawns(value: int) -> int | None:
    """Returns the centipawns of a score in thousandths of a pawn, None if it is a mate.

    >>> centipawns(314), centipawns(-5), centipawns(99_999)
    (31, 0, None)
    """
    return None if abs(value) >= LEAST_MATE else round(value / 10)
