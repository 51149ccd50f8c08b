"""Saves the queue in the file: a thread writes its changes, so that searches do not wait for them.

The folder FILE-queue beside the file has the uploads and exports of tasks. Only one server keeps the queue of
a file; another one has its queue in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from sqlite3 import Connection

from ...base.errors import GraphSearchError, StoreError
from ...store.file import changing, lock_of, opened_to_read, release
from ...store.tables.studies import TaskRow, all_tasks, drop_tasks, forget_edits, put_tasks

ENDING = "-queue"  # of the folder's name
LOCK = "lock"  # a file in it
READ_ONLY = "the file is served for reading only, so the queue is lost when graphsearch serve ends"
TAKEN = "another graphsearch serve saves the queue of this file; this queue is lost when this one ends"


class KeptQueue:
    """The table `task` of a file.

    Attributes:
      problem: why the queue is in memory only; empty if the file keeps it.
      folder: for files of tasks; None if the queue is in memory only.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        """Prepares the queue of a file; `begin` locks it."""
        self.problem = READ_ONLY if read_only else ""
        self.folder: Path | None = None
        self._path = path
        self._writer = ThreadPoolExecutor(1, "graphsearch-queue")
        self._lock: int | None = None

    def begin(self) -> None:
        """Locks the queue of the file and starts to save it, unless another server has it.

        Edits of earlier sessions cannot be undone any more.
        """
        if not self.problem and not os.access(self._path, os.W_OK):
            self.problem = READ_ONLY
        if not self.problem:
            self._lock = self._locked(self._path.with_name(self._path.name + ENDING))
        if self.folder is not None:
            with suppress(StoreError), changing(self._path) as connection:
                forget_edits(connection)

    def _locked(self, folder: Path) -> int | None:
        """Makes the folder and returns its lock; None, with `problem` set, if that fails."""
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = lock_of(folder / LOCK)
        except OSError as error:
            self.problem = f"the queue cannot be saved: {folder}: {error.strerror or error}"
            return None
        if found is None:
            self.problem = TAKEN
            return None
        self.folder = folder
        return found

    def rows(self) -> list[TaskRow]:
        """Returns the tasks that the file keeps; none if it cannot be read."""
        if self.folder is None:
            return []
        try:
            with opened_to_read(self._path) as connection:
                return all_tasks(connection)
        except StoreError as error:
            self.problem = str(error)
            return []

    def put(self, row: TaskRow) -> None:
        """Queues a task to be written."""
        self._change(partial(put_tasks, tasks=[row]))

    def drop(self, number: int) -> None:
        """Queues a task to be deleted."""
        self._change(partial(drop_tasks, numbers=[number]))

    def _change(self, change: Callable[[Connection], None]) -> None:
        if self.folder is not None:
            self._writer.submit(self._write, change)

    def _write(self, change: Callable[[Connection], None]) -> None:
        try:
            with changing(self._path) as connection:
                change(connection)
            self.problem = ""
        except (GraphSearchError, OSError) as error:
            self.problem = f"the queue cannot be saved in the file: {error}"

    def flush(self, seconds: float) -> bool:
        """Waits at most `seconds` until the file has all changes; returns whether it has."""
        if self.folder is None:
            return False
        with suppress(TimeoutError):
            self._writer.submit(lambda: None).result(seconds)
            return not self.problem
        return False

    def close(self, wanted: set[Path], seconds: float) -> None:
        """Writes the remaining changes, removes the files that no task needs, and unlocks the queue."""
        if self.folder is None or self._lock is None:
            return
        self.flush(seconds)
        self._writer.shutdown(wait=False, cancel_futures=True)
        self.tidy(wanted)
        release(self._lock)
        with suppress(OSError):
            if not wanted:
                (self.folder / LOCK).unlink()
            self.folder.rmdir()
        self.folder = self._lock = None

    def tidy(self, wanted: set[Path]) -> None:
        """Removes the files that no task needs."""
        with suppress(OSError):
            for path in self.folder.iterdir() if self.folder else ():
                if path not in wanted and path.name != LOCK and path.is_file():
                    path.unlink()
