"""The status of the books of a file: positions, roots, runs and queue."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

from ..base.answer import Answer
from ..store.file import sql_errors
from ..store.store import Store
from ..store.tables.books import BookRow, book_named, books
from ..store.tables.rows import query
from ..store.tables.rows import rows as stored_rows
from .growth import RootValue

_PLIES = (
    "SELECT ply, sum(state = 'open'), sum(state = 'leaf'), sum(state = 'end') FROM book_position"
    " WHERE book = ? AND state <> 'apart' GROUP BY ply ORDER BY ply"
)
_PLY = ("book_position.ply", *3 * ("book_position.n",))
_ROOT = ("book_root.fen", "book_root.origin", "book_position.value?", "book_move.san?")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One build on a book; `finished` and `ended` are None while it runs, and if it was killed.

    Attributes:
      number: id in the table `book_run`. positions: added. searched: positions searched.
      seconds: as last saved.
    """

    number: int
    started: str
    finished: str | None
    positions: int
    searched: int
    visits: int
    evaluations: int
    seconds: float
    ended: str | None


@dataclass(frozen=True, slots=True)
class PlyRow:
    """The numbers of positions at a ply, by state."""

    ply: int
    open: int
    leaf: int
    end: int


@dataclass(frozen=True, slots=True)
class Status(Answer):
    """One book.

    Attributes:
      name, side, created, updated: of the table `book`.
      open, leaf, end: positions by state. apart: positions without a root, which `plies` leaves out.
      moves: number in the book, including positions apart.
      queue: number of its queue items, by state.
    """

    name: str
    side: str
    created: str
    updated: str
    open: int
    leaf: int
    end: int
    apart: int
    moves: int
    roots: tuple[RootValue, ...]
    plies: tuple[PlyRow, ...]
    runs: tuple[RunRow, ...]
    queue: dict[str, int]


def status(path: str | os.PathLike[str], name: str | None = None) -> list[Status]:
    """Returns the status of the books of a file, read-only, even during a build.

    Args:
      name: of one book; None: all of them.

    Raises:
      InvalidParameterError: if the file has no book, or none of that name.
      StoreError: if it cannot be read.
    """
    with Store.open(path, read_only=True) as store:
        wanted = [book_named(store, name)] if name else books(store) or [book_named(store, None)]
        with sql_errors(store.path, "read it"), store.snapshot():
            return [_status(store, book) for book in wanted]


def _status(store: Store, book: BookRow) -> Status:
    connection = store.connection
    plies = [PlyRow(*row) for row in query(connection, _PLIES, (book.id,), *_PLY)]
    columns, where = ("id", *(field.name for field in fields(RunRow)[1:])), "WHERE book = ? ORDER BY id"
    runs = [RunRow(*row) for row in stored_rows(connection, "book_run", columns, where, (book.id,))]
    statement = "SELECT state, count(*) FROM book_queue WHERE book IS NULL OR book = ? GROUP BY state"
    queue: dict[str, int] = dict(
        query(connection, statement, (book.name,), "book_queue.state", "book_position.n")
    )
    apart = "SELECT count(*) FROM book_position WHERE book = ? AND state = 'apart'"
    moves = "SELECT count(*) FROM book_move WHERE book = ?"
    return Status(
        name=book.name,
        side=book.side,
        created=book.created,
        updated=book.updated,
        open=sum(row.open for row in plies),
        leaf=sum(row.leaf for row in plies),
        end=sum(row.end for row in plies),
        apart=connection.execute(apart, (book.id,)).fetchone()[0],
        moves=connection.execute(moves, (book.id,)).fetchone()[0],
        roots=tuple(_roots(store, book.id)),
        plies=tuple(plies),
        runs=tuple(runs),
        queue=queue,
    )


def _roots(store: Store, book: int) -> list[RootValue]:
    statement = (
        "SELECT r.fen, r.origin, p.value, (SELECT san FROM book_move AS m WHERE m.book = r.book"
        " AND m.key = r.key AND m.value IS NOT NULL ORDER BY m.value DESC, m.place LIMIT 1)"
        " FROM book_root AS r LEFT JOIN book_position AS p ON p.book = r.book AND p.key = r.key"
        " WHERE r.book = ? ORDER BY r.origin"
    )
    return [RootValue(*row) for row in query(store.connection, statement, (book,), *_ROOT)]
