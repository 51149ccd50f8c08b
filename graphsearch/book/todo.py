"""Candidates for the queue of a book, ranked: leaves, gaps and bottlenecks.

gaps.py           replies without an answer
bottlenecks.py    the fewest leaves on which the choice of a root's move depends
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, get_args

import chess

from ..base.answer import Answer
from ..base.errors import InvalidParameterError
from ..position.board import board_of
from ..position.lines import numbered, ply_of
from ..store.store import Store
from ..store.tables.books import books
from .bottlenecks import Bottleneck, Change, find_bottlenecks
from .gaps import Gap, find_gaps
from .queue import NewItem
from .rows import BookSnapshot, read_snapshot
from .tree import LEAF, BookLine, BookMove

Kind = Literal["leaves", "gaps", "bottlenecks"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MIN_P, MIN_GAMES = 0.05, 20  # least P or games of a gap
MOST_CHANGE = 2.0  # of a value in [-1, 1]


@dataclass(frozen=True, slots=True)
class LinePosition:
    """A position of the book, or a move there, with the line from a root.

    Attributes:
      position: FEN of the position, or of the one before the move. ply: of the position.
      move: UCI of a move outside the book; None for the position itself.
      root: FEN. moves: UCI, from the root to the position. line: those and the move, with move numbers.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Target(Answer):
    """A row about one position or move."""

    target: LinePosition

    @property
    def positions(self) -> tuple[LinePosition, ...]:
        """The positions to search."""
        return (self.target,)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsearchedLeaf(_Target):
    """A position without a search; `priority` is the builder's, the smaller the sooner; None: none."""

    json_keys = "priority *target"

    priority: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingReply(_Target):
    """A gap; `reach`, `p` and `games` are those of `gaps.Gap`."""

    json_keys = "reach p games *target"

    reach: float
    p: float | None
    games: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedLeaf(_Target):
    """A leaf of a bottleneck; values are seen by the side to move at its position."""

    json_keys = "value needed *target"

    value: float
    needed: float


@dataclass(frozen=True, slots=True)
class Rivalry(Answer):
    """A bottleneck: at a root, `best` is better than `rival` while these leaves keep their values.

    Attributes:
      root: FEN. best, rival: UCI; the SANs have move numbers.
      outside: whether the rival is a move outside the book.
      best_value, rival_value: minimax, for the side to move at the root.
      change: the sum of the necessary changes of the leaves' values.
    """

    json_keys = "root best best_value rival rival_value outside change leaves"

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
    def positions(self) -> tuple[LinePosition, ...]:
        """The positions to search."""
        return tuple(leaf.target for leaf in self.leaves)


Row = UnsearchedLeaf | MissingReply | Rivalry


@dataclass(frozen=True, slots=True)
class Todo(Answer):
    """Candidates for the queue of a book.

    Attributes:
      rows: the most urgent first.
      notes: for the user.
    """

    json_keys = "book kind items=rows"

    book: str
    kind: Kind
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def items(self) -> list[NewItem]:
        """Returns the items for the queue in this order, each position or line once."""
        origin = f"todo: {self.kind}"
        found = [target.item(origin) for row in self.rows for target in row.positions]
        return list(dict.fromkeys(found))


def book_names(path: str | os.PathLike[str]) -> list[str]:
    """Returns the names of the books of a file.

    Raises:
      StoreError: if it cannot be read.
    """
    with Store.open(path, read_only=True) as store:
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
    """Returns candidates for the queue of a book, read-only, even during a build.

    Args:
      kind: `leaves`: positions without a search. `gaps`: likely or popular replies without an answer.
        `bottlenecks`: the fewest leaves on which the choice of a root's move depends.
      top: largest number of rows; 0: all.
      min_p, min_games: of gaps, the least P or the least number of games of a reply.
      change: of bottlenecks, the largest change of a leaf's value; 2 allows any value.

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
    with Store.open(path, read_only=True) as store, store.snapshot():
        snapshot = read_snapshot(store, name)
        if kind == "leaves":
            return _leaves(snapshot, top)
        if kind == "gaps":
            return _gaps(store, snapshot, min_p, min_games, top)
        return _bottlenecks(snapshot, change, top)


def _line_position(
    snapshot: BookSnapshot, number: int, line: BookLine, move: str | None = None, san: str | None = None
) -> LinePosition:
    position = snapshot.positions[number]
    text = snapshot.text(line, san) if move and san else snapshot.text(line)
    return LinePosition(position.fen, position.ply, move, snapshot.root(line).fen, line.moves, text)


def _leaves(snapshot: BookSnapshot, top: int) -> Todo:
    def rank(number: int) -> tuple[bool, float, int]:
        priority = snapshot.positions[number].priority
        return (priority is None, 0.0 if priority is None else priority, number)

    parents = snapshot.parents(snapshot.roots)
    # other positions lost their root when a move was excluded or a root removed
    reached = {*snapshot.roots, *parents}
    found = [number for number in reached if snapshot.positions[number].state == LEAF]
    rows = []
    for number in sorted(found, key=rank)[: top or None]:
        target = _line_position(snapshot, number, snapshot.line(number, parents))
        rows.append(UnsearchedLeaf(target=target, priority=snapshot.positions[number].priority))
    return Todo(snapshot.name, "leaves", tuple(rows))


def _gaps(store: Store, snapshot: BookSnapshot, min_p: float, min_games: int, top: int) -> Todo:
    found, parents = find_gaps(store, snapshot, min_p=min_p, min_games=min_games, top=top)

    def row(gap: Gap) -> MissingReply:
        line = snapshot.line(gap.position, parents)
        target = _line_position(snapshot, gap.position, line, gap.reply, gap.san)
        return MissingReply(target=target, reach=gap.reach, p=gap.p, games=gap.games)

    return Todo(snapshot.name, "gaps", tuple(row(gap) for gap in found))


def _bottlenecks(snapshot: BookSnapshot, change: float, top: int) -> Todo:
    found = find_bottlenecks(snapshot, change=change, top=top)
    parents = {root: snapshot.parents([root]) for root in {row.root for row in found.rows}}
    notes = []
    if found.safe:
        notes.append(f"{found.safe} rivals of a root's best move are out of reach, or need too many leaves")
    if found.alone:
        notes.append(f"{found.alone} roots have no two moves to compare")
    rows = tuple(_rivalry(snapshot, row, parents[row.root]) for row in found.rows)
    return Todo(snapshot.name, "bottlenecks", rows, tuple(notes))


def _rivalry(snapshot: BookSnapshot, row: Bottleneck, parents: dict[int, tuple[int, BookMove]]) -> Rivalry:
    fen = snapshot.positions[row.root].fen
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
        leaves=tuple(_changed(snapshot, change, parents) for change in row.changes),
    )


def _changed(snapshot: BookSnapshot, change: Change, parents: dict[int, tuple[int, BookMove]]) -> ChangedLeaf:
    position = snapshot.positions[change.position]
    move = position.outside_move if change.outside else None
    san = _san(position.fen, move) if move else None
    target = _line_position(snapshot, change.position, snapshot.line(change.position, parents), move, san)
    return ChangedLeaf(target=target, value=change.value, needed=change.needed)


def _san(fen: str, move: str) -> str:
    return board_of(fen).san(chess.Move.from_uci(move))
