"""What a book needs next, each kind ranked: leaves, gaps and bottlenecks; fit to be put into the queue.

shape.py        the tables of a book, read at once
gaps.py         replies without an answer
conspiracy.py, bottlenecks.py     the fewest leaves that carry the choice of a root's move
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, get_args

from ..errors import InvalidParameterError
from ..position.board import board_of
from ..store.sharded.files import open_to_read
from ..store.store import Store
from ..store.tables.books import books
from .bottlenecks import Bottleneck, Change, find_bottlenecks
from .gaps import Gap, find_gaps
from .positions import LEAF, BookLine, BookMove, numbered, ply_of
from .queue import NewItem
from .shape import Shape, read_shape

Kind = Literal["leaves", "gaps", "bottlenecks"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MIN_P, MIN_GAMES = 0.05, 20  # from which on a reply without an answer is a gap
MOST_CHANGE = 2.0  # of a value in [-1, 1]


@dataclass(frozen=True, slots=True)
class Place:
    """A position of the book, or a move there, and how a root leads to it.

    Attributes:
      position: FEN of the position, or of that before the move. ply: its.
      move: UCI, None for the position itself; of a move that the book does not have.
      root: FEN. moves: UCI, from the root to the position. line: those, and the move, as people write them.
    """

    position: str
    ply: int
    move: str | None
    root: str
    moves: tuple[str, ...]
    line: str

    def item(self, origin: str) -> NewItem:
        """Returns the item for the queue: the position, or the line of the move."""
        return NewItem(self.position, (self.move,) if self.move else (), origin)

    def as_dict(self) -> dict[str, Any]:
        """Returns what the objects of `book todo --json` have in common."""
        return {
            "position": self.position,
            "ply": self.ply,
            "move": self.move,
            "root": self.root,
            "moves": list(self.moves),
            "line": self.line,
        }


@dataclass(frozen=True, slots=True)
class UnsearchedLeaf:
    """A position without a search; `priority` is the builder's, the smaller the sooner; None: it has none."""

    place: Place
    priority: float | None

    @property
    def places(self) -> tuple[Place, ...]:
        """What there is to look at."""
        return (self.place,)

    def as_dict(self) -> dict[str, Any]:
        """Returns the object of `--json`."""
        return {"priority": self.priority, **self.place.as_dict()}


@dataclass(frozen=True, slots=True)
class MissingReply:
    """A gap; `reach`, `p` and `games` are those of `gaps.Gap`."""

    place: Place
    reach: float
    p: float | None
    games: int

    @property
    def places(self) -> tuple[Place, ...]:
        """What there is to look at."""
        return (self.place,)

    def as_dict(self) -> dict[str, Any]:
        """Returns the object of `--json`."""
        return {"reach": self.reach, "p": self.p, "games": self.games, **self.place.as_dict()}


@dataclass(frozen=True, slots=True)
class ChangedLeaf:
    """A leaf of a bottleneck; values are seen by the side to move at its position."""

    place: Place
    value: float
    needed: float

    def as_dict(self) -> dict[str, Any]:
        """Returns the object of `--json`."""
        return {"value": self.value, "needed": self.needed, **self.place.as_dict()}


@dataclass(frozen=True, slots=True)
class Rivalry:
    """A bottleneck: at a root, `best` is better than `rival` as long as these leaves are what they are.

    Attributes:
      root: FEN. best, rival: UCI; the SANs as people write them, with the move number.
      outside: whether the rival is a move outside the book.
      best_value, rival_value: minimax, for the side to move at the root.
      change: the sum of what the leaves' values would have to change by.
    """

    root: str
    best: str
    best_san: str
    best_value: float
    rival: str
    rival_san: str
    rival_value: float
    outside: bool
    change: float
    leaves: tuple[ChangedLeaf, ...]

    @property
    def places(self) -> tuple[Place, ...]:
        """What there is to look at."""
        return tuple(leaf.place for leaf in self.leaves)

    def as_dict(self) -> dict[str, Any]:
        """Returns the object of `--json`."""
        return {
            "root": self.root,
            "best": self.best,
            "best_value": self.best_value,
            "rival": self.rival,
            "rival_value": self.rival_value,
            "outside": self.outside,
            "change": self.change,
            "leaves": [leaf.as_dict() for leaf in self.leaves],
        }


Row = UnsearchedLeaf | MissingReply | Rivalry


