"""Short transactions in the plain tables that no writer of records touches.

They need no lock: people can change their queue, studies and notes while a search writes the file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .file import check_is_file, open_beside, open_reader, real_path, sql_errors
from .tables.edits import recorded

WAIT_SECONDS = 60.0  # for a transaction of another process


@contextmanager
def opened_to_change(path: str | os.PathLike[str]) -> Iterator[tuple[sqlite3.Connection, Path]]:
    """Yields a connection to a graph file, and its path without links.

    Raises:
      StoreError: if the file cannot be written.
    """
    real = real_path(path)
    check_is_file(real, create=False)
    with closing(open_beside(real, wait=WAIT_SECONDS)) as connection:
        yield connection, real


@contextmanager
def transaction(connection: sqlite3.Connection, path: Path) -> Iterator[None]:
    """Runs the body as one transaction; rolls it back if the body raises.

    Raises:
      StoreError: if the file cannot be written; the file is unchanged.
    """
    try:
        with sql_errors(path, "write to it"):
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def changing(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """Yields a connection in one transaction, as `opened_to_change` and `transaction` do."""
    with opened_to_change(path) as (connection, real), transaction(connection, real):
        yield connection


@contextmanager
def editing(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """Yields a connection as `changing` does; what it changes is logged as one edit, which can be undone."""
    with changing(path) as connection, recorded(connection):
        yield connection


@contextmanager
def opened_to_read(path: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """Yields a connection in one read transaction on the plain tables of a graph.

    Raises:
      StoreError: if the file cannot be read.
    """
    real = real_path(path)
    check_is_file(real, create=False)
    with closing(open_reader(real)) as connection, sql_errors(real, "read it"):
        connection.execute("BEGIN")
        yield connection
