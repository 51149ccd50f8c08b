"""The format of graph files: the mark of the file, the SQL of its tables, and the check of its schema."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ..base.errors import CorruptRecordError, SchemaVersionError, StoreError
from .tables.schema import TABLES, tables_sql

APPLICATION_ID = 0x47724772  # "GrGr", big-endian, at offset 68 of the file
FORMAT_VERSION = 2


def format_of(connection: sqlite3.Connection, path: Path) -> int:
    """Returns the format number of an open file, which is FORMAT_VERSION.

    Raises:
      StoreError: if it is the database of another program.
      SchemaVersionError: if it has another format number.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID and not connection.execute("PRAGMA page_count").fetchone()[0]:
        raise StoreError(f"{path} is an empty file, not a graph; choose another file")
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is an SQLite file but not a graph of graphsearch; choose another file")
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    check_format(version, path)
    return version


def check_format(version: int, path: Path) -> None:
    """Raises SchemaVersionError for a number other than FORMAT_VERSION."""
    if version != FORMAT_VERSION:
        raise SchemaVersionError(
            f"{path} has format {version}, this version of graphsearch reads format {FORMAT_VERSION};"
            " use the version that wrote it, or another file"
        )


def create_tables(connection: sqlite3.Connection) -> None:
    """Turns an empty file into a graph file, in one transaction."""
    marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT_VERSION};"
    connection.executescript(f"BEGIN IMMEDIATE;\n{marks}\n{tables_sql()}\nCOMMIT;")


Shape = dict[str, tuple[str, int]]  # column -> declared type, place in the primary key from 1, or 0

_OBJECTS = "SELECT type, name, rootpage, sql FROM sqlite_schema WHERE type IN ('table', 'view', 'trigger')"
_COLUMNS = """
SELECT m.name, x.name, x.type, x.pk, x.hidden FROM sqlite_schema AS m, pragma_table_xinfo(m.name) AS x
WHERE m.type = 'table' AND m.rootpage > 0
"""


def check_schema(connection: sqlite3.Connection, path: Path, *, writing: bool = True) -> None:
    """Raises CorruptRecordError unless a file has exactly the columns of its format in every table.

    Other tables, views and indexes are allowed. A trigger runs when something is written, so a file that has
    one can only be read.
    """
    found = faults(connection, path, writing=writing)
    if found:
        raise CorruptRecordError(f"{path}: {found[0]}; `graphsearch store salvage` keeps what is sound")


def faults(connection: sqlite3.Connection, path: Path, *, writing: bool = True) -> list[str]:
    """Returns a line for each fault of a file's tables, and one for its triggers if `writing`."""
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
    """Returns the columns of every real table; views and virtual tables are left out."""
    shapes: dict[str, Shape] = {}
    for table, column, kind, place, hidden in connection.execute(_COLUMNS):
        shapes.setdefault(table, {})[column] = (kind if not hidden else "hidden", place)
    return shapes
