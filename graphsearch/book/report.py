"""What a build says: how far it is while it goes on, and what it did in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildProgress:
    """How far a build is.

    Attributes:
      stage: `loading`, `checking` or `building`. seconds: since it began.
      searched, added, visits, evaluations: by this build.
      positions, leaves: of the book. waiting: items of the queue.
      line: what is searched now, in SAN. ply: of it.
      left: seconds until nothing is left to search, by the branching so far; None if that cannot be said.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RootValue:
    """What a book says of one of its roots.

    Attributes:
      position: FEN. origin: what put it there.
      value: for the side to move, None: not searched yet. best: SAN.
    """

    position: str
    origin: str
    value: float | None
    best: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """What a build did.

    Attributes:
      book: its name. ended: `complete`, `stop`, `time` or `evaluations`.
      positions, leaves: of the book now. searched, added, visits, evaluations, seconds: of this build.
      failed: positions that could not be searched, and why.
      roots: what the book says of them.
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
    failed: tuple[tuple[str, str], ...]
    roots: tuple[RootValue, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch book build`."""
        failed = [{"position": fen, "error": error} for fen, error in self.failed]
        return asdict(self) | {"roots": [asdict(root) for root in self.roots], "failed": failed}


@dataclass(slots=True)
class Counts:
    """What a build has done so far."""

    searched: int = 0
    visits: int = 0
    evaluations: int = 0
    failed: dict[str, str] = field(default_factory=dict)


OnProgress = Callable[[BuildProgress], None]
