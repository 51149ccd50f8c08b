"""Everything that a file knows about one position: moves, lines, games, books, opinions. Reads only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import chess

from ..base.answer import picked
from ..graph.view import Origin
from ..position.board import check, fen_of, key_text
from ..position.values import cp_of, wdl_from_q
from ..store.file import sql_errors
from ..store.tables import opinions
from ..store.tables.repertoire import moves_at
from ..store.tables.rows import checked
from .games import Results, counts_at
from .moves import Moves, moves_in
from .source import RecordSource, opened

LINES = 5  # number of best moves with a line; default


@dataclass(frozen=True, slots=True)
class BookMove:
    """A move of a book: UCI, the rule that added it, its value for the side that plays it, and its loss in
    centipawns at that time."""

    move: str
    rule: str
    value: float | None
    loss: int | None


@dataclass(frozen=True, slots=True)
class InBook:
    """A book's entry for the position: `leaf`, `open`, `end` or `apart`, its ply, value for the side to move,
    and its moves."""

    book: str
    state: str
    ply: int
    value: float | None
    moves: tuple[BookMove, ...]


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """Another evaluator's value of the position, for the side to move, and its first choice in SAN."""

    evaluator: str
    q: float
    cp: int
    wdl: tuple[float, float, float]
    best_move: str | None


@dataclass(frozen=True, slots=True)
class Position:
    """The answer of `position`.

    Attributes:
      position: FEN. key: as `key_text` has it.
      moves: the node with its moves; None if the file does not hold the position.
      origin: source of its V and P; None likewise.
      games: results of imported games, by move in UCI. books: the books with the position.
      opinions: of other evaluators. repertoire: moves of White's and Black's repertoire, by side, in UCI.
    """

    position: str
    key: str
    moves: Moves | None
    origin: Origin | None
    games: dict[str, Results]
    books: tuple[InBook, ...]
    opinions: tuple[SecondOpinion, ...]
    repertoire: dict[str, list[str]]

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of a page on a position; `graphsearch show` has `node` in it."""
        found: dict[str, Any] = {"position": self.position, "key": self.key, "node": None}
        if self.moves and self.origin:
            pvs = {row.view.move.uci(): [move.uci() for move in row.view.pv] for row in self.moves.moves}
            node = self.moves.as_dict()
            node["moves"] = [move | {"pv": pvs[move["move"]]} for move in node["moves"]]
            found["node"] = node | {"mate": self.moves.node.mate} | self.origin.as_dict()
        return found | picked(self, "games books opinions repertoire")


def position(path: str | os.PathLike[str], board: chess.Board, *, lines: int = LINES) -> Position:
    """Returns everything that a file knows about a position, which need not be stored.

    Args:
      path: the graph file; it is only read, also while a search writes it.
      lines: number of best moves with a line.

    Raises:
      InvalidPositionError: if the position is not legal.
      StoreError: if the file cannot be read.
    """
    check(board)
    with opened(path) as source:
        found = moves_in(source, board, lines=lines) if source.read(board) else None
        origin = None
        if found:
            node, store = found.node, source.store
            run = None if node.run is None else store.run(node.run)
            origin = Origin(node.evaluator, store.evaluators().get(node.evaluator), node.run, run)
        with source.store.reading() as connection:
            repertoire = moves_at(connection, key_text(board))
        return Position(
            position=fen_of(board),
            key=key_text(board),
            moves=found,
            origin=origin,
            games=counts_at(source, board),
            books=tuple(_books(source, board)),
            opinions=tuple(_opinions(source, board)),
            repertoire=repertoire,
        )


def unknown(board: chess.Board) -> Position:
    """Returns the answer for an unknown position."""
    return Position(fen_of(board), key_text(board), None, None, {}, (), (), {})


def _books(source: RecordSource, board: chess.Board) -> Iterator[InBook]:
    key, ask = key_text(board), source.store.connection.execute
    columns = ("book.id", "book.name", *(f"book_position.{name}" for name in ("state", "ply", "value?")))
    query = (
        "SELECT b.id, b.name, p.state, p.ply, p.value FROM book_position AS p JOIN book AS b ON b.id = p.book"
        " WHERE p.key = ? ORDER BY b.name"
    )
    names = [f"book_move.{name}" for name in ("move", "rule", "value?", "loss?")]
    of_moves = "SELECT move, rule, value, loss FROM book_move WHERE book = ? AND key = ? ORDER BY place"
    with sql_errors(source.path, "read it"):
        rows = list(checked(ask(query, (key,)), *columns))
        for book, name, state, ply, value in rows:
            moves = checked(ask(of_moves, (book, key)), *names)
            yield InBook(name, state, ply, value, tuple(BookMove(*row) for row in moves))


def _opinions(source: RecordSource, board: chess.Board) -> Iterator[SecondOpinion]:
    store, key = source.store, key_text(board)
    for number in opinions.counts(store):
        row = opinions.known(store, number, [key]).get(key)
        if row is None:
            continue
        draw = row.second_draw
        wdl = wdl_from_q(row.second_q, draw)
        best = board.san(chess.Move.from_uci(row.second_best_move)) if row.second_best_move else None
        yield SecondOpinion(
            evaluator=store.evaluators()[number].describe(),
            q=row.second_q,
            cp=cp_of(row.second_q, draw),
            wdl=(wdl.win, wdl.draw, wdl.loss),
            best_move=best,
        )
