"""A worker's file: read here, by a reader of its own; written by the process that it works for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from ...errors import StoreError
from ...record.node import RecordBatch
from ...record.provenance import EvaluatorIdentity
from ...store.merging import READ, Rules
from ...store.reading import Reader
from ...store.store import Store
from ...workers.child import Pipe
from ...workers.messages import Failure
from .held import HeldReader
from .messages import Saved


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
            raise reply.as_error()
        assert isinstance(reply, Saved)
        self._log_held = reply.log_held
        self._let_go()

    def append_parts(self, batches: Sequence[RecordBatch], *, fresh: int) -> None:
        """Adds records to the transaction; how many are fresh is found out where they are written."""
        self._batches.extend(batch for batch in batches if len(batch))

    def write_fact(self, name: str, value: str | None) -> None:
        """Keeps nothing: facts are of the whole file, and of the searches of its one writer."""

    def merge_step(self, rules: Rules = READ) -> bool:
        """Returns that nothing is due: the writer merges runs by itself."""
        return False

    def checkpoint(self, *, over: int = 0) -> tuple[int, bool]:
        """Returns how the write-ahead log was when this process last wrote; the writer shortens it."""
        return self._log_held, bool(self._log_held)

    # ---------------------------------------------------------- one state of the file
    def reader(self, *, threads: int = 2) -> Reader:
        """Returns a reader that stays at the state of the file that is held."""
        self._catalog.indexes.keep_blooms = True
        reader = HeldReader(self.path, self._catalog.indexes, threads)
        self._readers.append(reader)
        return reader

    def hold(self) -> None:
        """Takes in what was committed: its readers see this state from now on, until it is held anew.

        Only what this process has to read back may come between: records of its own that it has saved and
        dropped since then, which happens when memory is short.
        """
        self._let_go()
        self._refresh()
        for reader in self._readers:
            if isinstance(reader, HeldReader):
                reader.hold()

    def _let_go(self) -> None:
        for reader in self._readers:
            if isinstance(reader, HeldReader):
                reader.is_due = True

    def rest(self) -> None:
        """Holds no state of the file, so that its write-ahead log can be emptied."""
        for reader in self._readers:
            if isinstance(reader, HeldReader):
                reader.rest()
