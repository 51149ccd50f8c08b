"""A worker's file: read here, by a reader of its own; written by the process that it works for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from ...errors import StoreError
from ...provenance import EvaluatorIdentity
from ...record import RecordBatch
from ...store import Store
from .messages import Failure, Pipe, Saved


class SharedStore(Store):
    """A store that is open for reading only, whose transactions another process writes.

    A transaction holds records and nothing else: plain tables are the builder's. It is one message, so the
    file gets all of it or nothing, also if this process is killed.
    """

    _pipe: Pipe
    _batches: list[RecordBatch]
    _log_held = 0

    @classmethod
    def joined(cls, path: str | os.PathLike[str], identity: EvaluatorIdentity, records: Pipe) -> SharedStore:
        """Returns the store of a file whose writer listens at the other end of a pipe.

        Raises:
          EvaluatorMismatchError: if the file is bound to another evaluator.
          StoreError: if it cannot be read.
        """
        store = cast(SharedStore, cls.open(path, identity=identity, read_only=True))
        store._pipe, store._batches = records, []
        return store

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Sends everything appended inside, and waits until it is in the file.

        Raises:
          StoreError: if it cannot be written; nothing of it is in the file then.
        """
        self._batches = []
        yield
        if not self._batches:
            return
        try:
            self._pipe.send(self._batches)
            reply = self._pipe.recv()
        except (OSError, EOFError) as error:
            raise StoreError(f"{self.path}: the process that writes it is gone") from error
        if isinstance(reply, Failure):
            raise reply.as_error(placed=False)
        assert isinstance(reply, Saved)
        self._log_held = reply.log_held

    def append(self, batch: RecordBatch, *, fresh: int) -> None:
        """Adds records to the transaction; how many are fresh is found out where they are written."""
        if len(batch):
            self._batches.append(batch)

    def merge_step(self) -> bool:
        """Returns that nothing is due: the writer merges runs by itself."""
        return False

    def checkpoint(self, *, over: int = 0) -> tuple[int, bool]:
        """Returns how the write-ahead log was when this process last wrote; the writer shortens it."""
        return self._log_held, bool(self._log_held)

    def look(self) -> None:
        """Takes in what was committed."""
        self._refresh()
