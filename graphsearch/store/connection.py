"""Connections to SQLite: all are made here."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

BUSY_SECONDS = 10.0


def connect(path: Path, query: str = "mode=rwc") -> sqlite3.Connection:
    """Returns a connection to a database that may come from anywhere; all connections are made here.

    What its schema says calls no function and no virtual table that could do harm, and cells are checked when
    a page is read. From Python 3.12 on, which offers that mode, SQL cannot write the schema or shadow tables;
    before, this program's statements do not, and `query.sql` lets no others pass.

    Args:
      path: the file. query: how SQLite opens it, as in an URI.
    """
    connection = sqlite3.connect(
        f"{path.as_uri()}?{query}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    return connection
