"""Candidates for the queue of a book, ranked: leaves, and gaps (replies without an answer)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from operator import attrgetter, itemgetter
from typing import Literal, get_args

from ..base.answer import Answer
from ..base.errors import BookConfigError, InvalidParameterError
from ..position.board import board_of, legal_moves
from ..query.games import reply_share
from ..store.store import Store
from ..store.tables.books import books
from ..store.tables.games import counts
from .config import BOTH, is_own_turn, stored_config
from .queue import NewItem
from .rows import StoredBook, read_book
from .tree import LEAF, OPEN, BookLine, Position

Kind = Literal["leaves", "gaps"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MIN_P, MIN_GAMES = 0.05, 20  # least P or games of a gap


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
class UnsearchedLeaf(Answer):
    """A position without a search; `priority` is the builder's, the smaller the sooner; None: none."""

    json_keys = "priority *target"

    target: LinePosition
    priority: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingReply(Answer):
    """A gap: a reply that the book lacks, or an own position without a move.

    Attributes:
      reach: probability of the line with the reply: the largest product along a line from a root of the
        replies' shares of games, or P where fewer than 20 games are known; own moves count 1.
      p: prior of the reply in the graph; None: the graph does not know the position.
      games: imported games with the reply.
    """

    json_keys = "reach p games *target"

    target: LinePosition
    reach: float
    p: float | None
    games: int


Row = UnsearchedLeaf | MissingReply


@dataclass(frozen=True, slots=True)
class Todo(Answer):
    """Candidates for the queue of a book.

    Attributes:
      rows: the most urgent first.
    """

    json_keys = "book kind items=rows"

    book: str
    kind: Kind
    rows: tuple[Row, ...]

    def items(self) -> list[NewItem]:
        """Returns the items for the queue in this order, each position or line once."""
        origin = f"todo: {self.kind}"
        return list(dict.fromkeys(row.target.item(origin) for row in self.rows))


def book_names(path: str | os.PathLike[str]) -> list[str]:
    """Returns the names of the books of a file.

    Raises:
      StoreError: if it cannot be read.
    """
    with Store.open(path, read_only=True) as store:
        return [book.name for book in sorted(books(store), key=attrgetter("id"))]


def todo(
    path: str | os.PathLike[str],
    name: str | None,
    kind: Kind = "leaves",
    *,
    top: int = 20,
    min_p: float = MIN_P,
    min_games: int = MIN_GAMES,
) -> Todo:
    """Returns candidates for the queue of a book, read-only, even during a build.

    Args:
      name: of the book; None: the only one of the file.
      kind: `leaves`: positions without a search. `gaps`: likely or popular replies without an answer.
      top: largest number of rows; 0: all.
      min_p, min_games: of gaps, the least P or the least number of games of a reply.

    Raises:
      InvalidParameterError: for an unknown book or kind, or a number out of range.
      StoreError: if the file cannot be read.
    """
    if kind not in KINDS:
        raise InvalidParameterError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    if not 0 <= min_p <= 1 or min_games < 1 or top < 0:
        raise InvalidParameterError("P is from 0 to 1, games are 1 or more, rows 0 (all) or more")
    with Store.open(path, read_only=True) as store, store.snapshot():
        book = read_book(store, name)
        if kind == "leaves":
            return _leaves(book, top)
        return _Gaps(store, book, min_p, min_games).found(top)


def _line_position(
    book: StoredBook, line: BookLine, move: str | None = None, san: str | None = None
) -> LinePosition:
    positions = book.tree.positions
    position, root = positions[line.keys[-1]], positions[line.keys[0]].fen
    text = book.text(line, san) if move and san else book.text(line)
    return LinePosition(position.fen, position.ply, move, root, line.moves, text)


