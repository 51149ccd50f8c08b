"""Values as people read them: WDL, Q, centipawns, and their score types.

Every value is from the view of the side to move at its node; only `negate` changes the view.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from ..base.errors import InvalidParameterError

D_SCALE = 1000  # draw probability is stored per mille, the unit of UCI_ShowWDL

# lc0's score type `centipawn`: cp = 90 tan(1.5637541897 Q); Q = +-1 gives about +-12800.
CP_FACTOR = 90.0
CP_SLOPE = 1.5637541897
# lc0's fallback for its score type `WDL_mu`: where W, D or L is at most 0.0001, or W or L below about 0.002
FALLBACK_FACTOR, FALLBACK_SLOPE = 45.0, 1.56728071628
LEAST_CHANCE, MOST_CERTAIN = 0.0001, 0.996

MATE_CE = 32767  # the largest `ce` of EPD: the opponent is mated
MOST_CP = 1000  # for losses of a move, a value is cut to ten pawns

SCORE_TYPES = WDL_MU, CENTIPAWN = "WDL_mu", "centipawn"  # lc0's names; the first is the default
_shown = [WDL_MU]  # the type of every cp that this process shows,
_inside: ContextVar[str | None] = ContextVar("score_type", default=None)  # except inside `scores_by`


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
    """Returns a Q, a bound or a score from the other side's view; never -0.0.

    >>> negate(0.25), negate(0.0)
    (-0.25, 0.0)
    """
    return 0.0 - q


def draw_beside(q: float, d: float) -> float:
    """Returns the draw probability of a value with mean `q`: `d`, limited to [0, 1 - |q|].

    >>> draw_beside(0.5, 0.25), draw_beside(0.75, 0.5)
    (0.25, 0.25)
    """
    return min(max(d, 0.0), 1.0 - abs(q))


def wdl_from_q(q: float, d: float) -> WDL:
    """Returns the WDL with mean `q` and draw probability `d`, with `d` limited to [0, 1 - |q|].

    >>> wdl_from_q(0.5, 0.25)
    WDL(win=0.625, draw=0.25, loss=0.125)
    """
    d = draw_beside(q, d)
    return WDL(max(0.0, (1.0 - d + q) / 2), d, max(0.0, (1.0 - d - q) / 2))  # not -1e-17 by rounding


def cp_from_q(q: float) -> int:
    """Returns lc0's centipawns (`centipawn`) of a Q in [-1, 1], for values without WDL.

    >>> cp_from_q(0.0), cp_from_q(0.5), cp_from_q(-0.5)
    (0, 89, -89)
    """
    return round(CP_FACTOR * math.tan(CP_SLOPE * max(-1.0, min(1.0, q))))


def cp_from_wdl(q: float, draw: float) -> int:
    """Returns lc0's centipawns (`WDL_mu`) of a value with mean `q` and draw probability `draw`.

    100 means a win probability of one half. The model takes W and L as tails of a logistic distribution with
    mean mu, `W = sigmoid((mu - 1) / s)` and `L = sigmoid((-mu - 1) / s)`; cp is 100 mu. As in lc0, a tangent
    of Q replaces it where W, D or L is almost 0, and beyond one pawn where the tangent is larger.

    >>> cp_from_wdl(0.4, 0.4), cp_from_wdl(-0.4, 0.4), cp_from_wdl(0.0, 0.7)
    (100, -100, 0)
    >>> cp_from_wdl(1.0, 0.0), cp_from_wdl(0.25, 0.74), cp_from_wdl(0.5, 0.0)
    (12800, 66, 45)
    """
    win, loss = (1.0 + q - draw) / 2, (1.0 - q - draw) / 2
    fallback = FALLBACK_FACTOR * math.tan(FALLBACK_SLOPE * max(-1.0, min(1.0, q)))
    if min(win, draw, loss) <= LEAST_CHANCE or abs(q) + draw >= MOST_CERTAIN:
        return round(fallback)
    a, b = math.log(1.0 / loss - 1.0), math.log(1.0 / win - 1.0)
    score = 100.0 * (a - b) / (a + b)
    return round(score if abs(score) < 100.0 or abs(fallback) < abs(score) else fallback)


def cp_by(score_type: str, q: float, draw: float | None) -> int:
    """Returns the centipawns of a value by one of `SCORE_TYPES`.

    Without a draw probability (None) it uses Q alone; book values, for example, are backed up without draws.
    """
    return cp_from_wdl(q, draw) if score_type == WDL_MU and draw is not None else cp_from_q(q)


def cp_of(q: float, draw: float | None = None) -> int:
    """Returns the centipawns of a value by the current score type (`shown_score_type`)."""
    return cp_by(shown_score_type(), q, draw)


def loss_of(best_cp: int, cp: int) -> int:
    """Returns the centipawns that a move loses against the best one, at least 0.

    Both values are cut to ten pawns, so differences between clearly won positions do not count.

    >>> loss_of(50, 20), loss_of(1400, 1100), loss_of(1400, 900), loss_of(0, 30)
    (30, 0, 100, 0)
    """
    return max(0, clipped(best_cp) - clipped(cp))


def clipped(cp: int) -> int:
    """Returns centipawns cut to ten pawns either way; a larger value says only that the game is won."""
    return max(-MOST_CP, min(MOST_CP, cp))


def show_scores_by(score_type: str) -> None:
    """Sets the score type of all centipawns that this process shows.

    Raises:
      InvalidParameterError: if it is none of `SCORE_TYPES`.
    """
    if score_type not in SCORE_TYPES:
        raise InvalidParameterError(f"a score type is {' or '.join(SCORE_TYPES)}, not {score_type!r}")
    _shown[0] = score_type


@contextmanager
def scores_by(score_type: str | None) -> Iterator[None]:
    """Sets the score type for the current context inside a `with` block; None: the process's type."""
    token = _inside.set(score_type)
    try:
        yield
    finally:
        _inside.reset(token)


def shown_score_type() -> str:
    """Returns the score type of the current context, or else of the process.

    >>> with scores_by(CENTIPAWN):
    ...     shown_score_type(), cp_of(0.25, 0.74), cp_of(0.25, 0.0)
    ('centipawn', 37, 37)
    """
    return _inside.get() or _shown[0]
