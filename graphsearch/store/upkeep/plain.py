"""The plain tables of a damaged file, copied as far as they can be read: their shape is the schema's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from types import UnionType

from ..migrations import migrations
from .damaged import Row, bisected, rows_by_id, rows_by_key
from .sources import fits

# tables that other modules take care of
OWN = frozenset({"store_info", "evaluator", "run", "segment", "chunk", "block", "sqlite_sequence"})
MAX_NUMBER = 1 << 20  # places and books are looked for below this if the table cannot say how far they go
MAX_ID = 1 << 62
PARTS = 2048  # of what is looked for in one book or source, the part that is given up around a damaged page

_KINDS: dict[str, type] = {"TEXT": str, "INTEGER": int, "REAL": float, "BLOB": bytes}


@dataclass(frozen=True, slots=True)
class PlainTable:
    """A plain table: its columns, the kinds of their values, and the columns of its primary key."""

    name: str
    columns: tuple[str, ...]
    kinds: tuple[type | UnionType, ...]
    key: tuple[str, ...]


def plain_tables(connection: sqlite3.Connection) -> list[PlainTable]:
    """Returns the plain tables of a file of the newest format."""
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    return [_table(connection, name) for (name,) in rows.fetchall() if name not in OWN]


def _table(connection: sqlite3.Connection, name: str) -> PlainTable:
    rows = connection.execute(f"PRAGMA table_info({name})").fetchall()
    columns, kinds, key = [], [], {}
    for _, column, kind, not_null, _, place in rows:
        columns.append(column)
        kinds.append(_KINDS[kind] if not_null or place else _KINDS[kind] | None)
        if place:
            key[place] = column
    return PlainTable(name, tuple(columns), tuple(kinds), tuple(key[place] for place in sorted(key)))


def tables_of_format(version: int) -> set[str]:
    """Returns the names of the tables that files of a format have."""
    with closing(sqlite3.connect(":memory:")) as blank:
        for number, script in sorted(migrations().items()):
            if number <= version:
                blank.executescript(script)
        rows = blank.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    return {name for (name,) in rows}


def copy_table(damaged: sqlite3.Connection, connection: sqlite3.Connection, table: PlainTable) -> bool:
    """Copies the rows of a table that can be read and make sense; returns whether there were any others."""
    lost_any = False
    marks = ", ".join("?" * len(table.columns))
    for rows, lost in _rows(damaged, table):
        good = [row for row in rows if fits(row, table.kinds)]
        lost_any |= lost or len(good) < len(rows)
        connection.executemany(
            f"INSERT OR REPLACE INTO {table.name} ({', '.join(table.columns)})"  # noqa: S608 (the schema's names)
            f" VALUES ({marks})",
            good,
        )
    return lost_any


def _rows(damaged: sqlite3.Connection, table: PlainTable) -> Iterator[tuple[list[Row], bool]]:
    """Yields the readable rows of a table, and whether any could not be read."""
    columns = ", ".join(table.columns)
    first = table.key[0]
    if first == "key":
        yield from rows_by_key(damaged, table.name, columns)
    elif len(table.key) == 1:
        yield rows_by_id(damaged, table.name, columns)
    else:
        numbers, lost = _numbers(damaged, table.name, first)
        yield [], lost
        for number in numbers:
            yield from _rows_of(damaged, table, columns, number)


def _numbers(damaged: sqlite3.Connection, table: str, column: str) -> tuple[list[int], bool]:
    """Returns the values of the first column of a key, as far as they can be read; whether any cannot.

    From one value to the next by the key, from both ends: only a value whose rows begin and end in damaged
    pages is missed, unless the table that it is a row of, `book` or `source`, still has it.
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
    """Returns the distinct values of a column in one direction, up to the first damage; whether any is."""
    found: list[int] = []
    statement = f"SELECT {column} FROM {table} WHERE {column} {sign} ? ORDER BY {column} {order} LIMIT 1"  # noqa: S608
    last = -1 if sign == ">" else MAX_ID
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
    damaged: sqlite3.Connection, table: PlainTable, columns: str, number: int
) -> Iterator[tuple[list[Row], bool]]:
    """Yields the readable rows with one value in the first column of the key, by slices of the second."""
    first, second = table.key[:2]
    is_key = second == "key"

    def fetch(low: int, high: int) -> list[Row]:
        ends = (f"{low:016x}", f"{high - 1:016x}") if is_key else (low, high - 1)
        return damaged.execute(
            f"SELECT {columns} FROM {table.name}"  # noqa: S608 (the schema's names)
            f" WHERE {first} = ? AND {second} >= ? AND {second} <= ? ORDER BY {first}, {second}",
            (number, *ends),
        ).fetchall()

    top = 1 << 64 if is_key else _last(damaged, table.name, number) + 1
    for rows, lost in bisected(fetch, 0, top, max(top // PARTS, 1)):
        yield rows, bool(lost)


def _last(damaged: sqlite3.Connection, table: str, source: int) -> int:
    """Returns the last place of a source; a guess if that cannot be read."""
    try:
        found = damaged.execute(f"SELECT max(place) FROM {table} WHERE source = ?", (source,)).fetchone()[0]  # noqa: S608
    except sqlite3.DatabaseError:
        return MAX_NUMBER
    return found if isinstance(found, int) and 0 <= found < MAX_NUMBER << 12 else MAX_NUMBER
