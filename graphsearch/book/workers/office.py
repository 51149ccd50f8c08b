"""What a desk does with its file on behalf of its workers: commits, and the table of who works on what."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ...errors import StoreError
from ...record.node import RecordBatch
from ...store.store import Store
from ..desk import Note
from . import leases
from .leases import Lease
from .merging import Merged
from .messages import News
from .writer import Writer


class Office:
    """The file of a desk, for its workers. Calls come from any thread.

    Attributes:
      writer: None until a worker has made the evaluator; nobody is given a task before.
      wanted: set when there is something to save.
      error: what went wrong with writing, until it is raised.
    """

    def __init__(self, book: int) -> None:
        self._book = book
        self.writer: Writer | None = None
        self.wanted = threading.Event()
        self.error: Exception | None = None

    def open(self, writer: Writer) -> None:
        """Takes the writer."""
        self.writer = writer
        self._note(leases.drop(self._book))

    def store(self) -> Store:
        """Returns the file, for its readers."""
        assert self.writer is not None
        return self.writer.store

    def commit(self, batches: list[RecordBatch], then: Callable[[Merged], object]) -> int:
        """Writes what a worker has found, and says what has become of it before anything else is written.

        Returns:
          the size of a write-ahead log that is held, or 0.

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

    def between(self, ask: Callable[[], News]) -> News:
        """Returns the answer to a question that is put while nothing is being committed."""
        assert self.writer is not None
        return self.writer.between(ask)

    def leased(self, lease: Lease) -> None:
        """Notes that a worker has a position."""
        self._note(leases.take(self._book, lease))

    def returned(self, key: str) -> None:
        """Notes that it has it no more."""
        self._note(leases.drop(self._book, key))

    def extend(self, held: list[Lease]) -> None:
        """Lets leases expire later."""
        self._note(leases.extend(self._book, held))

    def _note(self, note: Note) -> None:
        assert self.writer is not None
        self.writer.note(note)
        self.wanted.set()
