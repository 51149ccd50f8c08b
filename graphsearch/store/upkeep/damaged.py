"""Reads the intact rows of a damaged SQLite file, and skips those that cannot be read.

Copies the readable rows of its plain tables, with the columns of the schema.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...base.errors import StoreError
from ..connection import connect, keep_out
from ..format import check_format
from ..side_files import log_bytes
from ..tables.rows import insert
from ..tables.schema import TABLES, fault_of_row

Row = tuple[Any, ...]

_NAMES = "SELECT name, type = 'table' AND rootpage > 0 FROM sqlite_schema"
Fetch = Callable[[int, int], list[Row]]
Pieces = Iterator[tuple[list[Row], bool]]  # readable rows, piece by piece, and whether some could not be read

LIKELY_ID = 1 << 14  # the largest id to look for if the largest id of a table cannot be read
MOST_ID = 1 << 40  # a largest id from here on is not believed
MOST_WINDOWS = 64  # windows of ids per table: its largest id may be far too large
KEY_SLICE = 1 << 52  # the smallest slice around a damaged page, 1/4096 of all 64-bit keys


def open_damaged(path: Path) -> sqlite3.Connection:
    """Returns a connection that reads the intact parts of a file and never changes it.

    Raises:
      StoreError: if not even the list of tables can be read.
      SchemaVersionError: if it has another format.
    """
    mode = "mode=ro" if log_bytes(path) else "mode=ro&immutable=1"
    connection = connect(path, mode)
    try:
        connection.execute("PRAGMA query_only = 1")
        if sys.version_info >= (3, 12):
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, False)
        connection.execute("PRAGMA writable_schema = 1")  # else SQLite refuses a truncated file
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


def bisected(fetch: Fetch, low: int, high: int, least: int = 1) -> Pieces:
    """Yields the rows of `low` <= id < `high` in pieces, each with whether its ids were unreadable.

    If reading a range fails, it tries both halves, down to a width of `least`.
    """
    try:
        rows = fetch(low, high)
    except sqlite3.DatabaseError:
        if high - low <= least:
            yield [], True
            return
    else:
        yield rows, False
        return
    middle = (low + high) // 2
    yield from bisected(fetch, low, middle, least)
    yield from bisected(fetch, middle, high, least)


def pieces_by_id(
    connection: sqlite3.Connection,
    table: str,
    columns: str,
    *,
    bound: int = LIKELY_ID,
    least: int = 1,
    window: int = MOST_ID,
) -> Pieces:
    """Yields the readable rows of a table by its integer `id`, in pieces, each with whether any were lost.

    Args:
      bound: the last id to look for, if the largest one cannot be read.
      least: number of ids around damage that are given up together.
      window: ids per query; more if the largest id is far higher.
    """

    def fetch(low: int, high: int) -> list[Row]:
        return connection.execute(
            f"SELECT {columns} FROM {table} WHERE id >= ? AND id < ? ORDER BY id",  # noqa: S608 (constants)
            (low, high),
        ).fetchall()

    if _is_out_of_reach(connection, table):
        yield [], True
        return
    last = _last_id(connection, table, bound)
    step = max(window, last // MOST_WINDOWS)
    for low in range(1, last + 1, step):
        yield from bisected(fetch, low, min(low + step, last + 1), least)


_IS_WITHIN = """
SELECT type = 'table' AND rootpage BETWEEN 1 AND page_count
FROM sqlite_schema, pragma_page_count WHERE name = ?
"""


def _is_out_of_reach(connection: sqlite3.Connection, table: str) -> bool:
    """Returns whether a table is out of reach: the file ends before its first page, or it is not a table."""
    found = connection.execute(_IS_WITHIN, (table,)).fetchone()
    return not (found and found[0])


def rows_by_id(
    connection: sqlite3.Connection, table: str, columns: str, *, bound: int = LIKELY_ID
) -> tuple[list[Row], bool]:
    """Returns all rows of `pieces_by_id`, and whether any were lost."""
    pieces = list(pieces_by_id(connection, table, columns, bound=bound))
    return [row for rows, _ in pieces for row in rows], any(lost for _, lost in pieces)


def _last_id(connection: sqlite3.Connection, table: str, bound: int) -> int:
    """Returns the largest id of a table, or `bound` if that cannot be read."""
    for statement in (
        f"SELECT max(id) FROM {table}",  # noqa: S608 (a constant)
        f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'",  # noqa: S608
    ):
        try:
            row = connection.execute(statement).fetchone()
        except sqlite3.DatabaseError:
            continue
        if row is None:  # the table has no sequence
            continue
        found = row[0]
        if found is None or (isinstance(found, int) and 0 <= found < MOST_ID):
            return found or 0
    return bound


def rows_by_key(connection: sqlite3.Connection, table: str, columns: str) -> Pieces:
    """Yields the readable rows of a table by its column `key`, in pieces, each with whether any were lost."""

    def fetch(low: int, high: int) -> list[Row]:
        return connection.execute(
            f"SELECT {columns} FROM {table} WHERE key >= ? AND key <= ? ORDER BY key",  # noqa: S608 (constants)
            (f"{low:016x}", f"{high - 1:016x}g"),
        ).fetchall()

    for slice_ in range(64):
        yield from bisected(fetch, slice_ << 58, slice_ + 1 << 58, KEY_SLICE)


# tables that other modules salvage
OWN = frozenset({"store_info", "evaluator", "run", "segment", "chunk", "block"})
PLAIN = tuple(name for name in TABLES if name not in OWN)
MAX_NUMBER = 1 << 20  # the largest place to look for if the largest one of a table cannot be read
PARTS = 2048  # the smallest slice around a damaged page is 1/2048 of the keys of one book or source


def copy_table(damaged: sqlite3.Connection, connection: sqlite3.Connection, name: str) -> str:
    """Copies the readable, valid rows of a table; returns a text about the lost ones, empty if none are."""
    columns = tuple(TABLES[name].columns)
    lost_any, copied, faults = False, 0, list[str]()
    for rows, lost in _rows(damaged, name, TABLES[name].key, ", ".join([*columns, fault_of_row(name)])):
        good = [row[:-1] for row in rows if row[-1] is None]
        faults += [row[-1] for row in rows if row[-1] is not None]
        lost_any |= lost
        copied += len(good)
        insert(connection, name, columns, good)
    if faults:
        return f"{len(faults):,} of its rows are damaged; of the first, {faults[0]}"
    return "some of its rows cannot be read" if lost_any or copied != _size(damaged, name) else ""


def _size(damaged: sqlite3.Connection, name: str) -> int:
    """Returns the number of rows of a table, including those outside all slices of keys; -1 if unknown."""
    try:
        return int(damaged.execute(f"SELECT count(*) FROM {name}").fetchone()[0])  # noqa: S608 (constants)
    except sqlite3.DatabaseError:
        return -1


def _rows(damaged: sqlite3.Connection, name: str, key: tuple[str, ...], columns: str) -> Pieces:
    first = key[0]
    if key == ("id",):
        yield rows_by_id(damaged, name, columns)
    elif _is_out_of_reach(damaged, name):
        yield [], True
    elif first == "key":
        yield from rows_by_key(damaged, name, columns)
    else:
        numbers, lost = _numbers(damaged, name, first)
        yield [], lost
        for number in numbers:
            yield from _rows_of(damaged, name, key, columns, number)


def _numbers(damaged: sqlite3.Connection, table: str, column: str) -> tuple[list[int], bool]:
    """Returns the readable values of the first column of a key, and whether any cannot be read.

    It steps from one value to the next along the key, from both ends. So it misses a value only if the rows
    of this value begin and end in damaged pages, and the table `book` or `source` has lost it too.
    """
    up, lost = _steps(damaged, table, column, ">", "ASC")
    if not lost:
        return up, False
    down, _ = _steps(damaged, table, column, "<", "DESC")
    rows, _ = rows_by_id(damaged, column, "id")
    return sorted({*up, *down, *(row[0] for row in rows)}) or list(range(1, 9)), True


def _steps(
    damaged: sqlite3.Connection, table: str, column: str, sign: str, order: str
) -> tuple[list[int], bool]:
    """Returns the distinct values of a column in one direction up to the first damage, and whether any is."""
    found: list[int] = []
    statement = f"SELECT {column} FROM {table} WHERE {column} {sign} ? ORDER BY {column} {order} LIMIT 1"  # noqa: S608
    last = -1 if sign == ">" else 1 << 62
    try:
        while row := damaged.execute(statement, (last,)).fetchone():
            if not isinstance(row[0], int):
                return found, True
            last = row[0]
            found.append(last)
    except sqlite3.DatabaseError:
        return found, True
    return found, False


def _rows_of(
    damaged: sqlite3.Connection, name: str, keys: tuple[str, ...], columns: str, number: int
) -> Pieces:
    """Yields the readable rows with one value in the first column of the key, by slices of the second."""
    first, second = keys[:2]
    is_key = second == "key"

    def fetch(low: int, high: int) -> list[Row]:
        ends = (f"{low:016x}", f"{high - 1:016x}g") if is_key else (low, high - 1)
        return damaged.execute(
            f"SELECT {columns} FROM {name}"  # noqa: S608 (the schema's names)
            f" WHERE {first} = ? AND {second} >= ? AND {second} <= ? ORDER BY {first}, {second}",
            (number, *ends),
        ).fetchall()

    top = 1 << 64 if is_key else _last(damaged, name, second, number) + 1
    yield from bisected(fetch, 0, top, max(top // PARTS, 1))


def _last(damaged: sqlite3.Connection, table: str, column: str, source: int) -> int:
    """Returns the last place of a source; MAX_NUMBER if it cannot be read or believed."""
    statement = f"SELECT max({column}) FROM {table} WHERE source = ?"  # noqa: S608 (the schema's names)
    try:
        found = damaged.execute(statement, (source,)).fetchone()[0]
    except sqlite3.DatabaseError:
        return MAX_NUMBER
    return found if isinstance(found, int) and 0 <= found < MAX_NUMBER << 12 else MAX_NUMBER
