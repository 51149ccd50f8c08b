"""The plain tables of a graph file as a Database of sqlite-utils."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..store.file import real_path
from .sql import Clock, Functions, opened

if TYPE_CHECKING:
    from sqlite_utils import Database


@contextmanager
def plain_tables(path: str | os.PathLike[str]) -> Iterator[Database]:
    """Yields the plain tables and views of a file or cluster, read-only, with the functions of `query.sql`.

    Args:
      path: the graph file; a search may write it meanwhile.

    Raises:
      StoreError: if the file cannot be read.
      sqlite3.OperationalError: for a statement that writes.
    """
    from sqlite_utils import Database

    with (
        opened(real_path(path), 0) as connection,
        Functions(path, Clock(connection, 0)) as functions,
    ):
        functions.add_to(connection)
        yield Database(connection, recursive_triggers=False)
