"""What the games of a match say: the score, an Elo difference with its error, and a sequential test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SIGNIFICANT = 1.96  # standard errors of a 95 % interval
SURE = math.log(0.95 / 0.05)  # the log-likelihood ratio that decides, if either error may happen in 5 %
LEAST_VARIANCE = 1 / 64  # of a pair's mean points: alike results of a few pairs prove nothing

Ends = tuple[float | None, float | None, float | None]


@dataclass(frozen=True, slots=True)
class Sprt:
    """A sequential test of two Elo differences.

    >>> Sprt.read("0,10")
    Sprt(low=0.0, high=10.0)
    """

    low: float
    high: float

    @classmethod
    def read(cls, text: str) -> Sprt:
        """Returns the test of a text such as `0,10`."""
        low, _, high = text.partition(",")
        found = cls(float(low), float(high))
        if not -1000 <= found.low < found.high <= 1000:
            raise ValueError(f"{text} is not two Elo differences, the lower first")
        return found

    def ratio(self, points: Sequence[float]) -> float:
        """Returns the log-likelihood ratio of both differences; above SURE the higher one holds.

        Games count in pairs, both colours of an opening, whose mean points are nearly normal.

        >>> Sprt(0, 100).ratio([1.0, 0.0] * 50) < -SURE, Sprt(0, 100).ratio([1.0, 0.5] * 50) > SURE
        (True, True)
        """
        pairs = [(one + two) / 2 for one, two in zip(points[::2], points[1::2], strict=False)]
        if not pairs:
            return 0.0
        mean = sum(pairs) / len(pairs)
        variance = max(LEAST_VARIANCE, sum((x - mean) ** 2 for x in pairs) / len(pairs))
        low, high = share_of(self.low), share_of(self.high)
        return len(pairs) * (high - low) * (2 * mean - low - high) / (2 * variance)

    def verdict(self, points: Sequence[float]) -> str:
        """Returns what the test says: which difference holds, or that more games are needed."""
        ratio = self.ratio(points)
        if abs(ratio) < SURE:
            return f"not decided (log-likelihood ratio {ratio:+.2f} of {SURE:.2f})"
        holds, other = (self.high, self.low) if ratio > 0 else (self.low, self.high)
        return f"{holds:+g} Elo rather than {other:+g}"


@dataclass(frozen=True, slots=True)
class Score:
    """A match from our side. Elo differences are None where all or no points were won.

    Attributes:
      draws_by: how many draws ended how.
    """

    games: int
    wins: int
    draws: int
    losses: int
    broken_off: int
    elo: float | None
    elo_low: float | None
    elo_high: float | None
    time_losses: int
    illegal_moves: int
    crashes: int
    opponent_faults: int
    draws_by: dict[str, int]


def share_of(elo: float) -> float:
    """Returns the share of the points that an Elo difference means.

    >>> share_of(0), round(share_of(191), 2)
    (0.5, 0.75)
    """
    return 1 / (1 + 10 ** (-elo / 400))


def elo_of(share: float) -> float | None:
    """Returns the Elo difference at which a share of the points is expected.

    >>> elo_of(0.5), round(elo_of(0.75) or 0), elo_of(1.0)
    (0.0, 191, None)
    """
    if not 0 < share < 1:
        return None
    return 0.0 - 400 * math.log10(1 / share - 1)


def elo_interval(points: Sequence[float]) -> Ends:
    """Returns the Elo difference, and the ends of its 95 % interval by the spread of the games' points."""
    if not points:
        return None, None, None
    mean = sum(points) / len(points)
    spread = math.sqrt(sum((p - mean) ** 2 for p in points) / max(1, len(points) - 1) / len(points))
    return elo_of(mean), elo_of(mean - SIGNIFICANT * spread), elo_of(mean + SIGNIFICANT * spread)


def table(score: Score) -> str:
    """Returns a score as a few lines."""
    elo = "all points on one side" if score.elo is None else f"{score.elo:+.0f}"
    if score.elo is not None:
        ends = ["?" if end is None else f"{end:+.0f}" for end in (score.elo_low, score.elo_high)]
        elo += f" (95 %: {ends[0]} to {ends[1]})"
    draws = ", ".join(f"{count} {kind}" for kind, count in score.draws_by.items()) or "none"
    return (
        f"games {score.games}: +{score.wins} ={score.draws} -{score.losses}, {score.broken_off} broken off\n"
        f"draws: {draws}\n"
        f"Elo difference {elo}\n"
        f"lost on time {score.time_losses}, illegal moves {score.illegal_moves}, crashes {score.crashes};"
        f" the opponent's {score.opponent_faults}"
    )
