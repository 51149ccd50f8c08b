"""Holding every row of every table to what its columns may be (`tables/columns.py`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from ..tables.column import Column
from ..tables.columns import MAX_BLOCK_BYTES, TABLES, Table
from ..tables.rows import Row, shown

# what holds blocks is asked only for rows that cannot be; `transpositions/` checks its own tables
_WHERE = {"block": f"WHERE id < 1 OR typeof(data) <> 'blob' OR length(data) > {MAX_BLOCK_BYTES}"}
_ELSEWHERE = frozenset({"entry_piece", "entry_run", "entry_iteration"})


def check(connection: sqlite3.Connection, path: Path, report: Callable[[str], object]) -> None:
    """Reports every row that its table cannot hold: table, row, column, what was found and expected.

    Args:
      connection: in which texts that are no UTF-8 can be read from now on.
      path: the file. report: called with one line for each.
    """
    connection.text_factory = lenient
    for name, table in TABLES.items():
        if name not in _ELSEWHERE:
            for line in _faults(connection, name, table):
                report(f"{path}: {line}")


def lenient(data: bytes) -> str:
    """Returns text whose bytes may be no UTF-8: then it holds what no text may."""
    return data.decode("utf-8", "surrogateescape")


def _faults(connection: sqlite3.Connection, name: str, table: Table) -> Iterator[str]:
    columns = table.columns
    asked = ", ".join(_asked(column, one) for column, one in columns.items())
    found = connection.execute(f"SELECT {asked} FROM {name} {_WHERE.get(name, '')}")  # noqa: S608 (constants)
    tests = [_holds(one) for one in columns.values()]
    for row in found:
        for (column, one), test, value in zip(columns.items(), tests, row, strict=True):
            if not test(value):
                where = _name_of(table, tuple(columns), row)
                yield f"table {name}, row {where}: {column} is {shown(value)}, expected {one.form}"


def _asked(column: str, one: Column) -> str:
    """Returns what is asked of a column: of a BLOB only whether it is one, and short enough."""
    if one.kind != "BLOB":
        return column
    return f"iif(typeof({column}) = 'blob' AND length({column}) <= {one.most}, '', typeof({column}))"


def _holds(one: Column) -> Callable[[object], bool]:
    return one.holds if one.kind != "BLOB" else lambda value: value == ""


def _name_of(table: Table, columns: tuple[str, ...], row: Row) -> str:
    return ", ".join(f"{key} {shown(row[columns.index(key)])}" for key in table.key)
