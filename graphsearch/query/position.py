"""The moves of a stored position, and everything else that a file knows about it. Reads only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import chess

from ..base.answer import picked
from ..graph.view import UNPROVEN, Bounds, MoveView, NodeView, Origin, view
from ..position.board import after, check, fen_of, key_text
from ..position.values import negate
from ..store.ranking import node_mean
from ..store.record import NodeRecord
from ..store.store import Store
from ..store.tables import games as tables
from ..store.tables.books import books, chosen_moves
from ..store.tables.rows import read_rows, rows
from ..store.tables.studies import find_note
from .brief import Brief, brief
from .games import counts_at
from .source import Records, RecordSource, opened, records_of


@dataclass(frozen=True, slots=True)
class StoredMove:
    """One legal move; values are seen by the side to move at the position.

    Attributes:
      view: the edge. bounds: of the edge, else of the child's record. games: imported ones with the move.
      child_n, child_q: N and minus the Q of the position after it; None if the file does not hold that.
      stale: child_q minus the edge's Q; None if one of them is missing.
      transposition: whether other moves also reached the position after it.
    """

    view: MoveView
    bounds: Bounds
    games: int
    child_n: int | None = None
    child_q: float | None = None
    stale: float | None = None
    transposition: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of the list `moves`."""
        edge = self.view.as_dict()
        del edge["pv"]
        return edge | picked(self, "bounds child_n child_q stale transposition games")


@dataclass(frozen=True, slots=True)
class Moves:
    """The answer of `moves`: the node, and its moves, best first by `store.ranking`."""

    node: NodeView
    moves: tuple[StoredMove, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of the answer."""
        return self.node.as_dict() | {"moves": [move.as_dict() for move in self.moves]}


def moves(path: str | os.PathLike[str] | Records, board: chess.Board, *, lines: int = 0) -> Moves:
    """Returns all moves of a position with values from the records of their children.

    Args:
      path: the graph file, which is only read, or records in memory, which know no imported games.
      lines: number of best moves with a line.
    """
    with records_of(path) as source:
        source.wanted(board)
        games = tables.games_played(source.file, key_text(board)) if source.file else {}
        node = view(source.read, board, lines=lines, read_all=source.read_all)
        assert node is not None
        children = [after(board, move.move) for move in node.moves]
        records = source.read_all(children)
        rows = (
            _stored(move, child, record, games.get(move.move.uci(), 0))
            for move, child, record in zip(node.moves, children, records, strict=True)
        )
        return Moves(node, tuple(rows))


def _stored(move: MoveView, child: chess.Board, record: NodeRecord | None, games: int) -> StoredMove:
    if record is None:
        return StoredMove(move, move.bounds, games)
    child_q = negate(node_mean(record)[0])
    lower, upper = record.bounds_at(child.halfmove_clock)
    return StoredMove(
        view=move,
        bounds=move.bounds if move.bounds != UNPROVEN else (-upper, -lower),
        games=games,
        child_n=record.visits,
        child_q=child_q,
        stale=None if move.q is None else child_q - move.q,
        transposition=not record.terminal and record.visits > move.n,
    )


# ------------------------------------------------------------------ everything about a position
LINES = 5  # number of best moves with a line; default


@dataclass(frozen=True, slots=True)
class BookMove:
    """A move of a book: UCI, the rule that added it, its value for its side, its loss in centipawns then."""

    move: str
    rule: str
    value: float | None
    loss: int | None


@dataclass(frozen=True, slots=True)
class InBook:
    """A book's entry for the position; `state`: `leaf`, `open`, `end` or `apart`; `value`: for its side."""

    book: str
    state: str
    ply: int
    value: float | None
    moves: tuple[BookMove, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """The answer of `position`.

    Attributes:
      position: FEN. key: as `key_text` has it. moves: None if the file does not hold the position.
      origin: source of its V and P. brief: what to play, and why. Both are None likewise.
      games: results of imported games, by move in UCI.
      repertoire: moves of White's and Black's repertoire, by side, in UCI. note: its text; empty without one.
    """

    position: str
    key: str
    moves: Moves | None = None
    origin: Origin | None = None
    brief: Brief | None = None
    games: dict[str, tables.Results] = field(default_factory=dict)
    books: tuple[InBook, ...] = ()
    repertoire: dict[str, list[str]] = field(default_factory=dict)
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of a page on a position; `graphsearch show` has `node` in it."""
        found: dict[str, Any] = {"position": self.position, "key": self.key, "node": None}
        if self.moves and self.origin:
            pvs = {row.view.move.uci(): [move.uci() for move in row.view.pv] for row in self.moves.moves}
            node = self.moves.as_dict()
            node["moves"] = [move | {"pv": pvs[move["move"]]} for move in node["moves"]]
            found["node"] = node | {"mate": self.moves.node.mate} | self.origin.as_dict()
        return found | picked(self, "brief games books repertoire note")


def position(
    path: str | os.PathLike[str] | RecordSource,
    board: chess.Board,
    *,
    lines: int = LINES,
    since: str | None = None,
) -> Position:
    """Returns everything that a file knows about a position, which need not be stored.

    Args:
      path: the graph file, which is only read. lines: as those of `moves`. since: as that of `brief`.

    Raises:
      InvalidPositionError: if the position is illegal.
      InvalidParameterError: if `since` is no moment.
    """
    check(board)
    with opened(path) as source:
        found = moves(source, board, lines=lines) if source.read(board) else None
        origin = None
        if found:
            node, store = found.node, source.store
            run = None if node.run is None else store.run(node.run)
            origin = Origin(node.evaluator, store.evaluators().get(node.evaluator), node.run, run)
        with source.store.reading() as connection:
            note = find_note(connection, key_text(board))
        return Position(
            position=fen_of(board),
            key=key_text(board),
            moves=found,
            origin=origin,
            brief=brief(source, board, node=found.node, since=since) if found else None,
            games=counts_at(source, board),
            books=tuple(_books(source.store, board)),
            repertoire=chosen_moves(source.store, key_text(board)),
            note=note.text if note else "",
        )


def _books(store: Store, board: chess.Board) -> Iterator[InBook]:
    where, facts = "WHERE book = ? AND key = ?", ("state", "ply", "value")
    for book in books(store):
        here = book.id, key_text(board)
        with store.reading() as connection:
            for state, ply, value in rows(connection, "book_position", facts, where, here):
                moves = read_rows(connection, "book_move", BookMove, f"{where} ORDER BY place", here)
                yield InBook(book.name, state, ply, value, tuple(moves))
