"""Reading a damaged SQLite file: what its rows still say, around those that cannot be read."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...errors import StoreError
from ..connection import connect, keep_out
from ..format import check_format

Row = tuple[Any, ...]

_NAMES = "SELECT name, type = 'table' AND rootpage > 0 FROM sqlite_schema"
Fetch = Callable[[int, int], list[Row]]

MAX_ID = 1 << 14  # ids are looked for below this if the file cannot say how far they go
MOST_ID = 1 << 40  # what it says must be below this
MOST_WINDOWS = 64  # that the ids of a table are read in: it may say that they go very far
KEY_SLICE = 1 << 52  # 64-bit keys are looked for in slices of 1/4096 of them around a damaged page


def open_damaged(path: Path) -> sqlite3.Connection:
    """Returns a connection that reads what it can and never changes the file.

    Raises:
      StoreError: if not even the list of tables can be read.
      SchemaVersionError: if its format is another one.
    """
    wal = path.with_name(path.name + "-wal")
    mode = "mode=ro" if wal.exists() and wal.stat().st_size else "mode=ro&immutable=1"
    connection = connect(path, mode)
    try:
        connection.execute("PRAGMA query_only = 1")
        if sys.version_info >= (3, 12):
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, False)
        connection.execute("PRAGMA writable_schema = 1")  # else a truncated file is refused as a whole
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        names = connection.execute(_NAMES).fetchall()
        impostors = {name for name, is_table in names if not is_table}
        tables = {name for name, _ in names} - impostors
        keep_out(connection, impostors)
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(
            f"{path}: its first page, which says where everything is, cannot be read: {error}"
        ) from None
    try:
        if not {"chunk", "block", "evaluator"} <= tables:
            raise StoreError(f"{path} is not a graph file: it has none of its tables")
        check_format(version, path)
    except StoreError:
        connection.close()
        raise
    return connection


def bisected(fetch: Fetch, low: int, high: int, least: int = 1) -> Iterator[tuple[list[Row], int]]:
    """Yields the rows of `low` <= id < `high`, piece by piece, each with how many ids were unreadable.

    Where reading fails, halves are tried, down to a width of `least`.
    """
    try:
        rows = fetch(low, high)
    except sqlite3.DatabaseError:
        if high - low <= least:
            yield [], high - low
            return
    else:
        yield rows, 0
        return
    middle = (low + high) // 2
    yield from bisected(fetch, low, middle, least)
    yield from bisected(fetch, middle, high, least)


def pieces_by_id(
    connection: sqlite3.Connection,
    table: str,
    columns: str,
    *,
    bound: int = MAX_ID,
    least: int = 1,
    window: int = MOST_ID,
) -> Iterator[tuple[list[Row], bool]]:
    """Yields the readable rows of a table by its integer `id`, piece by piece, and whether some could not be.

    Args:
      bound: the last id to look for, if the table cannot say.
      least: do without so many ids around what cannot be read.
      window: so many ids at once; more if the table says that it has far more.
    """

    def fetch(low: int, high: int) -> list[Row]:
        return connection.execute(
            f"SELECT {columns} FROM {table} WHERE id >= ? AND id < ? ORDER BY id",  # noqa: S608 (constants)
            (low, high),
        ).fetchall()

    last = _last_id(connection, table, bound)
    step = max(window, last // MOST_WINDOWS)
    for low in range(1, last + 1, step):
        for rows, lost in bisected(fetch, low, min(low + step, last + 1), least):
            yield rows, bool(lost)


def rows_by_id(
    connection: sqlite3.Connection, table: str, columns: str, *, bound: int = MAX_ID
) -> tuple[list[Row], bool]:
    """Returns what `pieces_by_id` yields, all at once."""
    pieces = list(pieces_by_id(connection, table, columns, bound=bound))
    return [row for rows, _ in pieces for row in rows], any(lost for _, lost in pieces)


def _last_id(connection: sqlite3.Connection, table: str, bound: int) -> int:
    """Returns the largest id of a table, or the bound if that cannot be read."""
    for statement in (
        f"SELECT max(id) FROM {table}",  # noqa: S608 (a constant)
        f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'",  # noqa: S608
    ):
        try:
            row = connection.execute(statement).fetchone()
        except sqlite3.DatabaseError:
            continue
        if row is None:  # a table that keeps no sequence
            continue
        found = row[0]
        if found is None or (isinstance(found, int) and 0 <= found < MOST_ID):
            return found or 0
    return bound


def rows_by_key(connection: sqlite3.Connection, table: str, columns: str) -> Iterator[tuple[list[Row], bool]]:
    """Yields the readable rows of a table whose key is a `key`, and whether any could not be read."""

    def fetch(low: int, high: int) -> list[Row]:
        return connection.execute(
            f"SELECT {columns} FROM {table} WHERE key >= ? AND key <= ? ORDER BY key",  # noqa: S608 (constants)
            (f"{low:016x}", f"{high - 1:016x}g"),
        ).fetchall()

    for slice_ in range(64):
        low = slice_ << 58
        for rows, lost in bisected(fetch, low, low + (1 << 58), KEY_SLICE):
            yield rows, bool(lost)
