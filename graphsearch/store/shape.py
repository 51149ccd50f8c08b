"""Whether the tables of a file are those of a graph: a file may come from anywhere, its schema too."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ..errors import CorruptRecordError
from .format import format_of
from .tables.columns import TABLES

Shape = dict[str, tuple[str, int]]  # column -> declared type, place in the primary key from 1, or 0

_OBJECTS = "SELECT type, name, rootpage, sql FROM sqlite_schema WHERE type IN ('table', 'view', 'trigger')"
_COLUMNS = """
SELECT m.name, x.name, x.type, x.pk, x.hidden FROM sqlite_schema AS m, pragma_table_xinfo(m.name) AS x
WHERE m.type = 'table' AND m.rootpage > 0
"""


def check_schema(connection: sqlite3.Connection, path: Path, *, writing: bool = True) -> None:
    """Raises CorruptRecordError unless a file has the tables of its format, as they should be.

    Tables, views and indexes of others do no harm. A trigger acts when something is written, so a file that
    has one is only read.
    """
    found = faults(connection, path, writing=writing)
    if found:
        raise CorruptRecordError(f"{path}: {found[0]}; `graphsearch store salvage` keeps what is sound")


def faults(connection: sqlite3.Connection, path: Path, *, writing: bool = True) -> list[str]:
    """Returns what is wrong with the tables of a file, and which triggers it has if it is to be written."""
    format_of(connection, path)
    objects = connection.execute(_OBJECTS).fetchall()
    found = []
    triggers = [str(name) for kind, name, _, _ in objects if kind == "trigger"]
    if triggers and writing:
        found.append(f"it has triggers ({', '.join(triggers)}), which no graph file has")
    shapes = _shapes(connection)
    for name, table in TABLES.items():
        wanted = {
            column: (one.kind, 1 + table.key.index(column) if column in table.key else 0)
            for column, one in table.columns.items()
        }
        if name not in shapes:
            found.append(f"no such table: {name}")
        elif shapes[name] != wanted:
            found.append(f"its table {name} is not that of a graph file")
    return found


def _shapes(connection: sqlite3.Connection) -> dict[str, Shape]:
    """Returns the columns of every real table; those of views and virtual tables are none."""
    shapes: dict[str, Shape] = {}
    for table, column, kind, place, hidden in connection.execute(_COLUMNS):
        shapes.setdefault(table, {})[column] = (kind if not hidden else "hidden", place)
    return shapes
