"""The plain tables of a cluster for SQL: those of the first file, and the roots of all files."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from ..file import sql_errors
from ..format import tables_sql
from ..store import Store
from ..tables.columns import TABLES

TOP_TABLES = ("top_position", "top_edge")  # a position is with its record
ROOT_TABLES = ("root", "root_history", *TOP_TABLES)  # a root is with its owner
_VIEW = re.compile(r"^CREATE (VIEW \w+ AS\n.*?);$", re.MULTILINE | re.DOTALL)


def gather_tables(connection: sqlite3.Connection, parts: Sequence[Store], path: Path) -> None:
    """Has a connection to the first file find the rows of all files in the tables of roots, and in the views.

    Temporary tables and views of the same names hide those of the file; they come from this program, since
    SQLite trusts what is temporary.

    Args:
      parts: the open files; their rows are copied, some hundred for each root. path: of the cluster.
    """
    with sql_errors(path, "read it"):
        connection.execute("PRAGMA query_only = 0")
        for table in ROOT_TABLES:
            _gather(connection, parts, table)
        for view in _VIEW.findall(tables_sql()):
            connection.execute(f"CREATE TEMP {view}")
        connection.execute("PRAGMA query_only = 1")


def _gather(connection: sqlite3.Connection, parts: Sequence[Store], table: str) -> None:
    """Makes the temporary table; of two rows with one key that of the later file counts, as in a merge."""
    shape = TABLES[table]
    columns = shape.columns
    kinds = ", ".join(f"{name} {column.kind}" for name, column in columns.items())
    connection.execute(f"CREATE TEMP TABLE {table} ({kinds}, PRIMARY KEY ({', '.join(shape.key)}))")
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    for part in parts:
        rows = part.connection.execute(f"SELECT {names} FROM {table}")  # noqa: S608 (constants)
        connection.executemany(f"INSERT OR REPLACE INTO temp.{table} VALUES ({marks})", rows)  # noqa: S608
