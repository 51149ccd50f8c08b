"""A snapshot of a book: its tables, read at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

import chess

from ..errors import InvalidParameterError
from ..store.store import Store
from ..store.tables.books import books
from . import rows
from .positions import BookLine, BookMove, Position, line_of, numbered, ply_of

BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookSnapshot:
    """A whole book.

    Attributes:
      side: `white`, `black` or `both`. config: the TOML text it was last built with.
      positions: in the order of their plies; a move that leads on leads to a larger number. The moves of each
        are in the order of their P.
      numbers: of the positions, by key. roots: numbers of positions.
    """

    name: str
    side: str
    config: str
    positions: Sequence[Position]
    numbers: Mapping[str, int]
    roots: tuple[int, ...]

    def is_own(self, turn: chess.Color) -> bool:
        """Returns whether the moves of this colour are the book's own."""
        return self.side == BOTH or (self.side == "white") == turn

    def edges(self, number: int) -> Iterator[tuple[BookMove, int | None]]:
        """Yields the moves of a position, and the position after each; None: the book does not have it."""
        for move in self.positions[number].moves.values():
            yield move, self.numbers.get(move.child)

    def leads_on(self, number: int, child: int) -> bool:
        """Returns whether a child has a larger ply; where not, walks stop, so that none is a cycle."""
        return self.positions[child].ply > self.positions[number].ply

    def parents(self, roots: Sequence[int]) -> dict[int, tuple[int, BookMove]]:
        """Returns the parent and the move of every position on the shortest line from some roots."""
        found: dict[int, tuple[int, BookMove]] = {}
        seen, front = set(roots), list(roots)
        while front:
            nearer, front = front, []
            for number in nearer:
                for move, child in self.edges(number):
                    if child is not None and child not in seen:
                        seen.add(child)
                        found[child] = (number, move)
                        front.append(child)
        return found

    def line(self, number: int, parents: Mapping[int, tuple[int, BookMove]]) -> BookLine:
        """Returns the line to a position."""
        keys, moves = [self.positions[number].key], list[BookMove]()
        while number in parents:
            number, move = parents[number]
            keys.append(self.positions[number].key)
            moves.append(move)
        return line_of(keys[::-1], moves[::-1])

    def root(self, line: BookLine) -> Position:
        """Returns the position where a line begins."""
        return self.positions[self.numbers[line.keys[0]]]

    def text(self, line: BookLine, *further: str) -> str:
        """Returns a line with move numbers, `2. c4 e6`, and further SANs; without moves the root's FEN."""
        fen, sans = self.root(line).fen, (*line.sans, *further)
        return numbered(sans, ply_of(fen)) if sans else fen


def read_snapshot(store: Store, name: str) -> BookSnapshot:
    """Returns the tables of a book; read within a snapshot of the store, they are of one moment.

    Raises:
      InvalidParameterError: if there is no such book.
      StoreError: if the file cannot be read.
    """
    there = sorted(books(store), key=attrgetter("id"))
    book = next((book for book in there if book.name == name), None)
    if book is None:
        known = f"its books are {', '.join(book.name for book in there)}" if there else "it has none"
        raise InvalidParameterError(f"{store.path} has no book {name!r}; {known}")
    found = rows.read_positions(store, book.id, whole=False)
    positions = sorted(found.values(), key=attrgetter("ply", "key"))
    for position in positions:
        by_p = sorted(position.moves.values(), key=lambda move: (-move.p, move.move))
        position.moves = {move.move: move for move in by_p}
    numbers = {position.key: number for number, position in enumerate(positions)}
    roots = sorted(numbers[key] for key, _, _ in rows.roots(store, book.id) if key in numbers)
    return BookSnapshot(
        name=name,
        side=book.side,
        config=book.config,
        positions=positions,
        numbers=numbers,
        roots=tuple(roots),
    )