def _leaves(book: StoredBook, top: int) -> Todo:
    def rank(position: Position) -> tuple[bool, float]:
        return (position.priority is None, position.priority or 0.0)

    ways = book.tree.shortest_ways(book.tree.roots)
    # other positions lost their root when a move was excluded or a root removed
    reached = {*book.tree.roots, *ways}
    found = [one for one in book.tree.ordered() if one.key in reached and one.state == LEAF]
    rows = []
    for position in sorted(found, key=rank)[: top or None]:
        target = _line_position(book, book.tree.line(position.key, ways))
        rows.append(UnsearchedLeaf(target=target, priority=position.priority))
    return Todo(book.row.name, "leaves", tuple(rows))


class _Gaps:
    """Finds the gaps of a book.

    A missing reply is a gap if its P is at least `min_p`, or if at least `min_games` imported games have it.
    In a book of both sides every move is both an own move and a reply. Replies that BOOK.toml excludes are no
    gaps.
    """

    def __init__(self, store: Store, book: StoredBook, min_p: float, min_games: int) -> None:
        self._store, self._book, self._min_p, self._min_games = store, book, min_p, min_games
        self._excluded: Mapping[str, tuple[str, ...]] = {}
        self._only: frozenset[str] = frozenset()
        self._max_ply = inf
        with suppress(BookConfigError):  # another version wrote the configuration
            config = stored_config(book.row.config, book.row.name)
            self._excluded, self._only, self._max_ply = config.excluded, config.only, config.max_ply
        found = counts(store, book.tree.positions)
        self._games = {key: {row.move: row.games for row in moves} for key, moves in found.items()}
        self._reach, self._ways = book.tree.likeliest_ways(self._shares)

    def _shares(self, position: Position) -> dict[str, float]:
        """Returns the probabilities of the moves of a position; own moves count 1."""
        side, counts = self._book.row.side, self._games.get(position.key, {})
        if side != BOTH and is_own_turn(side, position.turn):
            return dict.fromkeys(position.moves, 1.0)
        return {move.move: reply_share(counts, move.move, move.p) for move in position.moves.values()}

    def found(self, top: int) -> Todo:
        """Returns the gaps, the likeliest first, at most `top` (0: all)."""
        found: list[tuple[float, int, str, MissingReply]] = []
        bar = 0.0  # less likely gaps are not among the `top` best
        reached = [one for one in enumerate(self._book.tree.ordered()) if one[1].key in self._reach]
        for number, position in sorted(reached, key=lambda one: -self._reach[one[1].key]):
            if self._reach[position.key] < bar:
                break
            found += ((-row.reach, number, row.target.move or "", row) for row in self._at(position))
            if top and len(found) >= 2 * top:
                found = sorted(found, key=itemgetter(0, 1, 2))[:top]
                bar = -found[-1][0]
        rows = [row for *_, row in sorted(found, key=itemgetter(0, 1, 2))[: top or None]]
        return Todo(self._book.row.name, "gaps", tuple(rows))

    def _at(self, position: Position) -> Iterator[MissingReply]:
        """Yields the gaps at a position."""
        book, side, reach = self._book, self._book.row.side, self._reach[position.key]
        line = book.tree.line(position.key, self._ways)
        own = is_own_turn(side, position.turn)
        if own and position.state == LEAF:
            yield MissingReply(target=_line_position(book, line), reach=reach, p=None, games=0)
        if (own and side != BOTH) or position.state != OPEN:
            return
        if position.key in self._only or position.ply + 1 >= self._max_ply:
            return
        board, counts = board_of(position.fen), self._games.get(position.key, {})
        left_out = {*position.moves, *self._excluded.get(position.key, ())}
        moves, record = legal_moves(board), self._store.read(board)
        priors: Sequence[float | None] = [None] * len(moves)
        if record is not None and len(record.codes) == len(moves):
            priors = record.priors
        for move, p in zip(moves, priors, strict=True):
            name, games = move.uci(), counts.get(move.uci(), 0)
            if name not in left_out and ((p or 0.0) >= self._min_p or games >= self._min_games):
                target = _line_position(book, line, name, board.san(move))
                likely = reach * reply_share(counts, name, p)
                yield MissingReply(target=target, reach=likely, p=p, games=games)