@dataclass(frozen=True, slots=True)
class Todo:
    """What a book needs next.

    Attributes:
      rows: the first is the most urgent one.
      notes: what the person should know.
    """

    book: str
    kind: Kind
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def items(self) -> list[NewItem]:
        """Returns what goes into the queue, in this order, each position or line once."""
        origin = f"todo: {self.kind}"
        found = [place.item(origin) for row in self.rows for place in row.places]
        return list(dict.fromkeys(found))

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch book todo`."""
        return {"book": self.book, "kind": self.kind, "items": [row.as_dict() for row in self.rows]}


def book_names(path: str | os.PathLike[str]) -> list[str]:
    """Returns the names of the books of a file.

    Raises:
      StoreError: if it cannot be read.
    """
    with open_to_read(path) as store:
        return [book.name for book in sorted(books(store), key=attrgetter("id"))]


def todo(
    path: str | os.PathLike[str],
    name: str,
    kind: Kind = "leaves",
    *,
    top: int = 20,
    min_p: float = MIN_P,
    min_games: int = MIN_GAMES,
    change: float = MOST_CHANGE,
) -> Todo:
    """Returns what a book needs next; the file is only read, also while the book is built.

    Args:
      kind: `leaves`: positions without a search. `gaps`: likely or popular replies without an answer.
        `bottlenecks`: the fewest leaves that carry the choice of a root's move.
      top: at most so many rows; 0: all.
      min_p, min_games: of gaps, from which P on or from how many games on a reply is one.
      change: of bottlenecks, how far the value of a leaf may move; 2 lets it move to either end.

    Raises:
      InvalidParameterError: for an unknown book or kind, or a number out of range.
      StoreError: if the file cannot be read.
    """
    if kind not in KINDS:
        raise InvalidParameterError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if not 0 < change <= MOST_CHANGE:
        raise InvalidParameterError(f"the change of a value must be above 0, at most 2, not {change:g}")
    if not 0 <= min_p <= 1 or min_games < 1 or top < 0:
        raise InvalidParameterError("P is from 0 to 1, games are 1 or more, rows 0 (all) or more")
    with open_to_read(path) as store, store.snapshot():
        shape = read_shape(store, name)
        if kind == "leaves":
            return _leaves(shape, top)
        if kind == "gaps":
            return _gaps(store, shape, min_p, min_games, top)
        return _bottlenecks(shape, change, top)


def _place(
    shape: Shape, number: int, line: BookLine, move: str | None = None, san: str | None = None
) -> Place:
    position = shape.positions[number]
    text = shape.text(line, san) if move and san else shape.text(line)
    return Place(
        position=position.fen,
        ply=position.ply,
        move=move,
        root=shape.root(line).fen,
        moves=line.moves,
        line=text,
    )


def _leaves(shape: Shape, top: int) -> Todo:
    def rank(number: int) -> tuple[bool, float, int]:
        priority = shape.positions[number].priority
        return (priority is None, 0.0 if priority is None else priority, number)

    parents = shape.parents(shape.roots)
    reached = {*shape.roots, *parents}  # of the others a move before was excluded, or their root taken away
    found = [number for number in reached if shape.positions[number].state == LEAF]
    rows = [
        UnsearchedLeaf(_place(shape, number, shape.line(number, parents)), shape.positions[number].priority)
        for number in sorted(found, key=rank)[: top or None]
    ]
    return Todo(shape.name, "leaves", tuple(rows))


def _gaps(store: Store, shape: Shape, min_p: float, min_games: int, top: int) -> Todo:
    found = find_gaps(store, shape, min_p=min_p, min_games=min_games, top=top)

    def row(gap: Gap) -> MissingReply:
        line = shape.line(gap.position, found.parents)
        return MissingReply(
            _place(shape, gap.position, line, gap.reply, gap.san), gap.reach, gap.p, gap.games
        )

    return Todo(shape.name, "gaps", tuple(row(gap) for gap in found.gaps))


def _bottlenecks(shape: Shape, change: float, top: int) -> Todo:
    found = find_bottlenecks(shape, change=change, top=top)
    parents = {root: shape.parents([root]) for root in {row.root for row in found.rows}}
    notes = []
    if found.safe:
        notes.append(f"{found.safe} rivals of a root's best move are out of reach, or need too many leaves")
    if found.alone:
        notes.append(f"{found.alone} roots have no two moves to compare")
    rows = tuple(_verdict(shape, row, parents[row.root]) for row in found.rows)
    return Todo(shape.name, "bottlenecks", rows, tuple(notes))


def _verdict(shape: Shape, row: Bottleneck, parents: dict[int, tuple[int, BookMove]]) -> Rivalry:
    fen = shape.positions[row.root].fen
    return Rivalry(
        root=fen,
        best=row.best.move,
        best_san=numbered([row.best.san], ply_of(fen)),
        best_value=row.best.value,
        rival=row.rival.move,
        rival_san=numbered([row.rival.san or _san(fen, row.rival.move)], ply_of(fen)),
        rival_value=row.rival.value,
        outside=row.rival.outside,
        change=row.total,
        leaves=tuple(_changed(shape, change, parents) for change in row.changes),
    )


def _changed(shape: Shape, change: Change, parents: dict[int, tuple[int, BookMove]]) -> ChangedLeaf:
    position = shape.positions[change.position]
    move = position.outside_move if change.outside else None
    san = _san(position.fen, move) if move else None
    place = _place(shape, change.position, shape.line(change.position, parents), move, san)
    return ChangedLeaf(place, change.value, change.needed)


def _san(fen: str, move: str) -> str:
    import chess

    return board_of(fen).san(chess.Move.from_uci(move))
