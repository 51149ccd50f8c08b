"""The tables `root_history` and `book_history`: values of roots at every save, over all runs of a file.

A position has at most `MOST_ROWS` in each, per book; `schema/store.md` has the rule for deleting rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..provenance import now
from ..store import Store
from .rows import TABLES, listed, rows, write_row

MOST_ROWS, ROWS_LEFT = 800, 600  # of a position: some 100 KB; after thinning, which is therefore rare
PV_MOVES = 8  # of a stored line: 40 bytes, and 2 ms to find them


@dataclass(frozen=True, slots=True, kw_only=True)
class RootValues:
    """The values of a root at one moment, as seen by the side to move.

    Attributes:
      key: of the position, as `key_text` returns it. n: node N.
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
    """A row: the values, the run that saved them, and the time (ISO 8601 in UTC)."""

    values: RootValues
    run: int
    saved: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BookValues:
    """The values of a book's root at one moment, as the book computes them.

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
    """A row: the values, the book, the run that saved them, and the time (ISO 8601 in UTC)."""

    values: BookValues
    book: int
    run: int
    saved: str


# -------------------------------------------------------------- writing
def write(store: Store, run: int, root: RootValues) -> None:
    """Writes the values of a root, replacing those of this run at the same N; call it in a transaction."""
    row = asdict(root) | {"run": run, "saved": now(), "pv": _text(root.pv)}
    write_row(store.connection, "root_history", row)
    _thin(store, "root_history", {"key": root.key})


def write_book(store: Store, book: int, run: int, root: BookValues) -> None:
    """Writes the values of a book's root, replacing those of this run with as many searches; see `write`."""
    row = asdict(root) | {"book": book, "run": run, "saved": now(), "pv": _text(root.pv)}
    write_row(store.connection, "book_history", row)
    _thin(store, "book_history", {"key": root.key, "book": book})


def _text(pv: Sequence[str]) -> str | None:
    return " ".join(pv[:PV_MOVES]) or None


def _thin(store: Store, table: str, of: dict[str, object]) -> None:
    """Deletes rows of one position if it has too many; `of`: columns of its key, and their values."""
    where = "WHERE " + " AND ".join(f"{name} = ?" for name in of)
    values = tuple(of.values())
    count = f"SELECT count(*) FROM {table} {where}"  # noqa: S608 (constants)
    if store.connection.execute(count, values).fetchone()[0] <= MOST_ROWS:
        return
    last = TABLES[table].key[-1]
    columns = ("run", last, "best_move")
    found = list(rows(store.connection, table, columns, f"{where} ORDER BY run, {last}", values))
    moments = [Moment(run, best) for run, _, best in found]
    store.connection.executemany(
        f"DELETE FROM {table} {where} AND run = ? AND {last} = ?",  # noqa: S608 (constants)
        [(*values, *found[i][:2]) for i in rows_to_delete(moments, ROWS_LEFT)],
    )


# -------------------------------------------------------------- reading
def of_root(store: Store, key: str) -> list[SavedValues]:
    """Returns the rows of a position in the order of runs."""
    found = _saved(store, "root_history", key, "run, n")
    return [SavedValues(RootValues(**row), run, saved) for run, saved, row in found]


def of_books(store: Store, key: str) -> list[SavedBookValues]:
    """Returns the rows of a root in all books, in the order of runs."""
    found = _saved(store, "book_history", key, "run, book, searched")
    return [
        SavedBookValues(book=row.pop("book"), values=BookValues(**row), run=run, saved=saved)
        for run, saved, row in found
    ]


def _saved(store: Store, table: str, key: str, order: str) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yields the run, the time and the other columns of each row of a position."""
    for row in listed(store, table, f"WHERE key = ? ORDER BY {order}", (key,)):
        values = dict(zip(TABLES[table].columns, row, strict=True))
        values["pv"] = tuple((values["pv"] or "").split())
        yield values.pop("run"), values.pop("saved"), values


@dataclass(frozen=True, slots=True)
class Moment:
    """The columns of a row that matter for thinning: run and best move."""

    run: int
    best_move: str | None


def rows_to_delete(moments: Sequence[Moment], left: int) -> list[int]:
    """Returns the indexes of the rows to delete, so that `left` (at least 2) stay.

    It deletes every second row, the oldest first, and again if that is not enough; so old times keep fewer
    rows. The first and the last row stay. Rows with the same best move as the row before go first, and among
    them those that are not the last row of their run; then the other rows go.

    Args:
      moments: in the order of runs, and of size in each.
    """
    inner = range(1, len(moments) - 1)
    same = [i for i in inner if moments[i].best_move == moments[i - 1].best_move]
    plain = [i for i in same if moments[i].run == moments[i + 1].run]
    gone = set[int]()
    for some in (plain, same, inner):
        while (surplus := len(moments) - len(gone) - left) > 0 and (
            rest := [i for i in some if i not in gone]
        ):
            gone.update(rest[::2][:surplus])
    return sorted(gone)
