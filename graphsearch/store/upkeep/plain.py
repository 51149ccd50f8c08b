"""The plain tables of a damaged file, copied as far as they can be read: their shape is the schema's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ..tables.columns import TABLES
from ..tables.rows import fault_of, insert
from .damaged import Row, bisected, rows_by_id, rows_by_key

# tables that other modules take care of
OWN = frozenset({"store_info", "evaluator", "run", "segment", "chunk", "block"})
PLAIN = tuple(name for name in TABLES if name not in OWN)
MAX_NUMBER = 1 << 20  # places and books are looked for below this if the table cannot say how far they go
MAX_ID = 1 << 62
PARTS = 2048  # of what is looked for in one book or source, the part that is given up around a damaged page


def copy_table(damaged: sqlite3.Connection, connection: sqlite3.Connection, name: str) -> str:
    """Copies the rows that can be read and make sense; returns what is lost, empty if nothing is."""
    columns = tuple(TABLES[name].columns)
    lost_any, copied, faults = False, 0, list[str]()
    for rows, lost in _rows(damaged, name, TABLES[name].key, ", ".join(columns)):
        found = [(row, fault_of(name, dict(zip(columns, row, strict=True)))) for row in rows]
        good = [row for row, fault in found if not fault]
        faults += [fault for _, fault in found if fault]
        lost_any |= lost
        copied += len(good)
        insert(connection, name, columns, good)
    if faults:
        return f"{len(faults):,} of its rows are damaged; of the first, {faults[0]}"
    return "some of its rows cannot be read" if lost_any or copied != _size(damaged, name) else ""


def _size(damaged: sqlite3.Connection, name: str) -> int:
    """Returns how many rows a table has, also those that no slice of keys meets; -1 if unknown."""
    try:
        return int(damaged.execute(f"SELECT count(*) FROM {name}").fetchone()[0])  # noqa: S608 (constants)
    except sqlite3.DatabaseError:
        return -1


def _rows(
    damaged: sqlite3.Connection, name: str, key: tuple[str, ...], columns: str
) -> Iterator[tuple[list[Row], bool]]:
    """Yields the readable rows of a table, and whether any could not be read."""
    first = key[0]
    if first == "key":
        yield from rows_by_key(damaged, name, columns)
    elif len(key) == 1:
        yield rows_by_id(damaged, name, columns)
    else:
        numbers, lost = _numbers(damaged, name, first)
        yield [], lost
        for number in numbers:
            yield from _rows_of(damaged, name, key, columns, number)


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
    damaged: sqlite3.Connection, name: str, keys: tuple[str, ...], columns: str, number: int
) -> Iterator[tuple[list[Row], bool]]:
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
    for rows, lost in bisected(fetch, 0, top, max(top // PARTS, 1)):
        yield rows, bool(lost)


def _last(damaged: sqlite3.Connection, table: str, column: str, source: int) -> int:
    """Returns the last place of a source; a guess if that cannot be read."""
    statement = f"SELECT max({column}) FROM {table} WHERE source = ?"  # noqa: S608 (the schema's names)
    try:
        found = damaged.execute(statement, (source,)).fetchone()[0]
    except sqlite3.DatabaseError:
        return MAX_NUMBER
    return found if isinstance(found, int) and 0 <= found < MAX_NUMBER << 12 else MAX_NUMBER
