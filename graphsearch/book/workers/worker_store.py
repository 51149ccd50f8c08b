"""A worker's store: the worker reads the file, the builder's process writes it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from ...errors import StoreError
from ...store.merging import READ, Rules
from ...store.reading import Reader
from ...store.record.node import RecordBatch
from ...store.record.provenance import EvaluatorIdentity
from ...store.store import Store
from ...workers.child import Pipe
from ...workers.messages import Failure
from .messages import Saved
from .snapshots import SnapshotReader


class WorkerStore(Store):
    """A store that is open for reading; another process writes its transactions.

    A transaction contains only records; the builder writes the plain tables. It is one message, so the file
    gets all of it or nothing, also if this process is killed.
    """

    _pipe: Pipe
    _batches: list[RecordBatch]
    _log_held = 0

    @classmethod
    def joined(cls, path: str | os.PathLike[str], identity: EvaluatorIdentity, records: Pipe) -> WorkerStore:
        """Returns the store of a file whose writer listens at the other end of a pipe.

        Raises:
          EvaluatorMismatchError: if the file is bound to another evaluator.
          StoreError: if it cannot be read.
        """
        store = cast(WorkerStore, cls.open(path, identity=identity, read_only=True))
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
            raise reply.as_error()
        assert isinstance(reply, Saved)
        self._log_held = reply.log_held
        self._let_go()

    def append_parts(self, batches: Sequence[RecordBatch], *, fresh: int) -> None:
        """Adds records to the transaction; the writer counts the fresh ones itself."""
        self._batches.extend(batch for batch in batches if len(batch))

    def write_fact(self, name: str, value: str | None) -> None:
        """Does nothing: facts belong to the writer."""

    def merge_step(self, rules: Rules = READ) -> bool:
        """Returns False: the writer merges runs."""
        return False

    def checkpoint(self, *, over: int = 0) -> tuple[int, bool]:
        """Returns the state of the write-ahead log after the last write here; the writer shortens it."""
        return self._log_held, bool(self._log_held)

    # ---------------------------------------------------------- one state of the file
    def reader(self, *, threads: int = 2) -> Reader:
        """Returns a reader of the snapshot."""
        self._catalog.indexes.keep_blooms = True
        reader = SnapshotReader(self.path, self._catalog.indexes, threads)
        self._readers.append(reader)
        return reader

    def take_snapshot(self) -> None:
        """Moves all readers to the present state of the file.

        They stay there until the next call, unless memory is short: then this process reads back records that
        it has saved and dropped since, in a newer state.
        """
        self._let_go()
        self._refresh()
        for reader in self._readers:
            if isinstance(reader, SnapshotReader):
                reader.take_snapshot()

    def _let_go(self) -> None:
        for reader in self._readers:
            if isinstance(reader, SnapshotReader):
                reader.is_stale = True

    def drop_snapshot(self) -> None:
        """Releases the snapshot, so that the write-ahead log can be emptied."""
        for reader in self._readers:
            if isinstance(reader, SnapshotReader):
                reader.drop_snapshot()
