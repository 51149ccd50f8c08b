"""A move of a book: what its row holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BookMove:
    """A move that the book has; values are seen by the side that plays it.

    Attributes:
      move: UCI. san: as people write it. child: key of the position after it. rule: why it was taken in.
      p, n, q: prior, edge N and edge Q (None while n = 0) in the record, as of the position's last search.
      loss, games: when it was taken in: centipawns against the best move, imported games with it.
      visits: searches of the book that went through it.
      since: number of the book's run in which it was taken in.
    """

    move: str
    san: str
    child: str
    rule: str
    p: float
    n: int
    q: float | None
    loss: int | None
    games: int
    since: int
    visits: int = 0
