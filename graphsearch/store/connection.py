"""Connections to SQLite: all are made here."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Container
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from .tables.columns import TABLES

BUSY_SECONDS = 10.0
PULSE = 1 << 20  # steps of SQLite's machine between two looks at what a statement may still take: some 10 ms
LEAST_STEPS = 300_000_000  # of any statement: some seconds
STEPS_PER_BYTE = 300  # of the file; a join takes some 100 steps for a row of 20 bytes or more
MEASURE_EVERY = 1024  # statements, between two looks at the size of the file


class BoundedConnection(sqlite3.Connection):
    """A connection each statement of which ends: as `interrupted` after more steps than its file explains."""

    path: Path
    is_bounded = True  # until somebody else sees to it
    _left = 0  # statements until the file is measured
    _pulses = 0

    def trust(self) -> None:
        """Ends the bounds: from now on the connection may be used by two threads at once.

        SQLite holds a lock while it asks what needs Python's, and Python holds its own while it sets what
        SQLite asks: two threads would wait for each other. The schema must have been checked.
        """
        self.is_bounded = False
        self.set_progress_handler(None, 0)
        self.set_authorizer(None)

    def execute(self, *args: Any) -> sqlite3.Cursor:  # noqa: D102
        self._wind()
        return super().execute(*args)

    def executemany(self, *args: Any) -> sqlite3.Cursor:  # noqa: D102
        self._wind()
        return super().executemany(*args)

    def executescript(self, *args: Any) -> sqlite3.Cursor:  # noqa: D102
        self._wind()
        return super().executescript(*args)

    def _wind(self) -> None:
        """Begins to count anew.

        What counts is no Python function: a signal that came in one would be lost.
        """
        if not self.is_bounded:
            return
        if not self._left:
            self._left = MEASURE_EVERY
            self._pulses = (LEAST_STEPS + STEPS_PER_BYTE * _bytes_of(self.path)) // PULSE
        self._left -= 1
        self.set_progress_handler(chain(repeat(0, self._pulses), repeat(1)).__next__, PULSE)


def _bytes_of(path: Path) -> int:
    size = 0
    for name in (path, path.with_name(path.name + "-wal")):
        try:
            size += name.stat().st_size
        except OSError:
            continue
    return size


def connect(path: Path, query: str = "mode=rwc", *, is_ours: bool = False) -> BoundedConnection:
    """Returns a connection to a database that may come from anywhere; all connections are made here.

    What its schema says calls no function and no virtual table that could do harm, and cells are checked when
    a page is read. A view in place of a table is not read. A statement takes no more steps than the size of
    the file explains. From Python 3.12 on, which offers that mode, SQL cannot write the schema or shadow
    tables; before, this program's statements do not, and `query.sql` lets no others pass.

    Args:
      path: the file. query: how SQLite opens it, as in an URI.
      is_ours: whether this process has just made the file, for itself: then its statements have no bound.
    """
    connection = sqlite3.connect(
        f"{path.as_uri()}?{query}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=BoundedConnection,
    )
    connection.path, connection.is_bounded = path, not is_ours
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    if not is_ours:
        keep_out(connection, ())
    return connection


def keep_out(connection: sqlite3.Connection, impostors: Container[str | None]) -> None:
    """Has SQLite refuse to look into a view that has the name of a table, and to read the given tables."""

    def authorize(action: int, first: str | None, _: str | None, __: str | None, within: str | None) -> int:
        if within in TABLES or (action == sqlite3.SQLITE_READ and first in impostors):
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    connection.set_authorizer(authorize)
