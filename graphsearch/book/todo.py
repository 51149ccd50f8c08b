"""Candidates for the queue of a book, ranked: leaves, and gaps (replies without an answer)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from operator import attrgetter, itemgetter
from typing import Any, Literal, get_args

from ..base.answer import Answer, picked
from ..base.errors import BookConfigError
from ..position.board import board_of, legal_moves
from ..query.games import reply_share
from ..store.store import Store
from ..store.tables.books import books
from ..store.tables.games import games_by_move
from .config import BOTH, is_own_turn, stored_config
from .queue import NewItem
from .rows import StoredBook
from .tree import LEAF, OPEN, BookLine, Position

Kind = Literal["leaves", "gaps"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MIN_P, MIN_GAMES = 0.05, 20  # least P or games of a gap


@dataclass(frozen=True, slots=True, kw_only=True)
class TodoRow:
    """A leaf of the book, or a gap: a reply that the book lacks, or an own position without a move.

    Attributes:
      item: for the queue: the whole game, so that its line reads like `line`.
      position: FEN of the position, or of the one before the move. ply: of the position.
      move: UCI of a move outside the book; None for the position itself.
      root: FEN. moves: UCI, from the root to the position. line: those and the move, with move numbers.
      priority: of a leaf, the builder's, the smaller the sooner; None: none.
      reach: probability of the line of a gap: the largest product along a line from a root of the replies'
        shares of games, or P where fewer than 20 games are known; own moves count 1. None: of a leaf.
      p: prior of the reply in the graph; None: the graph does not know the position.
      games: imported games with the reply.
    """

    item: NewItem
    position: str
    ply: int
    move: str | None
    root: str
    moves: tuple[str, ...]
    line: str
    priority: float | None = None
    reach: float | None = None
    p: float | None = None
    games: int = 0

    @classmethod
    def of(
        cls, book: StoredBook, line: BookLine, move: str | None = None, san: str = "", **own: Any
    ) -> TodoRow:
        """Returns the row of the last position of a line, or of a move there; `own`: of a leaf or a gap."""
        position, root = (book.tree.positions[line.keys[place]] for place in (-1, 0))
        text = book.text(line, *filter(None, [san])) or root.fen
        fen, before = book.game(line)
        moves = (*(move.uci() for move in before), *line.moves, *filter(None, [move]))
        return cls(
            item=NewItem(fen, moves, "todo: gaps" if "reach" in own else "todo: leaves"),
            position=position.fen,
            ply=position.ply,
            move=move,
            root=root.fen,
            moves=line.moves,
            line=text,
            **own,
        )

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object."""
        own = "priority" if self.reach is None else "reach p games"
        return picked(self, f"{own} position ply move root moves line")


@dataclass(frozen=True, slots=True)
class Todo(Answer):
    """Candidates for the queue of a book, the most urgent first."""

    json_keys = "book kind items=rows"

    book: str
    kind: Kind
    rows: tuple[TodoRow, ...]


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
    min_games: int = MIN_GAMES,
) -> Todo:
    """Returns candidates for the queue of a book, read-only, even during a build.

    Args:
      name: of the book; None: the only one of the file.
      kind: `leaves`: positions without a search. `gaps`: likely or popular replies without an answer.
      top: largest number of rows; 0: all.
      min_games: of gaps: the least number of games of a reply whose P is below `MIN_P`.

    Raises:
      InvalidParameterError: if the file has no such book.
      StoreError: if the file cannot be read.
    """
    with Store.open(path, read_only=True) as store, store.snapshot():
        book = StoredBook(store, name, whole=False)
        rows = _leaves(book, top) if kind == "leaves" else _Gaps(store, book, min_games).rows(top)
        return Todo(book.row.name, kind, tuple(rows))


def _leaves(book: StoredBook, top: int) -> Iterator[TodoRow]:
    ways = book.tree.shortest_ways()
    # other positions lost their root when a move was excluded or a root removed
    reached = {*book.tree.roots, *ways}
    found = [one for one in book.tree.ordered() if one.key in reached and one.state == LEAF]
    found.sort(key=lambda position: (position.priority is None, position.priority or 0.0))
    for position in found[: top or None]:
        yield TodoRow.of(book, book.tree.line(position.key, ways), priority=position.priority)


class _Gaps:
    """Finds the gaps of a book.

    A missing reply is a gap if its P is at least `MIN_P`, or if at least `min_games` imported games have it.
    In a book of both sides every move is both an own move and a reply. Replies that BOOK.toml excludes are no
    gaps.
    """

    def __init__(self, store: Store, book: StoredBook, min_games: int) -> None:
        self._store, self._book, self._min_games = store, book, min_games
        self._excluded: Mapping[str, tuple[str, ...]] = {}
        self._only: frozenset[str] = frozenset()
        self._max_ply = inf
        with suppress(BookConfigError):  # another version wrote the configuration
            config = stored_config(book.row.config, book.row.name)
            self._excluded, self._only, self._max_ply = config.excluded, config.only, config.max_ply
        self._games = games_by_move(store, book.tree.positions)
        self._reach, self._ways = book.tree.likeliest_ways(self._shares)

    def _shares(self, position: Position) -> dict[str, float]:
        """Returns the probabilities of the moves of a position; own moves count 1."""
        side, counts = self._book.row.side, self._games.get(position.key, {})
        if side != BOTH and is_own_turn(side, position.turn):
            return dict.fromkeys(position.moves, 1.0)
        return {move.move: reply_share(counts, move.move, move.p) for move in position.moves.values()}

    def rows(self, top: int) -> list[TodoRow]:
        """Returns the gaps, the likeliest first, at most `top` (0: all)."""
        found: list[tuple[float, int, str, TodoRow]] = []
        bar = 0.0  # less likely gaps are not among the `top` best
        reached = [one for one in enumerate(self._book.tree.ordered()) if one[1].key in self._reach]
        for number, position in sorted(reached, key=lambda one: -self._reach[one[1].key]):
            if self._reach[position.key] < bar:
                break
            found += ((-(row.reach or 0.0), number, row.move or "", row) for row in self._at(position))
            if top and len(found) >= 2 * top:
                found = sorted(found, key=itemgetter(0, 1, 2))[:top]
                bar = -found[-1][0]
        return [row for *_, row in sorted(found, key=itemgetter(0, 1, 2))[: top or None]]

    def _at(self, position: Position) -> Iterator[TodoRow]:
        """Yields the gaps at a position."""
        book, side, reach = self._book, self._book.row.side, self._reach[position.key]
        line = book.tree.line(position.key, self._ways)
        own = is_own_turn(side, position.turn)
        if own and position.state == LEAF:
            yield TodoRow.of(book, line, reach=reach)
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
            if name not in left_out and ((p or 0.0) >= MIN_P or games >= self._min_games):
                likely = reach * reply_share(counts, name, p)
                yield TodoRow.of(book, line, name, board.san(move), reach=likely, p=p, games=games)
