"""The store: one graph file, opened for one writer or for reading."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import chess
import numpy as np
from numpy.typing import NDArray

from ..errors import CapacityError, CorruptRecordError, StoreError
from . import merging
from .file import check_is_file, checkpoint, log_bytes, open_reader, open_writer, real_path, sql_errors
from .format import format_of
from .index import lookup
from .index.catalog import Catalog
from .left_out import LeftOut
from .lock import WriteLock
from .place import Place
from .record.node import RecordBatch
from .record.provenance import UNBOUND, EvaluatorIdentity
from .segments import keys_of
from .sizes import SIZES, Sizes
from .stored_records import StoredRecords
from .tables import provenance, unfinished
from .tables.offered import PlainTables
from .tables.top import TopTables

if TYPE_CHECKING:
    from .reading import Reader

MAX_BATCH = 1 << 20  # records of one append; it is sorted in RAM


class Store(StoredRecords, PlainTables):
    """A graph file. Use it from one thread at a time, and close it.

    Attributes:
      leaves_out: whether `append` leaves out a record that has no place in the format, so that the others
        are written; `left_out_error` or `close` names it. Otherwise `append` raises.
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        lock: WriteLock | None,
        identity: EvaluatorIdentity,
        sizes: Sizes,
    ) -> None:
        self.path = path
        self.identity = identity
        self._connection = connection
        self._lock = lock
        self.place = Place(path) if lock else None
        self._owner = os.getpid()
        self._closed = False
        self._readers: list[Reader] = []
        self.leaves_out = False
        self._left_out = LeftOut(path)
        self._top = TopTables(connection)
        with self._one_state():
            self._data_version = self._seen_version()
            self._catalog = Catalog(connection, path, sizes)
            self._node_count = provenance.node_count(connection)
            self._evaluator_number = provenance.evaluator_number(connection)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        identity: EvaluatorIdentity | None = None,
        create: bool = False,
        unbound: bool = False,
        read_only: bool = False,
        resume: bool = False,
        sizes: Sizes = SIZES,
    ) -> Store:
        """Returns the store of a file.

        Args:
          path: the graph file; links are followed. `sharded.files.open_to_read` reads clusters too.
          identity: the evaluator that will be used, to which a file that is bound to none is bound; None
            accepts the one that the file is bound to, or none.
          create: make the file if it is missing; this needs an identity, unless `unbound` is given.
          unbound: a file that is made is bound to no evaluator; it takes no records until it is.
          read_only: never write, lock or create anything; works while a search writes.
          resume: open a file for writing that is on its way to another evaluator, to go on with that.
          sizes: how much is written, merged and read at once.

        Raises:
          UnfinishedError: if the file is on its way to another evaluator, unless it is only read.
          EvaluatorMismatchError: if the file is bound to another evaluator.
          SchemaVersionError: if its format is newer than this version.
          StoreLockedError: if another process is writing it.
          StoreError: if it cannot be opened, or is no graph file.
        """
        real = real_path(path)
        check_is_file(real, create=create and not read_only)
        lock = None if read_only else WriteLock(real)
        try:
            connection = open_reader(real) if read_only else open_writer(real, create=create)
            try:
                with sql_errors(real, "read it"):
                    if not read_only and not resume:
                        unfinished.refuse(connection, real, provenance.read_identity(connection))
                    bound = provenance.bind(
                        connection, real, identity, create=create, unbound=unbound, write=not read_only
                    )
                    return cls(real, connection, lock, bound, sizes)
            except BaseException:
                connection.close()
                raise
        except BaseException:
            if lock:
                lock.release()
            raise

    @property
    def parts(self) -> list[Store]:
        """The stores that hold the records: this one, or those of a cluster's shards."""
        return [self]

    def store_of(self, board: chess.Board) -> Store:
        """Returns the store that holds a position, if any does, and what belongs to it as a root."""
        return self

    def reader_of(self, readers: Sequence[Reader]) -> Reader:
        """Returns readers of all `parts` as one, which closes them."""
        (reader,) = readers
        return reader

    def close(self) -> None:
        """Closes the file; the last one to do so folds the write-ahead log in. A second call does nothing.

        Raises:
          StoreError: after closing, if a record could not be written and nobody was told.
        """
        if self._closed:
            return
        self._closed = True
        for reader in self._readers:
            reader.close()
        if self.place:
            self.place.leave(self._connection)
        self._connection.close()
        if self._lock:
            self._lock.release()
        lost = self.left_out_error()
        if lost:
            raise lost

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def format_version(self) -> int:
        """The format of the file."""
        self._check_open()
        with sql_errors(self.path, "read it"):
            return format_of(self._connection, self.path)

    @property
    def read_only(self) -> bool:
        """Whether the store was opened for reading only."""
        return self._lock is None

    @property
    def is_bound(self) -> bool:
        """Whether the file is bound to an evaluator; one that holds imported games only may not be yet."""
        return self.identity != UNBOUND

    @property
    def node_count(self) -> int:
        """Distinct records in the file."""
        self._check_open()
        with sql_errors(self.path, "read it"), self.snapshot():
            return self._node_count

    # -------------------------------------------------------------- writing

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Makes everything inside one flush: all of it reaches the file, or nothing.

        Raises:
          StoreMovedError: if the file does not stand any more where it was opened.
          StoreError: if the file cannot be written; what was there before stays, and the store stays usable.
        """
        self._check_writable()
        if self._connection.in_transaction:
            raise StoreError(f"{self.path}: a transaction is already open; end it first")
        try:
            with sql_errors(self.path, "write to it"):
                self._connection.execute("BEGIN IMMEDIATE")
                if self.place:
                    self.place.check()
                yield
                self._top.follow(self.read)
                self._connection.execute("COMMIT")
            self._catalog.committed()
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._top.forget()
        with sql_errors(self.path, "read it"):
            self._load(forget=True)
            self._load_binding()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Joins the open transaction, or makes one of its own."""
        self._check_writable()
        if self._connection.in_transaction:
            with sql_errors(self.path, "write to it"):
                yield self._connection
        else:
            with self.transaction():
                yield self._connection

    def append(self, batch: RecordBatch, *, fresh: int) -> None:
        """Writes records as one new segment; see `append_parts`.

        Args:
          batch: at most 2**20 records in any order; of two with one position the later one counts.
          fresh: how many of them are not in the file yet.
        """
        self.append_parts([batch], fresh=fresh)

    def append_parts(self, batches: Sequence[RecordBatch], *, fresh: int) -> None:
        """Writes records as one new segment; they supersede all earlier versions.

        Args:
          batches: at most 2**20 records each; all sort keys of one lie before those of the next.
          fresh: how many of them are not in the file yet.

        Raises:
          UnfitRecordError: if a record has no place in the format, unless the store leaves it out.
          CapacityError: if there are too many.
          StoreError: if the file is bound to no evaluator, or cannot be written.
        """
        most = max(map(len, batches), default=0)
        if most > MAX_BATCH:
            raise CapacityError(f"{most} records in one batch, at most {MAX_BATCH} can be appended at once")
        if not most:
            return
        if not self.is_bound:
            raise StoreError(f"{self.path} is bound to no evaluator; open it with the identity of one")
        from .writing import NewSegment, dictionary_for

        with self._writing() as connection:
            left_out = unknown = 0

            def note(words: NDArray[np.uint64], reason: str) -> None:
                nonlocal left_out, unknown
                left_out += 1
                unknown += not self._is_known(words)
                self._left_out.add(words, reason)

            dictionary = dictionary_for(self._catalog, sum(map(len, batches)))
            segment = NewSegment(connection, self._catalog, dictionary)
            for batch in batches:
                segment.append(batch, note if self.leaves_out else None)
            if self.leaves_out:
                segment.drop_if_empty()
            provenance.add_nodes(connection, fresh - min(fresh, unknown))
            self._load()
            for batch in batches:
                self._top.touch(keys_of(batch.words), None if left_out else batch)

    def records_changed(self, words: NDArray[np.uint64] | None) -> None:
        """Notes that records changed or went, `[R, 10]` packed; None: any may have.

        What `top_position` and `top_edge` say of them follows before the open transaction ends.
        """
        self._top.touch(None if words is None else keys_of(words))

    def _is_known(self, words: NDArray[np.uint64]) -> bool:
        try:
            return lookup.read_one(self._connection, self._catalog, words) is not None
        except CorruptRecordError:
            return True

    def left_out_error(self) -> StoreError | None:
        """Returns the error that names the records that could not be written, once for each; or None."""
        return self._left_out.error()

    def merge_step(self, rules: merging.Rules = merging.READ) -> bool:
        """Does one bounded step (some 32,000 records) of a merge; returns whether more is due.

        Args:
          rules: when a merge is due, and how much a step does.
        """
        self._check_writable()
        if self._connection.in_transaction:
            raise StoreError(f"{self.path}: merging inside a transaction; end it first")
        if not merging.is_due(self._catalog, self._node_count, rules):
            return False
        with self.rearranging():
            merging.step(self._connection, self._catalog, self._node_count, rules)
        return merging.is_due(self._catalog, self._node_count, rules)

    def checkpoint(self, *, over: int = 0) -> tuple[int, bool]:
        """Copies the write-ahead log into the file, if it is longer than `over` bytes.

        Commits leave that to their caller: call it after a transaction, from the thread that writes, with
        `over=LOG_BYTES` (16 MiB). It waits for the disk, never for a reader.

        Returns:
          The size of the log now in bytes; whether a reader of an old state keeps it from being emptied.

        Raises:
          StoreError: if the file cannot be written; nothing is lost.
        """
        self._check_writable()
        if self._connection.in_transaction:
            raise StoreError(f"{self.path}: a checkpoint inside a transaction; end it first")
        size = log_bytes(self.path)
        if size <= over:
            return size, False
        with sql_errors(self.path, "write to it"):
            return checkpoint(self._connection, self.path)

    # -------------------------------------------------------------- inside

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection, for the other modules of the store."""
        return self._connection

    @property
    def sizes(self) -> Sizes:
        """How much is written, merged and read at once."""
        return self._catalog.sizes

    @property
    def catalog(self) -> Catalog:
        """The index of segments, for the other modules of the store."""
        return self._catalog

    @contextmanager
    def rearranging(self) -> Iterator[None]:
        """Makes one step of a merge: a transaction, and the index read again at its end."""
        with self.transaction():
            yield
            self._load()
            self._correct_count()

    def _correct_count(self) -> None:
        """Counts the records where one segment holds each once: damage may have been counted twice."""
        if len(self._catalog.segments) == 1 and self._catalog.records != self._node_count:
            provenance.add_nodes(self._connection, self._catalog.records - self._node_count)
            self._node_count = self._catalog.records

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Holds one state of the file for a reader; the writer's own state cannot change under it."""
        if not self.read_only or self._connection.in_transaction:
            yield
            return
        with self._one_state():
            self._refresh()
            yield

    @contextmanager
    def _one_state(self) -> Iterator[None]:
        """Makes one state of the file of all that is read inside, whatever a writer does meanwhile."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            # an unfinished scan may outlive the store; COMMIT fails where the file is damaged
            if not self._closed and self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _refresh(self) -> None:
        """Reloads the index if another process has written."""
        self._check_open()
        if self.read_only and self._seen_version() != self._data_version:
            with sql_errors(self.path, "read it"):
                self._data_version = self._seen_version()
                self._load()
                self._load_binding()
                self._catalog.committed()

    def _seen_version(self) -> int:
        self._connection.execute("SELECT 1 FROM segment LIMIT 1").fetchone()
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def _load(self, *, forget: bool = False) -> None:
        if self.read_only or forget:
            self._catalog.load(forget=forget)
        else:
            self._catalog.follow()
        self._node_count = provenance.node_count(self._connection)

    def _load_binding(self) -> None:
        """Reads again which evaluator the file is bound to."""
        identity = provenance.read_identity(self._connection)
        if identity is not None:
            self.identity = identity
            self._evaluator_number = provenance.evaluator_number(self._connection)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"{self.path} is closed")
        if self._owner != os.getpid():
            raise StoreError(f"{self.path} was opened before a fork; open it again in this process")

    def _check_writable(self) -> None:
        self._check_open()
        if self.read_only:
            raise StoreError(f"{self.path} is open for reading only")
