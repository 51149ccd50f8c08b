"""The queue of positions and lines that a book searches first: the table `book_queue`.

Each change is a short transaction of its own connection, without the lock of the writer of records, so that
the queue can be changed while a builder runs. Functions raise StoreError if the file cannot be read or
written.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, get_args

import chess

from ..base.answer import Answer
from ..base.errors import InvalidParameterError, InvalidPositionError
from ..position.board import board_of, fen_of
from ..position.notation import named_board, play_moves, read_fen_lines, read_position, start_position
from ..store.file import changing, opened_to_read, sql_errors
from ..store.provenance import now
from ..store.store import Store
from ..store.tables.rows import rows, table_of

State = Literal["waiting", "done", "refused", "dropped"]
STATES: tuple[State, ...] = get_args(State)
ROWS = 500  # of one transaction: other writers wait for it
# the id of a waiting row with the same line for the same book
SAME = "SELECT min(id) FROM book_queue WHERE state = 'waiting' AND fen = ? AND moves = ? AND book IS ?"
_NAMES = ("id", "book", "fen", "moves", "origin", "added", "state", "note", "changed")


@dataclass(frozen=True, slots=True)
class NewItem:
    """A line to add with all its positions: FEN, UCI moves, and its origin, such as `games.pgn, game 7`."""

    fen: str
    moves: tuple[str, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True)
class QueueItem(Answer):
    """A row of the queue.

    Attributes:
      book: None: the one that is built next. fen, moves, origin: as of a `NewItem`.
      added, changed: times in ISO 8601; `changed` is None while it waits. note: its result or refusal.
    """

    id: int
    book: str | None
    fen: str
    moves: tuple[str, ...]
    origin: str
    added: str
    state: State
    note: str | None
    changed: str | None

    def boards(self) -> Iterator[chess.Board]:
        """Yields the positions of its line in order, without history.

        Raises:
          ValueError: if the row holds no position, or an illegal move.
        """
        board = board_of(self.fen)
        yield board.copy(stack=False)
        for move in self.moves:
            board.push_uci(move)
            yield board.copy(stack=False)


@dataclass(frozen=True, slots=True)
class Added:
    """The result of `add`: ids of the new rows; items already waiting, with the ids of their rows."""

    ids: tuple[int, ...]
    duplicates: tuple[tuple[NewItem, int], ...]


# ---------------------------------------------------------------- for people
def add(path: str | os.PathLike[str], new: Iterable[NewItem], *, book: str | None = None) -> Added:
    """Adds items to the queue, except those already waiting for the same book (None: the one built next).

    It reads items one by one, so there may be many; items added before a failure stay.
    """
    ids: list[int] = []
    duplicates: list[tuple[NewItem, int]] = []
    rest, is_full = iter(new), True
    while is_full:
        some = list(islice(rest, ROWS))
        is_full = len(some) == ROWS
        with changing(path) as connection:
            for item in some:
                (same,) = connection.execute(SAME, (item.fen, " ".join(item.moves), book)).fetchone()
                if same is None:
                    ids.append(_insert(connection, item, book))
                else:
                    duplicates.append((item, same))
    return Added(tuple(ids), tuple(duplicates))


def drop(path: str | os.PathLike[str], ids: Sequence[int]) -> list[QueueItem]:
    """Drops waiting rows; returns the rows that were no longer waiting, and leaves them.

    Raises:
      InvalidParameterError: if an id has no row; nothing is dropped then.
    """
    with changing(path) as connection:
        left: list[QueueItem] = []
        for number in dict.fromkeys(ids):
            found = list(_items(connection, "id = ?", (number,)))
            if not found:
                raise InvalidParameterError(f"{path}: the queue has no item {number}")
            if not set_state(connection, number, "dropped"):
                left += found
        return left


def drop_all(path: str | os.PathLike[str], *, book: str | None = None) -> int:
    """Drops the waiting rows of a book, or all; returns their number."""
    with changing(path) as connection:
        waiting = "state = 'waiting' AND book IS coalesce(?, book)"
        statement = f"UPDATE book_queue SET state = ?, changed = ? WHERE {waiting}"  # noqa: S608
        return connection.execute(statement, ("dropped", now(), book)).rowcount


def items(
    path: str | os.PathLike[str], *, state: State | None = None, book: str | None = None
) -> Iterator[QueueItem]:
    """Yields the rows of a state (None: all) and a book (None: all), as they were added."""
    with opened_to_read(path) as connection:
        where = "state = coalesce(?, state) AND book IS coalesce(?, book)"
        yield from _items(connection, where, (state, book))


# --------------------------------------------------------------- for builders
def waiting(store: Store, book: str) -> list[QueueItem]:
    """Returns the waiting items of a book and those for any book, as they were added."""
    where = "state = 'waiting' AND (book IS NULL OR book = ?)"
    with sql_errors(store.path, "read it"):
        return list(_items(store.connection, where, (book,)))


def set_state(connection: sqlite3.Connection, number: int, state: State, note: str | None = None) -> bool:
    """Sets the state of a waiting row; returns False for any other row, and leaves it as it is."""
    statement = "UPDATE book_queue SET state = ?, note = ?, changed = ? WHERE id = ? AND state = 'waiting'"
    return connection.execute(statement, (state, note, now(), number)).rowcount == 1


def end(store: Store, number: int, state: State, note: str) -> None:
    """Ends a waiting row, unless somebody has dropped it meanwhile."""
    set_state(store.connection, number, state, note)


# --------------------------------------------------------------------- inside
def _insert(connection: sqlite3.Connection, item: NewItem, book: str | None) -> int:
    moves = " ".join(item.moves)
    row = {"book": book, "fen": item.fen, "moves": moves, "origin": item.origin, "added": now()}
    return int(table_of(connection, "book_queue").insert(row).last_pk or 0)


def _items(connection: sqlite3.Connection, where: str, values: Sequence[object]) -> Iterator[QueueItem]:
    found = rows(connection, "book_queue", _NAMES, f"WHERE {where} ORDER BY id", values)
    for number, book, fen, moves, *rest in found:
        yield QueueItem(number, book, fen, tuple(moves.split()), *rest)


MOVES_WORD = "moves"  # as in UCI: startpos moves e2e4 e7e5


@dataclass(frozen=True, slots=True)
class GivenItem:
    """The item of one position, line or game, with notes for the user; or the problem, why there is none."""

    item: NewItem | None
    notes: tuple[str, ...] = ()
    problem: str = ""


def item_of(board: chess.Board, origin: str) -> NewItem:
    """Returns the item of a position with the line on its move stack."""
    return NewItem(fen_of(board.root()), tuple(move.uci() for move in board.move_stack), origin)


def from_text(text: str, *, moves: str | None = None) -> GivenItem:
    """Returns the line that begins at `startpos`, a FEN or an EPD line; without moves, the position.

    Raises:
      InvalidPositionError: if there is no such position, or a move is illegal.
    """
    given = read_position(text, moves=moves)
    return GivenItem(item_of(given.board, "given"), given.notes)


def from_games(
    path: Path, *, ply: int | None = None, only: Collection[int] | None = None
) -> Iterator[GivenItem]:
    """Yields the line of each game of a PGN file (`only`: of these), up to `ply` half-moves; or a problem.

    Raises:
      InvalidPositionError: if the file is not PGN, or lacks one of these games.
    """
    from ..position.pgn import read_games

    found = set()
    for game in read_games(path, ply=ply, only=only):
        found.add(game.game)
        if game.problem or game.board is None:
            yield GivenItem(None, game.notes, game.problem)
        else:
            yield GivenItem(item_of(game.board, f"{path.name}, game {game.game}"), game.notes)
    for number in sorted(set(only or ()) - found):
        raise InvalidPositionError(f"{path} has no game {number}")
    if not found:
        yield GivenItem(None, problem=f"{path} has no games")


def from_lines(lines: Iterable[str], name: str) -> Iterator[GivenItem]:
    """Yields the item of each line of a text: a FEN, an EPD line, or moves from the start position.

    `POSITION moves LIST`, as in UCI, is a line from there. Blank lines and lines that begin with # are none.

    >>> [given.item.moves for given in from_lines(["# two", "1. e4 e5", "startpos moves d2d4"], "a.epd")]
    [('e2e4', 'e7e5'), ('d2d4',)]
    """
    is_empty = True
    for number, found in read_fen_lines(lines, _board):
        is_empty = False
        if isinstance(found, InvalidPositionError):
            yield GivenItem(None, problem=f"line {number}: {found}")
        else:
            yield GivenItem(item_of(found, f"line {number}"))
    if is_empty:
        yield GivenItem(None, problem=f"{name} has no positions")


def _board(text: str) -> chess.Board:
    words = text.removeprefix("position ").removeprefix("fen ").split()
    place = words.index(MOVES_WORD) if MOVES_WORD in words else len(words)
    position, moves = words[:place], words[place + 1 :]
    if "/" in words[0] or start_position(words[0]):
        board = named_board(" ".join(position))
    else:
        board, moves = chess.Board(), words
    play_moves(board, " ".join(moves))
    return board
