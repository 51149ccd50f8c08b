"""A worker's store: the worker reads the file, the builder's process writes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ...base.errors import GraphSearchError, StoreError
from ...store.file import sql_errors
from ...store.index.filters import Index, filter_of, filter_of_any
from ...store.index.locate_kernel import FilterArrays, no_filter
from ...store.merging import READ, Rules
from ...store.reading import Reader
from ...store.record.node import RecordBatch
from ...store.record.provenance import EvaluatorIdentity
from ...store.sharded.files import open_to_read
from ...store.sizes import SIZES, Sizes
from ...store.store import Store
from ...store.transpositions import saved
from ...workers.messages import Failure, ask, failure_of
from ...workers.process import Pipe
from .messages import DropSnapshot, Find, Found, Open, Opened, Saved, Snapshot, TakeSnapshot


class WorkerStore(Store):
    """A store that is open for reading; another process writes its transactions.

    A transaction contains only records; the builder writes the plain tables. A transaction is one message, so
    it is atomic even if this process is killed.
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
        """Sends the appended records, and waits until they are in the file.

        Raises:
          StoreError: if they cannot be written; the file has none of them then.
        """
        self._batches = []
        yield
        if not self._batches:
            return
        gone = StoreError(f"{self.path}: the process that writes it is gone")
        reply = ask(self._pipe, self._batches, Saved, gone)
        self._log_held = reply.log_held
        self._release()

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

        They stay there until the next call, unless memory is short: then this process reads back its own
        saved and dropped records in a newer state.
        """
        self._release()
        self._refresh()
        for reader in self._readers:
            if isinstance(reader, SnapshotReader):
                reader.take_snapshot()

    def _release(self) -> None:
        for reader in self._readers:
            if isinstance(reader, SnapshotReader):
                reader.is_stale = True

    def drop_snapshot(self) -> None:
        """Releases the snapshot, so that the writer can truncate the write-ahead log."""
        for reader in self._readers:
            if isinstance(reader, SnapshotReader):
                reader.drop_snapshot()


FILE_SHIFT = 48  # the name of a chunk: number of the file in its cluster, number of the chunk


class SnapshotReader(Reader):
    """A reader of one state of the file, until it is stale."""

    kernels_may_read = False  # kernels read the present state
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
    def _state(self) -> Iterator[None]:
        """Takes a new snapshot if this one is stale."""
        if self.closed:
            raise StoreError(f"{self._path}: its reader is closed")
        with sql_errors(self._path, "read it"):
            if self.is_stale:
                self.drop_snapshot()
                self._connection.execute("BEGIN")
                self._refresh()
                self.is_stale = False
            yield


class SnapshotServer:
    """Reads snapshots for a worker that cannot open the file; runs in the thread of its messages."""

    def __init__(self, store: Callable[[], Store]) -> None:
        """`store`: returns the store; called once the worker has a task."""
        self._store = store
        self._readers: list[SnapshotReader] = []
        self._reader: Reader | None = None
        self._sent: set[int] = set()  # chunks whose filters the worker has

    def answer(
        self, message: Open | Find | TakeSnapshot | DropSnapshot
    ) -> Opened | Found | Snapshot | Failure | None:
        """Returns the reply to a message, or None for a message without one."""
        try:
            return self._answer(message)
        except GraphSearchError as error:
            return failure_of(error)

    def _answer(self, message: Open | Find | TakeSnapshot | DropSnapshot) -> Opened | Found | Snapshot | None:
        if isinstance(message, Open):
            with open_to_read(self._store().path) as store:
                return Opened(store.evaluator_number, saved.load(store))
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
        """Closes the reader."""
        if self._reader is not None:
            self._reader.close()


def snapshot_reader(store: Store) -> SnapshotReader:
    """Returns a reader of a store's commits, for another thread."""
    indexes = store.catalog.indexes
    indexes.keep_blooms = True
    return SnapshotReader(store.path, indexes, sizes=store.sizes)


