"""The opening books of a file, and their rows for one position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import chess

from ...base.errors import InvalidParameterError
from ..store import Store
from .rows import read_rows

Side = Literal["white", "black", "both"]
BOTH: Side = "both"


@dataclass(frozen=True, slots=True)
class BookRow:
    """A row of the table `book`; `config` is the TOML text with all its settings."""

    id: int
    name: str
    side: Side
    config: str
    created: str
    updated: str


REPERTOIRES = {"white": "white repertoire", "black": "black repertoire"}  # names of their books, by side
DECIDED = "decided {}"  # row of `store_info`, with the id of a book: on what its last decisions are based


def books(store: Store, *, repertoires: bool = False) -> list[BookRow]:
    """Returns the books of a file, by name; with `repertoires` also those whose moves a person chose."""
    with store.reading() as connection:
        found = read_rows(connection, "book", BookRow, "ORDER BY name")
    return [row for row in found if repertoires or row.name not in REPERTOIRES.values()]


def chosen_moves(store: Store, key: str) -> dict[str, list[str]]:
    """Returns the moves of a position that are in repertoires, by side."""
    statement = (
        "SELECT side, move FROM book JOIN book_move ON book_move.book = book.id"
        " WHERE book.name IN (?, ?) AND key = ? ORDER BY side, place"
    )
    found: dict[str, list[str]] = {}
    for side, move in store.query(statement, (*REPERTOIRES.values(), key), "book.side", "book_move.move"):
        found.setdefault(side, []).append(move)
    return found


def book_named(store: Store, name: str | None) -> BookRow:
    """Returns the book of a name, also a repertoire; without a name, the only book.

    Raises:
      InvalidParameterError: if there is none, or several and no name; it lists the books of the file.
    """
    there = books(store)
    if name is None and len(there) == 1:
        return there[0]
    found = next((row for row in books(store, repertoires=True) if row.name == name), None)
    if found is None:
        names = ", ".join(repr(row.name) for row in there)
        if name is not None:
            problem = f"no book {name!r}; it has {names or 'none'}"
        else:
            problem = f"several books; name one: {names}" if names else "no book; `book build` makes one"
        raise InvalidParameterError(f"{store.path} has {problem}")
    return found


def is_own_turn(side: str, turn: chess.Color) -> bool:
    """Returns whether a book of a side (`white`, `black` or `both`) has own moves of this colour."""
    return side == BOTH or (side == "white") == turn


def book_keys(store: Store, number: int) -> list[str]:
    """Returns the keys of the positions of a book, those apart left out."""
    statement = "SELECT key FROM book_position WHERE book = ? AND state <> 'apart'"
    return [row[0] for row in store.query(statement, (number,), "book_position.key")]


def book_roots(store: Store, number: int | None = None) -> list[str]:
    """Returns the FENs of the root positions of a book, or of all books, in the order of their plies."""
    statement = (
        "SELECT r.fen FROM book_root r LEFT JOIN book_position p ON p.book = r.book AND p.key = r.key"
        " WHERE r.book = ifnull(?, r.book) ORDER BY p.ply, r.origin, r.key"
    )
    return [row[0] for row in store.query(statement, (number,), "book_root.fen")]


def roots_of(store: Store) -> list[str]:
    """Returns the FENs of the roots of searches, the last searched first, and then of those of all books."""
    return [*(root.position for root in store.roots()), *book_roots(store)]
