"""Depth, window and limits of a fixed-depth search. Pure."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import InvalidParameterError
from ...limits import WHOLE
from ...position.scores import FAR
from ...store.record import transposition_layout

MOST_DEPTH = transposition_layout.MOST_DEPTH  # plies; an entry has no more
MOST_NODES = WHOLE.most


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthLimits:
    """How deep a search goes, and the limits that end it earlier.

    Attributes:
      depth: plies of full width, 1 to 126.
      window: alpha and beta of the last iteration, thousandths of a pawn for the side to move; None: all.
      nodes: ends the search after so many. seconds: or after so long, > 0.
    """

    depth: int
    window: tuple[int, int] | None = None
    nodes: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.depth <= MOST_DEPTH:
            raise InvalidParameterError(f"depth is {self.depth}, expected 1 to {MOST_DEPTH} plies")
        if self.window is not None and not -FAR <= self.window[0] < self.window[1] <= FAR:
            low, high = (bound / 10 for bound in self.window)
            raise InvalidParameterError(
                f"window is {low:g} {high:g}, expected two values from {-FAR // 10} to {FAR // 10},"
                " in centipawns, at least 0.1 apart, the lower one first"
            )
        if self.nodes is not None and not 1 <= self.nodes <= MOST_NODES:
            raise InvalidParameterError(f"nodes is {self.nodes}, expected 1 to 10**18")
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise InvalidParameterError(f"seconds is {self.seconds}, expected a number above 0")

    @property
    def last_window(self) -> tuple[int, int]:
        """The window of the last iteration."""
        return self.window or (-FAR, FAR)

    def as_dict(self) -> dict[str, Any]:
        """Returns the limits that are set, as stored with every run."""
        return {name: value for name, value in asdict(self).items() if value is not None}