_T = TypeVar("_T")


class RemoteStore(WorkerStore):
    """A store without a file: another process reads and writes for it.

    Attributes:
      proofs: the transposition entries that prove mates.
    """

    def __init__(self, path: str, identity: EvaluatorIdentity, records: Pipe, reading: Pipe) -> None:
        """`records`, `reading`: pipes to the process that has the file. `path`: for messages only."""
        self.path = Path(path)
        self.identity = identity
        self.place = None
        self.leaves_out = self._closed = False
        self._owner = os.getpid()
        self._pipe, self._batches = records, []
        self._reader = RemoteReader(self.path, reading)
        opened = self._reader.opened()
        self._evaluator_number, self.proofs = opened.evaluator, opened.proofs

    @property
    def parts(self) -> list[Store]:
        """An empty list: the writer has the files."""
        return []

    @property
    def sizes(self) -> Sizes:
        """The default sizes."""
        return SIZES

    @property
    def node_count(self) -> int:
        """1, because the number is unknown but not 0."""
        return 1

    def read_fact(self, name: str) -> str | None:
        """Returns None: the writer has the facts."""
        return None

    def left_out_error(self) -> StoreError | None:
        """Returns None: the writer reports it."""
        return None

    def reader(self, *, threads: int = 2) -> Reader:
        """Returns the only reader, which reads the snapshot."""
        return self._reader

    def take_snapshot(self) -> None:
        """Moves the reader to the present state of the file."""
        self._reader.take_snapshot()

    def drop_snapshot(self) -> None:
        """Releases the snapshot."""
        self._reader.drop_snapshot()

    def _release(self) -> None:
        self._reader.is_stale = True

    def close(self) -> None:
        """Marks the store as closed; the process closes the pipes."""
        self._closed = True


class RemoteReader(Reader):
    """Reads records from the process that has the file."""

    kernels_may_read = False

    def __init__(self, path: Path, pipe: Pipe) -> None:
        self._pipe = pipe
        self._gone = StoreError(f"{path}: the process that reads it is gone")
        self.closed = False
        self.is_stale = True
        self.problems: list[str] = []  # the writer reports them
        self._blooms: dict[int, NDArray[np.uint8]] = {}
        self._filter = no_filter()

    def close(self) -> None:
        """Marks the reader as closed."""
        self.closed = True

    @property
    def ram_bytes(self) -> int:
        """Bytes of the filters; the writer has the index."""
        return sum(len(bloom) for bloom in self._blooms.values())

    def filter(self) -> FilterArrays:
        """Returns the filter of the snapshot; takes a new snapshot if it is stale."""
        if self.is_stale:
            self.take_snapshot()
        return self._filter

    def find(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], RecordBatch]:
        """As `Reader.find`."""
        if self.is_stale:
            self.take_snapshot()
        found = self._ask(Find(words), Found)
        return found.have, found.batch

    def find_any(self, words: NDArray[np.uint64]) -> list[RecordBatch]:
        """As `Reader.find_any`."""
        batch = self.find(words)[1]
        return [batch] if len(batch) else []

    def opened(self) -> Opened:
        """Returns the facts about the whole graph."""
        return self._ask(Open(), Opened)

    def take_snapshot(self) -> None:
        """Moves to the present state of the file."""
        held = self._ask(TakeSnapshot(), Snapshot)
        known = self._blooms | held.blooms
        self._blooms = {name: known[name] for name in held.chunks.tolist()}
        self._filter = filter_of(held.firsts, held.segments, list(self._blooms.values()))
        self.is_stale = False

    def drop_snapshot(self) -> None:
        """Releases the snapshot; the next request takes a new one."""
        self.is_stale = True
        try:
            self._pipe.send(DropSnapshot())
        except OSError as error:
            raise self._gone from error

    def _ask(self, message: object, kind: type[_T]) -> _T:
        return ask(self._pipe, message, kind, self._gone)
