"""A book as it stands in its tables, read at once: positions by number, in the order of their plies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import chess

from ..errors import InvalidParameterError
from ..store.file import sql_errors
from ..store.store import Store
from ..store.tables.books import books

LEAF, OPEN, END = "leaf", "open", "end"
BOTH = "both"


@dataclass(frozen=True, slots=True)
class Edge:
    """A move of the book.

    Attributes:
      move, san: UCI and SAN. child: number of the position after it; None: the book does not have it.
      p: its prior when it was taken in. value: its value then, for the side that plays it; None if unknown.
      forward: whether the position after it has a larger ply; where not, walks stop, so that none is a cycle.
    """

    move: str
    san: str
    child: int | None
    p: float
    value: float | None
    forward: bool


@dataclass(frozen=True, slots=True)
class Position:
    """A position of the book; the columns of `book_position`, and its moves.

    Attributes:
      turn: whose move it is.
    """

    key: str
    fen: str
    ply: int
    state: str
    value: float | None
    outside: float | None
    outside_move: str | None
    priority: float | None
    edges: tuple[Edge, ...]

    @property
    def turn(self) -> chess.Color:
        """The side to move."""
        return self.fen.split(" ", 2)[1] == "w"


@dataclass(frozen=True, slots=True)
class Way:
    """How a position of the book is reached: the moves from a root, UCI and SAN."""

    root: int
    moves: tuple[str, ...]
    sans: tuple[str, ...]

    def plus(self, move: str, san: str) -> Way:
        """Returns the way with one more move."""
        return Way(self.root, (*self.moves, move), (*self.sans, san))


@dataclass(frozen=True, slots=True)
class Shape:
    """A whole book.

    Attributes:
      side: `white`, `black` or `both`. config: the TOML text it was last built with.
      positions: in the order of their plies; an edge that is `forward` leads to a larger number.
      roots: numbers of positions.
    """

    name: str
    side: str
    config: str
    positions: Sequence[Position]
    roots: tuple[int, ...]

    def is_own(self, turn: chess.Color) -> bool:
        """Returns whether the moves of this colour are the book's own."""
        return self.side == BOTH or (self.side == "white") == turn

    def parents(self, roots: Sequence[int]) -> dict[int, tuple[int, Edge]]:
        """Returns, of every position that some roots lead to, where the shortest way there comes from."""
        found: dict[int, tuple[int, Edge]] = {}
        seen, front = set(roots), list(roots)
        while front:
            nearer, front = front, []
            for number in nearer:
                for edge in self.positions[number].edges:
                    if edge.child is not None and edge.child not in seen:
                        seen.add(edge.child)
                        found[edge.child] = (number, edge)
                        front.append(edge.child)
        return found

    def way(self, number: int, parents: dict[int, tuple[int, Edge]]) -> Way:
        """Returns the way to a position."""
        edges: list[Edge] = []
        while number in parents:
            number, edge = parents[number]
            edges.append(edge)
        edges.reverse()
        return Way(number, tuple(edge.move for edge in edges), tuple(edge.san for edge in edges))

    def text(self, way: Way) -> str:
        """Returns a way as people write it: `2. c4 e6`; the root's FEN where it has no moves."""
        root = self.positions[way.root].fen
        return numbered(root, way.sans) if way.sans else root


def numbered(fen: str, sans: Sequence[str]) -> str:
    """Returns moves in SAN with the numbers that they have from a position on.

    >>> numbered("4k3/8/8/8/8/8/8/4K3 b - - 0 7", ["Kd7", "Ke2", "Ke6"])
    '7... Kd7 8. Ke2 Ke6'
    """
    fields = fen.split()
    number, white = int(fields[5]), fields[1] == "w"
    words = []
    for place, san in enumerate(sans):
        if white or not place:
            words.append(f"{number}." if white else f"{number}...")
        words.append(san)
        number += not white
        white = not white
    return " ".join(words)


def read_shape(store: Store, name: str) -> Shape:
    """Returns a book as it stands in the tables; within a snapshot of the store it is of one moment.

    Raises:
      InvalidParameterError: if there is no such book.
      StoreError: if the file cannot be read.
    """
    there = sorted(books(store), key=attrgetter("id"))
    row = next((row for row in there if row.name == name), None)
    if row is None:
        known = f"its books are {', '.join(row.name for row in there)}" if there else "it has none"
        raise InvalidParameterError(f"{store.path} has no book {name!r}; {known}")
    book, side, config = row.id, row.side, row.config
    with sql_errors(store.path, "read it"):
        found = store.connection.execute(
            "SELECT key, fen, ply, state, value, outside, outside_move, priority FROM book_position"
            " WHERE book = ? ORDER BY ply, key",
            (book,),
        ).fetchall()
        places = {columns[0]: (number, columns[2]) for number, columns in enumerate(found)}
        edges = _edges(store, book, places)
        positions = [
            Position(
                key=key,
                fen=fen,
                ply=ply,
                state=state,
                value=value,
                outside=outside,
                outside_move=move,
                priority=priority,
                edges=tuple(edges[key]),
            )
            for key, fen, ply, state, value, outside, move, priority in found
        ]
        rows = store.connection.execute("SELECT key FROM book_root WHERE book = ?", (book,))
        roots = [places[key][0] for (key,) in rows if key in places]
    return Shape(name, side, config, positions, tuple(sorted(roots)))


def _edges(store: Store, book: int, places: dict[str, tuple[int, int]]) -> dict[str, list[Edge]]:
    found: dict[str, list[Edge]] = defaultdict(list)
    rows = store.connection.execute(
        "SELECT key, move, san, child, p, value FROM book_move WHERE book = ? ORDER BY key, p DESC, move",
        (book,),
    )
    for key, move, san, child, p, value in rows:
        below = places.get(child)
        above = places.get(key)
        if above is not None:
            number = None if below is None else below[0]
            forward = below is not None and below[1] > above[1]
            found[key].append(Edge(move=move, san=san, child=number, p=p, value=value, forward=forward))
    return found
