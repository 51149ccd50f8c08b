"""The file of a book's workers: commits of their records, and the table of their leases."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...errors import StoreError
from ...store.record.node import RecordBatch
from ...store.store import Store
from ..executor import Note
from . import leases
from .leases import Lease
from .merging import Merged
from .messages import Updates
from .writer import Writer


class FileService:
    """Writes the file for the workers. Its methods are thread-safe.

    Attributes:
      writer: None until a worker has made the evaluator; no task is assigned before.
      wanted: set when there is something to save.
      error: of a write, until it is raised.
    """

    def __init__(self, book: int) -> None:
        self._book = book
        self.writer: Writer | None = None
        self.wanted = threading.Event()
        self.error: Exception | None = None

    def open(self, writer: Writer) -> None:
        """Sets the writer, and removes leases of an earlier run."""
        self.writer = writer
        self._note(leases.drop(self._book))

    def store(self) -> Store:
        """Returns the file, for its readers."""
        assert self.writer is not None
        return self.writer.store

    def commit(self, batches: list[RecordBatch], then: Callable[[Merged], object]) -> int:
        """Writes the records of a worker and calls `then` before anything else is written.

        Returns:
          the size of the write-ahead log if a reader keeps it too long, else 0.

        Raises:
          StoreError: if the file cannot be written.
        """
        assert self.writer is not None
        try:
            self.writer.commit(batches, then)
        except StoreError as error:
            self.error = error
            raise
        return self.writer.log_held

    def between(self, ask: Callable[[], Updates]) -> Updates:
        """Returns the result of a function that runs between two commits."""
        assert self.writer is not None
        return self.writer.between(ask)

    def leased(self, lease: Lease) -> None:
        """Adds the lease of a worker."""
        self._note(leases.take(self._book, lease))

    def returned(self, key: str) -> None:
        """Removes the lease of a position."""
        self._note(leases.drop(self._book, key))

    def extend(self, held: list[Lease]) -> None:
        """Extends leases."""
        self._note(leases.extend(self._book, held))

    def _note(self, note: Note) -> None:
        assert self.writer is not None
        self.writer.note(note)
        self.wanted.set()
