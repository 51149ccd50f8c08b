"""Limits of a mate search, and the state and the next questions of one side."""

from __future__ import annotations

import math
from dataclasses import dataclass

import chess

from ...base.errors import InvalidParameterError
from .table_kernel import ANY_LENGTH

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


# further lengths to ask for while no mate is known, in moves beyond the shortest open length
LENGTHS_AHEAD = (1, 2, 4, 7, 12)


@dataclass(slots=True)
class Side:
    """The search for a mate by one side.

    Attributes:
      attacks: whether the side is to move at the root.
      excluded: moves within which it cannot mate. found: moves of the shortest mate known, None without one.
      most: the longest mate to look for, in moves. closed: whether its questions have ended.
      lost_any: whether a search without a length limit ended without a mate.
      weight: share of a round's visits that its questions get, in (0, 1].
    """

    attacks: bool
    most: int = MOST_MOVES
    excluded: int = 0
    found: int | None = None
    closed: bool = False
    lost_any: bool = False
    weight: float = 1.0

    @property
    def is_shortest(self) -> bool:
        """Whether the mate found is proven to be the shortest."""
        return self.found is not None and self.excluded >= self.found - 1

    @property
    def is_done(self) -> bool:
        """Whether no question is left."""
        return self.closed or self.is_shortest or (self.found is None and self.excluded >= self.most)

    def plies(self, moves: int) -> int:
        """Returns the plies of a mate in so many moves.

        >>> Side(True).plies(3), Side(False).plies(3)
        (5, 6)
        """
        return 2 * moves - 1 if self.attacks else 2 * moves

    def moves(self, plies: int) -> int:
        """Returns the moves of a mate of so many plies."""
        return (plies + 1) // 2

    def questions(self) -> list[tuple[int, float]]:
        """Returns (plies, share of the round's visits) of the questions beyond the shortest open length.

        >>> Side(True, excluded=2, found=6).questions()
        [(9, 1.0)]
        >>> Side(True, most=3).questions()
        [(3, 0.5), (5, 0.5)]
        """
        if self.found is not None:
            return [(self.plies(self.found - 1), 1.0)]
        lengths = [self.excluded + 1 + more for more in LENGTHS_AHEAD]
        if self.most < MOST_MOVES and self.most not in lengths:
            lengths.append(self.most)
        asked = [(self.plies(moves), 0.5) for moves in lengths if moves <= self.most]
        if self.found is None and self.most == MOST_MOVES and not self.lost_any:
            asked.append((ANY_LENGTH, 0.5))
        return asked

    def note(self, plies: int, *, proven: int | None, disproved: bool) -> None:
        """Records an answer: the length of a proof, or that there is none within `plies`."""
        if proven is not None:
            moves = self.moves(proven)
            if moves <= self.most:
                self.found = moves if self.found is None else min(self.found, moves)
        elif disproved and plies == ANY_LENGTH:
            self.lost_any = True
        elif disproved:
            self.excluded = max(self.excluded, self.moves(plies))


def mating_move(board: chess.Board) -> chess.Move | None:
    """Returns a move that mates at once, at any halfmove clock; None without one."""
    for move in board.legal_moves:
        board.push(move)
        mates = board.is_checkmate()
        board.pop()
        if mates:
            return move
    return None
