"""The tables `root_history` and `book_history`: values of roots at every save, over all runs of a file.

A position has at most `MOST_ROWS` in each, per book; `schema/store.md` has the rule for deleting rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ..provenance import now
from ..store import Store
from .rows import TABLES, read_rows, rows, write_row

MOST_ROWS, ROWS_LEFT = 800, 600  # of a position: some 100 KB; after thinning, which is therefore rare
PV_MOVES = 8  # most of a stored line: 40 bytes, and 2 ms to find them


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedValues:
    """The values of a root at one moment, as seen by the side to move.

    Attributes:
      key: of the position, as `key_text` returns it. n: node N.
      best_move: in UCI, None without moves. pv: its line: moves in UCI, separated by blanks, or None.
      run, saved: the run that saved them, and when (ISO 8601 in UTC); `write` sets both.
    """

    key: str
    n: int
    best_move: str | None
    pv: str | None = None
    run: int = 0
    saved: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootValues(SavedValues):
    """A row of `root_history`; its line is that of the most visits.

    Attributes:
      q, draw: node Q and its draw probability.
      depth: mean plies of the visits of a search, None if there was none.
    """

    q: float
    draw: float
    depth: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookValues(SavedValues):
    """A row of `book_history`: the values of a book's root, as the book computes them.

    Attributes:
      searched: positions that this build had searched. positions: of the book, whose number `write` sets.
      value: in the book, in [-1, 1]; `n` is node N when the book searched the root last.
    """

    searched: int
    positions: int
    value: float
    book: int = 0


# -------------------------------------------------------------- writing
def write(store: Store, run: int, root: RootValues | BookValues, book: int | None = None) -> None:
    """Writes the values of a root, those of a book with its number; call it in a transaction.

    They replace those of this run at the same N, or of as many searches. Values of a record that does not fit
    the format do not fit the table either, and are left out.
    """
    if root.key in store.left_out:
        return
    table, of = ("root_history", {}) if book is None else ("book_history", {"book": book})
    write_row(store.connection, table, asdict(root) | of | {"run": run, "saved": now()})
    _thin(store, table, {"key": root.key, **of})


def _thin(store: Store, table: str, of: dict[str, object]) -> None:
    """Deletes rows of one position if it has too many; `of`: columns of its key, and their values."""
    where = "WHERE " + " AND ".join(f"{name} = ?" for name in of)
    values, last = tuple(of.values()), TABLES[table].key[-1]
    count = f"SELECT count(*) FROM {table} {where}"  # noqa: S608 (constants)
    if store.connection.execute(count, values).fetchone()[0] > MOST_ROWS:
        order = f"{where} ORDER BY run, {last}"
        found = list(rows(store.connection, table, ("run", "best_move", last), order, values))
        gone = [found[i] for i in rows_to_delete([row[:2] for row in found], ROWS_LEFT)]
        statement = f"DELETE FROM {table} {where} AND run = ? AND {last} = ?"  # noqa: S608 (constants)
        store.connection.executemany(statement, [(*values, run, at) for run, _, at in gone])


# -------------------------------------------------------------- reading
def of_root(store: Store, key: str) -> list[RootValues]:
    """Returns the rows of a position in the order of runs."""
    with store.reading() as connection:
        return read_rows(connection, "root_history", RootValues, "WHERE key = ? ORDER BY run, n", (key,))


def of_books(store: Store, key: str) -> list[BookValues]:
    """Returns the rows of a root in all books, in the order of runs."""
    order = "WHERE key = ? ORDER BY run, book, searched"
    with store.reading() as connection:
        return read_rows(connection, "book_history", BookValues, order, (key,))


def rows_to_delete(moments: Sequence[Sequence[object]], left: int) -> list[int]:
    """Returns the indexes of the rows to delete, so that `left` (at least 2) stay.

    It deletes every second row, the oldest first, and again if that is not enough; so old times keep fewer
    rows. The first and the last row stay. Rows with the same best move as the row before go first, and among
    them those that are not the last row of their run; then the other rows go.

    Args:
      moments: run and best move of each row, in the order of runs, and of size in each.
    """
    inner = range(1, len(moments) - 1)
    same = [i for i in inner if moments[i][1] == moments[i - 1][1]]
    plain = [i for i in same if moments[i][0] == moments[i + 1][0]]
    gone = set[int]()
    for some in (plain, same, inner):
        while (surplus := len(moments) - len(gone) - left) > 0 and (
            rest := [i for i in some if i not in gone]
        ):
            gone.update(rest[::2][:surplus])
    return sorted(gone)
