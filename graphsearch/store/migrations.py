"""Formats of graph files: what marks a file as ours, and the steps from one format to the next."""

from __future__ import annotations

import re
import sqlite3
from functools import cache
from importlib import resources
from pathlib import Path

from ..errors import SchemaVersionError, StoreError

APPLICATION_ID = 0x47724772  # "GrGr", big-endian, at offset 68 of the file


@cache
def migrations() -> dict[int, str]:
    """Returns the SQL that leads to each format, by format number."""
    folder = resources.files("graphsearch.schema.migrations")
    files = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return {int(file.name[:4]): file.read_text("utf-8") for file in sorted(files, key=lambda file: file.name)}


# a table that refuses values of other types; a library that is older does not know the word
STRICT = sqlite3.sqlite_version_info >= (3, 37)
_TABLE_END = re.compile(r"^\)( WITHOUT ROWID)?;$", re.MULTILINE)

FORMAT_VERSION = 6
OLDEST_READ = 1  # older files are migrated by whoever writes them, and refused to readers


def format_of(connection: sqlite3.Connection, path: Path) -> int:
    """Returns the format number of an open file.

    Raises:
      StoreError: if it is a database of something else.
      SchemaVersionError: if its format is newer than this version knows.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID and not connection.execute("PRAGMA page_count").fetchone()[0]:
        raise StoreError(f"{path} is an empty file, not a graph; choose another file")
    if application != APPLICATION_ID:
        raise StoreError(f"{path} is an SQLite file but not a graph of graphsearch; choose another file")
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > FORMAT_VERSION:
        raise SchemaVersionError(
            f"{path} has format {version}, this version reads up to {FORMAT_VERSION}; use a newer graphsearch"
        )
    return version


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


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Brings a file from format `version` (0: an empty file) to the newest, each step one transaction."""
    import sqlite_utils

    database = sqlite_utils.Database(connection)
    for number, script in sorted(migrations().items()):
        if number > version:
            marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {number};"
            database.executescript(f"BEGIN IMMEDIATE;\n{marks}\n{strict(script)}\nCOMMIT;")
