"""Positions and moves of a book, with the fields of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import chess

LEAF, OPEN, END, APART = "leaf", "open", "end", "apart"


@dataclass(slots=True, kw_only=True)
class BookMove:
    """A move of the book; values are seen by the side that plays it.

    Attributes:
      move: UCI. san: SAN. child: key of the position after it. rule: by which it was added.
      p, n, q: prior, edge N and edge Q (None while n = 0) in the record, as of the position's last search.
      value: of the book when its row was last written; None if it was unknown then.
      loss, games: when it was added: centipawns against the best move, imported games with it.
      visits: searches of leaves below it.
      since: number of the book's run that added it.
    """

    move: str
    san: str
    child: str
    rule: str
    p: float
    n: int
    q: float | None
    value: float | None = None
    loss: int | None
    games: int
    since: int
    visits: int = 0


@dataclass(slots=True, kw_only=True)
class Position:
    """A position of the book; values are seen by the side to move.

    Attributes:
      key: as `key_text` has it. fen: the position. ply: fewest half-moves to it.
      state: `leaf`, `open`, `end`, or `apart` while no root leads to it.
      searches: number of searches to the limit. n: node N after the last one.
      value: of the book; None before the first search.
      outside, outside_move: best value among visited moves outside the book, and that move, or None.
      rest: V + sum n * E over the moves outside the book.
      priority: of a leaf when a build last ended, the smaller the sooner; None: none.
      since: number of the book's run that last searched it, or added it.
      moves: those of the book, by UCI move. parents: keys of positions with a move to this one.
      reach: cost of the cheapest path to a leaf that may be searched; None: there is none.
    """

    key: str
    fen: str
    ply: int
    since: int
    state: str = LEAF
    searches: int = 0
    n: int = 0
    value: float | None = None
    outside: float | None = None
    outside_move: str | None = None
    rest: float = 0.0
    priority: float | None = None
    moves: dict[str, BookMove] = field(default_factory=dict)
    parents: set[str] = field(default_factory=set)
    reach: float | None = None

    @property
    def turn(self) -> chess.Color:
        """The side to move."""
        return self.fen.split(" ", 2)[1] == "w"


@dataclass(frozen=True, slots=True)
class BookLine:
    """A line from a root to a position of the book.

    Attributes:
      keys: of the positions, the root first. moves, sans: the moves between, UCI and SAN.
    """

    keys: tuple[str, ...]
    moves: tuple[str, ...] = ()
    sans: tuple[str, ...] = ()


def line_of(keys: Sequence[str], moves: Sequence[BookMove]) -> BookLine:
    """Returns the line of positions, given by key, and the moves between them."""
    return BookLine(tuple(keys), tuple(move.move for move in moves), tuple(move.san for move in moves))
