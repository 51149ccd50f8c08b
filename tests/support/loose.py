"""Files whose tables take values of any type, as those of older versions and of strangers do."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def loosen(path: Path) -> Path:
    """Makes the tables of a file not STRICT any more, and returns its path."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        plain = "replace(replace(sql, ' STRICT, WITHOUT', ' WITHOUT'), ' STRICT', '')"
        connection.execute(f"UPDATE sqlite_schema SET sql = {plain} WHERE type = 'table'")
        connection.execute("PRAGMA writable_schema = RESET")
    return path
