"""Readers that stay at one state of a graph file until they are told to go on."""

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
from .messages import Find, Found, Held, Hold, Open, Opened, Rest

FILE_SHIFT = 48  # a chunk is named by the file of a cluster and its number there


class HeldReader(Reader):
    """A reader that looks at one state of the file until it is told that there is a new one."""

    is_due = True

    @property
    def index(self) -> Index:
        """The index of the state that it has."""
        return self._index

    def hold(self) -> None:
        """Goes on to the present state."""
        with self._state():
            return

    def rest(self) -> None:
        """Ends the state it has; the next batch begins another one."""
        self.is_due = True
        if not self.closed and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    @contextmanager
    def _state(self, on_damage: OnDamage | None = None) -> Iterator[None]:
        """Goes on to the present state of the file if that is due, else stays at the one it has."""
        if self.closed:
            raise StoreError(f"{self._path}: its reader is closed")
        with sql_errors(self._path, "read it"):
            if self.is_due:
                self.rest()
                self._connection.execute("BEGIN")
                self._refresh(on_damage or self._note)
                self.is_due = False
            yield


class Lookout:
    """A state of the file, held for a worker that cannot read it. For the thread that hears the worker."""

    def __init__(self, store: Callable[[], Store]) -> None:
        """Takes what returns the store; it is asked for when the worker has something to do."""
        self._store = store
        self._readers: list[HeldReader] = []
        self._reader: Reader | None = None
        self._sent: set[int] = set()  # chunks whose filters the worker has

    def answer(self, message: Open | Find | Hold | Rest) -> Opened | Found | Held | Failure | None:
        """Returns the reply that the worker waits for."""
        try:
            return self._answer(message)
        except GraphSearchError as error:
            return failure_of(error)

    def _answer(self, message: Open | Find | Hold | Rest) -> Opened | Found | Held | None:
        if isinstance(message, Open):
            with open_to_read(self._store().path) as store:
                return Opened(store.evaluator_number, load_proofs(store))
        if self._reader is None:
            self._readers = [held_reader(part) for part in self._store().parts]
            self._reader = self._store().reader_of(self._readers)
        if isinstance(message, Find):
            return Found(*self._reader.find(message.words))
        for reader in self._readers:
            reader.rest()
        return self._held() if isinstance(message, Hold) else None

    def _held(self) -> Held:
        """Holds the present state, and returns what the worker does not know of its filter."""
        for reader in self._readers:
            reader.hold()
        whole = filter_of_any([reader.index.filter for reader in self._readers])
        blooms = {
            number << FILE_SHIFT | chunk.id: bloom
            for number, reader in enumerate(self._readers)
            for chunk, bloom in zip(reader.index.chunks, reader.index.blooms, strict=True)
        }
        fresh = {name: bloom for name, bloom in blooms.items() if name not in self._sent}
        self._sent = set(blooms)
        return Held(whole.firsts, whole.segments, np.array(list(blooms), np.int64), fresh)

    def close(self) -> None:
        """Ends the state; nothing is asked any more."""
        if self._reader is not None:
            self._reader.close()


def held_reader(store: Store) -> HeldReader:
    """Returns a reader of what a file's store has committed, for another thread."""
    indexes = store.catalog.indexes
    indexes.keep_blooms = True
    return HeldReader(store.path, indexes, sizes=store.sizes)
