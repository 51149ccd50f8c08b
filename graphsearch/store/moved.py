"""Checks that an open file is still at its path: data written into a deleted file is lost."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from ..base.errors import StoreError, StoreMovedError
from .connection import connect
from .file import sql_errors
from .side_files import log_of


class Place:
    """The path of a file that is open for writing, and the identity of the file at opening.

    Attributes:
      given_up: whether writing continues although the file is gone, because its content will be copied.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = path.stat()
        self.given_up = False

    def check(self) -> None:
        """Raises StoreMovedError if the path leads to another file now, or the file or its log is missing."""
        if self.given_up:
            return
        try:
            found = self._path.stat()
            if not os.path.samestat(found, self._opened):
                raise StoreMovedError(f"{self._path} was replaced by another file while it was open")
            log_of(self._path).stat()
        except FileNotFoundError as error:
            raise StoreMovedError(f"{error.filename} was moved or deleted while it was open") from None
        except OSError as error:
            raise StoreError(f"{self._path}: cannot look at it: {error.strerror}") from None

    def leave(self, connection: sqlite3.Connection) -> None:
        """Copies the log into the file and empties it, if the file is no longer at its path.

        Otherwise SQLite would apply the log to a new file at that path.
        """
        try:
            self.given_up = False
            self.check()
        except StoreError:
            with suppress(sqlite3.Error):
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def copy_elsewhere(connection: sqlite3.Connection, path: Path) -> Path:
    """Copies the database of a connection that has lost its file; returns the path of the copy.

    Raises:
      StoreError: if the copy cannot be written anywhere.
    """
    failure = StoreError(f"{path}: it cannot be copied")
    for copy in _new_names(path):
        try:
            with sql_errors(copy, "write to it"), closing(connect(copy)) as target:
                connection.backup(target)
        except StoreError as error:
            failure = error
        else:
            return copy
    raise failure


def _new_names(path: Path) -> Iterator[Path]:
    """Yields unused paths for the copy: beside the lost file, in the working folder, in the temporary one."""
    for folder in (path.parent, Path.cwd(), Path(tempfile.gettempdir())):
        number = 0
        while (copy := folder / f"{path.stem}.rescued{number or ''}{path.suffix}").exists():
            number += 1
        if folder.is_dir():
            yield copy
