"""Whether an open file still stands where it was opened: what is written into a deleted one is lost."""

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


class Place:
    """The place of a file that is open for writing.

    Attributes:
      given_up: whether writing goes on although the file is gone, as what is written will be copied.
    """

    def __init__(self, path: Path) -> None:
        """Takes a file that was just opened."""
        self._path = path
        self._opened = path.stat()
        self.given_up = False

    def check(self) -> None:
        """Raises StoreMovedError if the name of the file, or of its log, stands for something else now."""
        if self.given_up:
            return
        try:
            found = self._path.stat()
            if not os.path.samestat(found, self._opened):
                raise StoreMovedError(f"{self._path} was replaced by another file while it was open")
            self._path.with_name(self._path.name + "-wal").stat()
        except FileNotFoundError as error:
            raise StoreMovedError(f"{error.filename} was moved or deleted while it was open") from None
        except OSError as error:
            raise StoreError(f"{self._path}: cannot look at it: {error.strerror}") from None

    def leave(self, connection: sqlite3.Connection) -> None:
        """Empties the log if the file is gone: SQLite would take it for that of the file that has the name.

        The file gets all that was in the log, wherever it is now.
        """
        try:
            self.given_up = False
            self.check()
        except StoreError:
            with suppress(sqlite3.Error):
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def copy_elsewhere(connection: sqlite3.Connection, path: Path) -> Path:
    """Returns a new file that holds everything of a connection whose own file is gone.

    Raises:
      StoreError: if it cannot be written anywhere.
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
    """Yields files that do not exist yet: beside the one that is gone, then where one may write at all."""
    for folder in (path.parent, Path.cwd(), Path(tempfile.gettempdir())):
        number = 0
        while (copy := folder / f"{path.stem}.rescued{number or ''}{path.suffix}").exists():
            number += 1
        if folder.is_dir():
            yield copy
