"""The one writer of the file: what workers send, merged with what is there, and the builder's notes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

import chess

from ...errors import StoreError
from ...graph.saving import Saver
from ...position.board import POSITION_WORDS, pack
from ...record.node import NodeRecord, RecordBatch
from ...store.log import LONGEST_LOG_BYTES
from ...store.store import MAX_BATCH, Store
from ...store.upkeep.compact import tidy
from ..desk import Note
from .merging import Merged, merged

_T = TypeVar("_T")


class Writer:
    """Commits what several threads give it, one transaction at a time.

    Attributes:
      store: the file. Its one writer is here; others make readers of it.
      dropped: records of workers that lost against those in the file.
    """

    def __init__(self, store: Store) -> None:
        """Takes a store that is open for writing, which it closes in the end."""
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
        """Bytes of a write-ahead log that is too long because of a reader of an old state, else 0."""
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
        """Returns the record of a position as it is committed, or None; for one thread."""
        _, batch = self._reading.find(pack(board).reshape(1, POSITION_WORDS))
        return batch.record(0) if len(batch) else None

    def note(self, note: Note) -> None:
        """Has something written with what is committed next."""
        self._notes.append(note)

    def commit(
        self, batches: Sequence[RecordBatch] = (), then: Callable[[Merged], object] | None = None
    ) -> None:
        """Writes records and all notes in one transaction, and waits for it.

        Args:
          batches: of one worker, each position once.
          then: told what has become of them, before anything else is written.

        Raises:
          StoreError: if the file cannot be written; nothing of this is in it, and the notes are kept.
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
        """Writes what the file has not, or with fewer visits."""
        found = merged(batch, self._merging)
        fresh = found.fresh
        for first in range(0, len(found.records), MAX_BATCH):
            last = min(first + MAX_BATCH, len(found.records))
            store.append(found.records.part(first, last), fresh=fresh)
            fresh = 0
        return found

    def between(self, ask: Callable[[], _T]) -> _T:
        """Returns the answer to a question that is put while nothing is being committed."""
        with self._turn:
            return ask()

    def call(self, note: Note) -> None:
        """Has something done with the store at once, in a transaction of its own, and waits for it."""
        with self._turn:
            self._saver.save(note)
            self._saver.settled(wait=True)

    def close(self) -> None:
        """Drops superseded versions as far as that is quick, and closes the file."""
        with self._turn:
            try:
                self._saver.call(tidy)
            except StoreError:  # all is saved; only old versions stay for now
                pass
            finally:
                self._saver.close()
                self._merging.close()
                self._reading.close()
                self.store.close()
