"""A person's visits to a file, and the values seen then: the tables `visit` and `seen`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from .rows import read_rows, rows, write_rows


@dataclass(frozen=True, slots=True)
class Visit:
    """A row of `visit`."""

    id: int
    began: str
    ended: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A row of `seen` without its visit; values are those of the side to move."""

    key: str
    fen: str
    n: int
    q: float
    draw: float
    lower: int
    upper: int
    best_move: str | None


def visits(connection: sqlite3.Connection) -> list[Visit]:
    """Returns the stored visits, the latest first."""
    return read_rows(connection, "visit", Visit, "ORDER BY id DESC")


def begin_visit(connection: sqlite3.Connection, moment: str) -> int:
    """Adds a visit; returns its number."""
    found = connection.execute("INSERT INTO visit (began, ended) VALUES (?, ?)", (moment, moment))
    return found.lastrowid or 0


def end_visit(connection: sqlite3.Connection, number: int, moment: str) -> None:
    """Sets the end of a visit, so far."""
    connection.execute("UPDATE visit SET ended = ? WHERE id = ?", (moment, number))


def drop_visits(connection: sqlite3.Connection, kept: Iterable[int]) -> None:
    """Deletes all visits except `kept`, and the values seen in them."""
    numbers = tuple(kept)
    marks = ", ".join("?" * len(numbers))
    connection.execute(f"DELETE FROM seen WHERE visit NOT IN ({marks})", numbers)  # noqa: S608 (marks)
    connection.execute(f"DELETE FROM visit WHERE id NOT IN ({marks})", numbers)  # noqa: S608 (marks)


def seen_in(connection: sqlite3.Connection, number: int) -> list[Seen]:
    """Returns the values seen in a visit."""
    return read_rows(connection, "seen", Seen, "WHERE visit = ?", (number,))


def put_seen(connection: sqlite3.Connection, number: int, found: Iterable[Seen]) -> None:
    """Writes the values seen in a visit, replacing earlier ones."""
    connection.execute("DELETE FROM seen WHERE visit = ?", (number,))
    write_rows(connection, "seen", found, number)


def most_visited(connection: sqlite3.Connection, most: int) -> list[str]:
    """Returns the FENs of the most visited positions."""
    found = rows(connection, "top_position", ("fen",), "ORDER BY n DESC LIMIT ?", (most,))
    return [fen for (fen,) in found]
