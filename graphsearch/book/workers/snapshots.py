"""Snapshots: readers that stay at one state of a graph file until they are moved on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ...errors import GraphSearchError, StoreError
from ...store.file import sql_errors
from ...store.index.filters import Index, filter_of_any
from ...store.reading import OnDamage, Reader
from ...store.sharded.files import open_to_read
from ...store.store import Store
from ...store.transpositions.saved import load_proofs
from ...workers.messages import Failure, failure_of
from .messages import DropSnapshot, Find, Found, Open, Opened, Snapshot, TakeSnapshot

FILE_SHIFT = 48  # the name of a chunk: number of the file in its cluster, number of the chunk


class SnapshotReader(Reader):
    """A reader of one state of the file, until it is stale."""

    may_read_inside = False  # kernels read the state of the moment
    is_stale = True

    @property
    def index(self) -> Index:
        """The index of the snapshot."""
        return self._index

    def take_snapshot(self) -> None:
        """Moves to the present state."""
        with self._state():
            return

    def drop_snapshot(self) -> None:
        """Releases the snapshot; the next read takes a new one."""
        self.is_stale = True
        if not self.closed and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _state(self, on_damage: OnDamage | None = None) -> Iterator[None]:
        """Takes a new snapshot if this one is stale."""
        if self.closed:
            raise StoreError(f"{self._path}: its reader is closed")
        with sql_errors(self._path, "read it"):
            if self.is_stale:
                self.drop_snapshot()
                self._connection.execute("BEGIN")
                self._refresh(on_damage or self._note)
                self.is_stale = False
            yield


class SnapshotServer:
    """Reads snapshots for a worker that cannot open the file; for the thread of the worker's messages."""

    def __init__(self, store: Callable[[], Store]) -> None:
        """Takes a function that returns the store; it is called when the worker has a task."""
        self._store = store
        self._readers: list[SnapshotReader] = []
        self._reader: Reader | None = None
        self._sent: set[int] = set()  # chunks whose filters the worker has

    def answer(
        self, message: Open | Find | TakeSnapshot | DropSnapshot
    ) -> Opened | Found | Snapshot | Failure | None:
        """Returns the reply to a message, None if there is none."""
        try:
            return self._answer(message)
        except GraphSearchError as error:
            return failure_of(error)

    def _answer(self, message: Open | Find | TakeSnapshot | DropSnapshot) -> Opened | Found | Snapshot | None:
        if isinstance(message, Open):
            with open_to_read(self._store().path) as store:
                return Opened(store.evaluator_number, load_proofs(store))
        if self._reader is None:
            self._readers = [snapshot_reader(part) for part in self._store().parts]
            self._reader = self._store().reader_of(self._readers)
        if isinstance(message, Find):
            return Found(*self._reader.find(message.words))
        for reader in self._readers:
            reader.drop_snapshot()
        return self._snapshot() if isinstance(message, TakeSnapshot) else None

    def _snapshot(self) -> Snapshot:
        """Takes a snapshot, and returns its filter without the parts that the worker has."""
        for reader in self._readers:
            reader.take_snapshot()
        whole = filter_of_any([reader.index.filter for reader in self._readers])
        blooms = {
            number << FILE_SHIFT | chunk.id: bloom
            for number, reader in enumerate(self._readers)
            for chunk, bloom in zip(reader.index.chunks, reader.index.blooms, strict=True)
        }
        fresh = {name: bloom for name, bloom in blooms.items() if name not in self._sent}
        self._sent = set(blooms)
        return Snapshot(whole.firsts, whole.segments, np.array(list(blooms), np.int64), fresh)

    def close(self) -> None:
        """Releases the snapshot for good."""
        if self._reader is not None:
            self._reader.close()


def snapshot_reader(store: Store) -> SnapshotReader:
    """Returns a reader of a store's commits, for another thread."""
    indexes = store.catalog.indexes
    indexes.keep_blooms = True
    return SnapshotReader(store.path, indexes, sizes=store.sizes)
