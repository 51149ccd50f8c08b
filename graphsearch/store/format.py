"""The format of graph files: what marks a file as ours, and the SQL that makes its tables."""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from importlib import resources
from pathlib import Path

from ..errors import SchemaVersionError, StoreError

APPLICATION_ID = 0x47724772  # "GrGr", big-endian, at offset 68 of the file
FORMAT_VERSION = 1

# a table that refuses values of other types; a library that is older does not know the word
STRICT = sqlite3.sqlite_version_info >= (3, 37)
_TABLE_END = re.compile(r"^\)( WITHOUT ROWID)?;$", re.MULTILINE)


@cache
def tables_sql() -> str:
    """Returns the SQL that makes the tables, indexes and views."""
    return (resources.files("graphsearch.schema") / "tables.sql").read_text("utf-8")


def format_of(connection: sqlite3.Connection, path: Path) -> int:
    """Returns the format number of an open file, which is FORMAT_VERSION.

    Raises:
      StoreError: if it is a database of something else.
      SchemaVersionError: if its format is another one.
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


def strict(script: str) -> str:
    """Returns SQL whose tables are STRICT, as far as the library can.

    >>> strict("CREATE TABLE t (\\n  a TEXT\\n) WITHOUT ROWID;")
    'CREATE TABLE t (\\n  a TEXT\\n) STRICT, WITHOUT ROWID;'
    """
    return (
        _TABLE_END.sub(lambda end: f") STRICT{',' * bool(end[1])}{end[1] or ''};", script)
        if STRICT
        else script
    )


def create_tables(connection: sqlite3.Connection) -> None:
    """Makes an empty file a graph file, in one transaction."""
    marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT_VERSION};"
    script = f"BEGIN IMMEDIATE;\n{marks}\n{strict(tables_sql())}\nCOMMIT;"
    connection.executescript(script)
