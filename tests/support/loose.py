"""Files of strangers: tables that take values of any type."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

_CHECK = re.compile(r" CHECK \(.*\)(?=,?$)|,\n  CHECK \(.*\)(?=,?$)", re.MULTILINE)


def loosened(sql: str) -> str:
    return _CHECK.sub("", sql.replace(" STRICT, WITHOUT", " WITHOUT").replace(" STRICT", ""))


def loosen(path: Path) -> Path:
    """Makes the tables of a file neither STRICT nor checked any more, and returns its path."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        tables = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall()
        for name, sql in tables:
            connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = ?", (loosened(sql), name))
        connection.execute("PRAGMA writable_schema = RESET")
    return path
