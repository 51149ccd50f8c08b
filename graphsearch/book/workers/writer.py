"""The only writer of the file: it merges the records of workers and runs the builder's writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import chess

from ...errors import StoreError
from ...graph.saving import Saver
from ...position.board import POSITION_WORDS, pack
from ...store.log import LONGEST_LOG_BYTES
from ...store.record.node import NodeRecord, RecordBatch
from ...store.store import MAX_BATCH, Store
from ...store.upkeep.compact import tidy
from ..executor import Note
from .merging import Merged, merged

_T = TypeVar("_T")


class Writer:
    """Commits records and writes of several threads, one transaction at a time.

    Attributes:
      store: the file; others may only make readers of it.
      dropped: number of workers' records that lost against those in the file.
    """

    def __init__(self, store: Store) -> None:
        """Takes a store that is open for writing, and closes it in the end."""
        self.store = store
        store.leaves_out = True
        self._saver = Saver(store)
        self._merging = store.reader()  # used while a transaction is written
        self._reading = store.reader()
        self._turn = threading.Lock()
        self._notes: list[Note] = []
        self.dropped = 0

    @property
    def path(self) -> str:
        """The file."""
        return str(self.store.path)

    @property
    def log_held(self) -> int:
        """Bytes of the write-ahead log if a reader of an old state keeps it too long, else 0."""
        return self._saver.log_held

    def check(self) -> None:
        """Raises StoreError if merging failed, or the write-ahead log has become too long."""
        with self._turn:
            self._saver.check()
        if self.log_held:
            raise StoreError(
                f"{self.path}: another program reads an old state of it, which keeps its write-ahead log"
                f" growing ({LONGEST_LOG_BYTES >> 20} MiB and more); close that program and go on, everything"
                " before is saved"
            )

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the committed record of a position, or None; for one thread."""
        _, batch = self._reading.find(pack(board).reshape(1, POSITION_WORDS))
        return batch.record(0) if len(batch) else None

    def note(self, note: Note) -> None:
        """Adds a write to the next transaction."""
        self._notes.append(note)

    def commit(
        self, batches: Sequence[RecordBatch] = (), then: Callable[[Merged], object] | None = None
    ) -> None:
        """Writes records and pending writes in one transaction, and waits for it.

        Args:
          batches: of one worker, each position once.
          then: called with the merged records before anything else is written.

        Raises:
          StoreError: if the file cannot be written; it is unchanged then, and pending writes are kept.
        """
        with self._turn:
            late = len(self._notes)
            notes = self._notes[:late]
            found: Merged | None = None
            if not (batches or notes):
                return

            def work(store: Store) -> None:
                nonlocal found
                if batches:
                    found = self._append(store, RecordBatch.concat(batches))
                for note in notes:
                    note(store)

            self._saver.save(work)
            self._saver.settled(wait=True)
            del self._notes[:late]
            if found is not None:
                self.dropped += len(found.better)
                if then is not None:
                    then(found)

    def _append(self, store: Store, batch: RecordBatch) -> Merged:
        """Appends the records that the file lacks or has with fewer visits."""
        found = merged(batch, self._merging)
        fresh = found.fresh
        for first in range(0, len(found.records), MAX_BATCH):
            last = min(first + MAX_BATCH, len(found.records))
            store.append(found.records.part(first, last), fresh=fresh)
            fresh = 0
        return found

    def between(self, ask: Callable[[], _T]) -> _T:
        """Returns the result of a function that runs between two commits."""
        with self._turn:
            return ask()

    def call(self, note: Note) -> None:
        """Runs a function on the store in a transaction of its own, and waits for it."""
        with self._turn:
            self._saver.save(note)
            self._saver.settled(wait=True)

    def close(self) -> None:
        """Removes superseded versions as far as that is quick, and closes the file."""
        with self._turn:
            try:
                self._saver.call(tidy)
            except StoreError:  # all is saved; only old versions stay
                pass
            finally:
                self._saver.close()
                self._merging.close()
                self._reading.close()
                self.store.close()
