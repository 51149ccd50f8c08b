"""Progress and report of a build."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..base.answer import picked, plain
from .tree import APART, LEAF, OPEN, BookTree


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildProgress:
    """The progress of a build.

    Attributes:
      stage: `loading`, `checking` or `building`. seconds: since it began.
      searched, added, visits, evaluations: by this build.
      positions, leaves: of the book. waiting: unfinished items of the queue.
      line: the line being searched, in SAN. ply: of its last position.
      left: estimated seconds until nothing is left to search; None: unknown.
    """

    stage: str
    seconds: float
    searched: int
    added: int
    visits: int
    evaluations: int
    positions: int
    leaves: int
    waiting: int
    line: str
    ply: int
    left: float | None


@dataclass(frozen=True, slots=True)
class RootValue:
    """A root of a book and its value.

    Attributes:
      position: FEN. origin: of the root, such as `root 1`.
      value: for the side to move, None: not searched yet. best: SAN.
    """

    position: str
    origin: str
    value: float | None
    best: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """The report of a build.

    Attributes:
      book: its name. ended: `complete`, `stop`, `time` or `evaluations`.
      positions, leaves: of the book now. searched, added, visits, evaluations, seconds: of this build.
      roots: their values now.
    """

    book: str
    ended: str
    positions: int
    leaves: int
    searched: int
    added: int
    visits: int
    evaluations: int
    seconds: float
    roots: tuple[RootValue, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch book build`."""
        return picked(self, "book ended positions leaves searched added visits evaluations seconds") | {
            "roots": plain(self.roots),
        }


@dataclass(slots=True)
class Counts:
    """Counters of a build."""

    searched: int = 0
    visits: int = 0
    evaluations: int = 0


OnProgress = Callable[[BuildProgress], None]


def size(tree: BookTree) -> int:
    """Returns the number of positions of the book, except those in the state `apart`."""
    return sum(position.state != APART for position in tree.positions.values())


def leaves(tree: BookTree) -> int:
    """Returns the number of positions without a search."""
    return sum(position.state == LEAF for position in tree.positions.values())


def searches_left(tree: BookTree, max_ply: int) -> float:
    """Returns the number of remaining searches, estimated from the branching at each ply so far."""
    opened: Counter[int] = Counter()
    waiting: Counter[int] = Counter()
    below: Counter[int] = Counter()
    for position in tree.positions.values():
        opened[position.ply] += position.state == OPEN
        waiting[position.ply] += position.state == LEAF
        below[position.ply] += position.state in (LEAF, OPEN)
    total, ratio = 0.0, {0: 1.0, 1: 1.0}
    for ply in range(min(below, default=0), max_ply):
        if opened[ply]:
            ratio[ply & 1] = below[ply + 1] / opened[ply]
    arriving = 0.0
    for ply in range(min(below, default=0), max_ply):
        here = waiting[ply] + arriving
        total += here
        own = below[ply + 1] / opened[ply] if opened[ply] else ratio[ply & 1]
        arriving = here * own
    return total
