"""Opens all connections to SQLite, and bounds the steps of their statements."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Container
from contextlib import suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .side_files import file_bytes
from .tables.schema import TABLES

BUSY_SECONDS = 10.0
PULSE = 1 << 20  # steps of SQLite's virtual machine between two checks of the limit: some 10 ms
LEAST_STEPS = 300_000_000  # that any statement may take: some seconds
STEPS_PER_BYTE = 300  # of the file; a join takes some 100 steps for a row of 20 bytes or more
MEASURE_EVERY = 1024  # statements between two measurements of the file's size


class BoundedConnection(sqlite3.Connection):
    """A connection that interrupts a statement after more steps than the size of its file explains."""

    path: Path
    is_bounded = True
    _left = 0  # statements until the file is measured again
    _pulses = LEAST_STEPS // PULSE

    def remove_limits(self) -> None:
        """Removes the step limit and the authorizer, so that two threads may use the connection at once.

        With them, two threads would deadlock: SQLite holds its lock while it calls a handler, which needs
        Python's lock, and Python holds its lock while it sets a handler, which needs SQLite's. Check the
        schema first.
        """
        self.is_bounded = False
        self.set_progress_handler(None, 0)
        self.set_authorizer(None)

    def execute(self, *args: Any) -> sqlite3.Cursor:  # noqa: D102
        self._restart_count()
        return super().execute(*args)

    def executemany(self, *args: Any) -> sqlite3.Cursor:  # noqa: D102
        self._restart_count()
        return super().executemany(*args)

    def executescript(self, *args: Any) -> sqlite3.Cursor:  # noqa: D102
        self._restart_count()
        return super().executescript(*args)

    def _restart_count(self) -> None:
        """Restarts the count of steps.

        The counter is not a Python function: a signal that arrived inside one would be lost.
        """
        if not self.is_bounded:
            return
        if not self._left:
            self._left = MEASURE_EVERY
            with suppress(OSError):  # if the file is gone, its last size counts
                self._pulses = (LEAST_STEPS + STEPS_PER_BYTE * file_bytes(self.path)) // PULSE
        self._left -= 1
        self.set_progress_handler(chain(repeat(0, self._pulses), repeat(1)).__next__, PULSE)


def uri_of(path: Path, query: str) -> str:
    """Returns an absolute path and a query as SQLite's URI; `Path.as_uri` knows no long path of Windows.

    >>> uri_of(Path("/games/my file.graph"), "mode=ro").endswith("my%20file.graph?mode=ro")
    True
    """
    return f"file:{quote(os.fsencode(path))}?{query}"


def connect(path: Path, query: str = "mode=rwc") -> BoundedConnection:
    """Returns a connection to a database from an untrusted source.

    The schema cannot call a harmful function or virtual table, and SQLite checks the cells of each page that
    it reads. A view in place of a table is not read. A statement takes no more steps than the size of the
    file explains. From Python 3.12 on, which offers that mode, SQL cannot write the schema or shadow tables;
    before, this program's own statements do not, and `query.sql` passes no others.

    Args:
      path: the file. query: how SQLite opens it, as in a URI.
    """
    connection = sqlite3.connect(
        uri_of(path, query),
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=BoundedConnection,
    )
    connection.path = path
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    if sys.version_info >= (3, 12):
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
    keep_out(connection, ())
    return connection


def keep_out(connection: sqlite3.Connection, impostors: Container[str | None]) -> None:
    """Makes SQLite refuse to read the given tables, and views that have the name of a graph file's table."""

    def authorize(action: int, first: str | None, _: str | None, __: str | None, within: str | None) -> int:
        if within in TABLES or (action == sqlite3.SQLITE_READ and first in impostors):
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    connection.set_authorizer(authorize)
