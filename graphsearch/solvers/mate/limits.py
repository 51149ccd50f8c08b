"""Limits of a mate search."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import InvalidParameterError

MOST_MOVES = 124  # of the longest mate to look for: two plies each fit a path of the kernels (MOST_PLIES)
DEFAULT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class MateLimits:
    """Limits that end a mate search; None is no limit.

    Attributes:
      visits: nodes to expand, >= 1. seconds: wall time, > 0.
      moves: of the longest mate to look for, 1 to MOST_MOVES.
    """

    visits: int | None = None
    seconds: float | None = DEFAULT_SECONDS
    moves: int | None = None

    def __post_init__(self) -> None:
        if self.visits is not None and self.visits < 1:
            raise InvalidParameterError(f"visits must be 1 or more, not {self.visits}")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise InvalidParameterError(f"seconds must be above 0, not {self.seconds}")
        if self.moves is not None and not 1 <= self.moves <= MOST_MOVES:
            raise InvalidParameterError(f"moves must be from 1 to {MOST_MOVES}, not {self.moves}")
