"""The tables `root_history` and `book_history`: what roots were worth at every save, over all runs of a file.

A position has at most `MOST_ROWS` in each, for each book: `thinning.py` chooses which go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..file import sql_errors
from ..store import Store
from .columns import TABLES
from .provenance import now
from .rows import Row, insert, rows
from .thinning import Moment, gone

MOST_ROWS, ROWS_LEFT = 800, 600  # of a position: some 100 KB; thinned to, so that this is done now and then
PV_MOVES = 8  # of a line that is kept: 40 bytes, and 2 ms to find them


@dataclass(frozen=True, slots=True, kw_only=True)
class RootValues:
    """What a root is worth at one moment; values are seen by the side to move.

    Attributes:
      key: of the position, as `key_text` has it. n: node N.
      q, draw: node Q and its draw probability. best_move: in UCI, None without moves.
      pv: the line of the most visits in UCI, at most `PV_MOVES` moves.
      depth: mean plies of the visits of a search, None if there was none.
    """

    key: str
    n: int
    q: float
    draw: float
    best_move: str | None
    pv: tuple[str, ...] = ()
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class SavedValues:
    """A row: the values, the run that saved them, and when (ISO 8601 in UTC)."""

    values: RootValues
    run: int
    saved: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BookValues:
    """What a root of a book is worth at one moment, by the book.

    Attributes:
      key: of the position. searched: positions that this build had searched. positions: of the book.
      value: in the book, for the side to move, in [-1, 1]. n: node N when the book searched it last.
      best_move, pv: the move and the line of the best values in the book, in UCI.
    """

    key: str
    searched: int
    positions: int
    value: float
    n: int
    best_move: str | None
    pv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SavedBookValues:
    """A row: the values, the book, the run that saved them, and when (ISO 8601 in UTC)."""

    values: BookValues
    book: int
    run: int
    saved: str


# -------------------------------------------------------------- writing
def write(store: Store, run: int, root: RootValues) -> None:
    """Enters what a root is worth now, in place of what this run saved at the same N; in a transaction."""
    pv = _text(root.pv)
    row = (root.key, run, root.n, now(), root.q, root.draw, root.best_move, root.depth, pv)
    _insert(store, "root_history", row)
    _thin(store, "root_history", "n", {"key": root.key})


def write_book(store: Store, book: int, run: int, root: BookValues) -> None:
    """Enters what a root of a book is worth now, in place of the row of as many searches; as `write`."""
    head = (root.key, book, run, root.searched, now(), root.positions)
    _insert(store, "book_history", (*head, root.value, root.n, root.best_move, _text(root.pv)))
    _thin(store, "book_history", "positions", {"key": root.key, "book": book})


def _text(pv: Sequence[str]) -> str | None:
    return " ".join(pv[:PV_MOVES]) or None


def _insert(store: Store, table: str, row: Row) -> None:
    insert(store.connection, table, tuple(TABLES[table].columns), [row])


def _thin(store: Store, table: str, size: str, of: dict[str, object]) -> None:
    """Takes rows of one position away if it has too many.

    Args:
      size: the column that grows. of: the first columns of the key, and what they are.
    """
    where = "WHERE " + " AND ".join(f"{name} = ?" for name in of)
    values = tuple(of.values())
    count = f"SELECT count(*) FROM {table} {where}"  # noqa: S608 (constants)
    if store.connection.execute(count, values).fetchone()[0] <= MOST_ROWS:
        return
    last = TABLES[table].key[-1]
    columns = ("run", last, size, "saved", "best_move")
    found = list(rows(store.connection, table, columns, f"{where} ORDER BY run, {last}", values))
    moments = [Moment(run, n, saved, best) for run, _, n, saved, best in found]
    store.connection.executemany(
        f"DELETE FROM {table} {where} AND run = ? AND {last} = ?",  # noqa: S608 (constants)
        [(*values, *found[i][:2]) for i in gone(moments, ROWS_LEFT)],
    )


# -------------------------------------------------------------- reading
def of_root(store: Store, key: str) -> list[SavedValues]:
    """Returns the rows of a position in the order of runs."""
    columns = tuple(TABLES["root_history"].columns)
    with sql_errors(store.path, "read it"):
        found = rows(store.connection, "root_history", columns, "WHERE key = ? ORDER BY run, n", (key,))
        return [_saved(dict(zip(columns, row, strict=True))) for row in found]


def _saved(row: dict[str, object]) -> SavedValues:
    run, saved, pv = row.pop("run"), row.pop("saved"), row.pop("pv", None)
    values = RootValues(**row, pv=_moves(pv))  # type: ignore[arg-type]
    return SavedValues(values, run, saved)  # type: ignore[arg-type]


def of_books(store: Store, key: str) -> list[SavedBookValues]:
    """Returns the rows of a root in all books, in the order of runs."""
    columns = tuple(TABLES["book_history"].columns)
    with sql_errors(store.path, "read it"):
        found = rows(
            store.connection, "book_history", columns, "WHERE key = ? ORDER BY run, book, searched", (key,)
        )
        return [_saved_book(dict(zip(columns, row, strict=True))) for row in found]


def _saved_book(row: dict[str, object]) -> SavedBookValues:
    book, run, saved, pv = (row.pop(name) for name in ("book", "run", "saved", "pv"))
    return SavedBookValues(BookValues(**row, pv=_moves(pv)), book, run, saved)  # type: ignore[arg-type]


def _moves(pv: object) -> tuple[str, ...]:
    return tuple(pv.split()) if isinstance(pv, str) else ()
