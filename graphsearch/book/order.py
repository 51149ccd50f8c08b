"""Policies of expansion: the choice of the next leaf.

- `dropout`: Lincke's drop-out expansion (Strategies for the Automatic Construction of Opening Books, 2000). A
  leaf costs a ply for every move that leads to it, and `alpha` plies for every pawn that these moves lose.
- `cost`: as KataGo's book builder. Every move has a cost by itself, by its loss, by its -ln P, and by the
  number of moves that its position has in the book before it.
- `puct`: from the root, as in a search: every search of a leaf is a visit of the moves that lead to it.

The first two choose the leaf of the cheapest path, computed from the leaves upwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..search.puct import exploration_term, score
from .config import Expansion
from .positions import BookMove

LEAST_P = 1e-6
Step = tuple[BookMove, float, float]  # a move, its cost, its child's reach


class Order(Protocol):
    """A policy of expansion."""

    @property
    def counts_visits(self) -> bool:
        """Whether roots take turns, by their searches so far."""

    def cost(self, p: float, loss: float, rank: int) -> float:
        """Returns the cost of a move by prior, loss in pawns, and number of moves in the book before it."""

    def choose(
        self, steps: Sequence[Step], values: Mapping[str, float | None], visits: int, q: float
    ) -> BookMove:
        """Returns the next move on the path to a leaf.

        Args:
          steps: the moves with a leaf behind them, at least one.
          values: of the moves, for the side to move. visits: searches here and below.
          q: the position's value.
        """


@dataclass(frozen=True, slots=True)
class CheapestWay:
    """Chooses the leaf of the cheapest path."""

    per_ply: float
    per_loss: float
    per_log_p: float = 0.0
    per_move: float = 0.0
    counts_visits: bool = False

    def cost(self, p: float, loss: float, rank: int) -> float:
        """Returns `per_ply + per_loss * loss - per_log_p * ln p + per_move * rank`."""
        return (
            self.per_ply
            + self.per_loss * loss
            - self.per_log_p * math.log(max(p, LEAST_P))
            + (self.per_move * rank)
        )

    def choose(
        self, steps: Sequence[Step], values: Mapping[str, float | None], visits: int, q: float
    ) -> BookMove:
        """Returns the first move of the cheapest path; of equal ones the likelier."""
        return min(steps, key=lambda step: (step[1] + step[2], -step[0].p, step[0].move))[0]


@dataclass(frozen=True, slots=True)
class Puct:
    """Chooses the move with the largest Q + U; a visit is a search of the book."""

    cpuct: float
    counts_visits: bool = True

    def cost(self, p: float, loss: float, rank: int) -> float:
        """Returns -ln p, for lists of leaves; the choice does not depend on it."""
        return -math.log(max(p, LEAST_P))

    def choose(
        self, steps: Sequence[Step], values: Mapping[str, float | None], visits: int, q: float
    ) -> BookMove:
        """Returns the move with the largest Q + U; an unknown Q is that of the position."""
        term = exploration_term(visits, self.cpuct, 1.0, 0.0)

        def rank(step: Step) -> tuple[float, float, str]:
            move = step[0]
            value = values[move.move]
            return (-score(q if value is None else value, term * move.p, 1 + move.visits), -move.p, move.move)

        return min(steps, key=rank)[0]


def order_of(expansion: Expansion) -> Order:
    """Returns the policy that a configuration names."""
    if expansion.policy == "puct":
        return Puct(expansion.cpuct)
    if expansion.policy == "dropout":
        return CheapestWay(1.0, expansion.alpha)
    return CheapestWay(expansion.per_ply, expansion.per_loss, expansion.per_log_p, expansion.per_move)
