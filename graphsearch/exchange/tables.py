"""What an export reads of the plain tables: books, imported games, entries. Old formats have none of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import chess

from ..position.board import encode_move
from ..store.file import sql_errors
from ..store.store import Store
from ..store.tables.books import asked

PAGE = 10_000  # entries read in one statement, so that no transaction stays open for long


@dataclass(frozen=True, slots=True)
class BookMoveRow:
    """A move of a book.

    Attributes:
      code: as `encode_move`. child_value: of the position after it, for the side to move there; None before
        it was searched. value: of the move when it was taken in.
    """

    code: int
    p: float
    value: float | None
    child_value: float | None
    rule: str
    loss: int | None


@dataclass(frozen=True, slots=True)
class PolyglotRow:
    """A row of `polyglot_entry`; `turn` is that of the position, None where it is not known."""

    key: str
    source: int
    place: int
    move: str
    raw_move: int
    weight: int
    learn: int
    turn: chess.Color | None


def book_position(store: Store, number: int, key: str) -> Mapping[str, Any] | None:
    """Returns a row of `book_position` by column, without those that identify it; None if there is none."""
    names = ("ply", "state", "searches", "n", "value", "outside", "outside_move", "priority")
    columns = ", ".join(names)
    rows = asked(
        store,
        f"SELECT {columns} FROM book_position WHERE book = ? AND key = ?",  # noqa: S608 # fixed names
        (number, key),
        *(f"book_position.{name}" for name in names),
    )
    return dict(zip(names, rows[0], strict=True)) if rows else None


def book_moves(store: Store, number: int, key: str) -> list[BookMoveRow]:
    """Returns the moves of a book in a position."""
    rows = asked(
        store,
        "SELECT m.move, m.p, m.value, c.value, m.rule, m.loss FROM book_move m"
        " LEFT JOIN book_position c ON c.book = m.book AND c.key = m.child WHERE m.book = ? AND m.key = ?",
        (number, key),
        "book_move.move",
        "book_move.p",
        "book_move.value",
        "book_position.value?",
        "book_move.rule",
        "book_move.loss",
    )
    return [BookMoveRow(encode_move(chess.Move.from_uci(row[0])), *row[1:]) for row in rows]


def has_games(store: Store) -> bool:
    """Returns whether games were imported into a file."""
    return _has_rows(store, "game_move")


def has_entries(store: Store) -> bool:
    """Returns whether Polyglot books were imported into a file."""
    return _has_rows(store, "polyglot_entry")


def _has_rows(store: Store, table: str) -> bool:
    with sql_errors(store.path, "read it"):
        return store.connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() is not None  # noqa: S608


_ENTRY_COLUMNS = ("key", "source", "place", "move", "raw_move", "weight", "learn", "fen")
_ENTRY = f"SELECT {', '.join(_ENTRY_COLUMNS)} FROM polyglot_entry"  # noqa: S608 (constants)
_CHECKED = tuple(f"polyglot_entry.{name}" for name in _ENTRY_COLUMNS)


def entries(store: Store, key: str) -> list[PolyglotRow]:
    """Returns the imported entries of a Polyglot key."""
    statement = f"{_ENTRY} WHERE key = ? ORDER BY source, place"
    return [_entry(row) for row in asked(store, statement, (key,), *_CHECKED)]


def all_entries(store: Store) -> Iterator[PolyglotRow]:
    """Yields all imported entries by key, source and place; the file may be written to meanwhile."""
    last: tuple[str, int, int] = ("", 0, 0)
    while True:
        rows = asked(
            store,
            f"{_ENTRY} WHERE (key, source, place) > (?, ?, ?) ORDER BY key, source, place LIMIT {PAGE}",
            last,
            *_CHECKED,
        )
        yield from (_entry(row) for row in rows)
        if len(rows) < PAGE:
            return
        last = (rows[-1][0], rows[-1][1], rows[-1][2])


def _entry(row: Any) -> PolyglotRow:
    turn = None if row[7] is None else row[7].split()[1] == "w"
    key, source, place, move, raw_move, weight, learn, _ = row
    return PolyglotRow(
        key=key,
        source=source,
        place=place,
        move=move,
        raw_move=raw_move,
        weight=weight,
        learn=learn,
        turn=turn,
    )


assert sqlite3.sqlite_version_info >= (3, 15), "row values"
