"""The store: one graph file, open for one writer or for reading."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.errors import CapacityError, StoreError
from . import file, merging, scanning
from .file import check_is_file, data_version, open_reader, open_writer, real_path, sql_errors
from .format import format_of
from .index import lookup as finding
from .index.catalog import Catalog
from .lock import WriteLock
from .moved import Place
from .record.node import RecordBatch
from .record.provenance import UNBOUND, EvaluatorIdentity
from .segments import keys_of
from .sizes import SIZES, Sizes
from .tables import provenance, unfinished
from .tables.top import TopTables
from .tables.unfinished import Unfinished
from .writing import LeftOut, NewSegment, dictionary_for

if TYPE_CHECKING:
    from .reading import Reader

MAX_BATCH = 1 << 20  # records of one append; it is sorted in RAM


class Store:
    """A graph file. Use it from one thread at a time, and close it.

    Attributes:
      leaves_out: whether `append` leaves out records that do not fit the format, and `left_out_error` or
        `close` names them; otherwise `append` raises.
    """

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        lock: WriteLock | None,
        identity: EvaluatorIdentity,
        sizes: Sizes,
    ) -> None:
        self.path, self.identity = path, identity
        self.connection, self._lock = connection, lock
        self.place = Place(path) if lock else None
        self._owner, self._closed = os.getpid(), False
        self._readers: list[Reader] = []
        self.leaves_out, self._top = False, TopTables(connection)
        with self._one_state():
            self._data_version = data_version(connection)
            self._catalog = Catalog(connection, path, sizes)
            self._left_out = LeftOut(path, connection, self._catalog)
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
          identity: the evaluator; an unbound file is bound to it. None accepts the file's own, or none.
          create: create the file if it is missing; this needs an identity, unless `unbound` is given.
          unbound: bind a new file to no evaluator; it accepts no records until it is bound.
          read_only: never write, lock or create anything; works while a search writes.
          resume: open a file with an unfinished change of evaluator for writing, to continue the change.
          sizes: the sizes of the portions that are written, merged and read.

        Raises:
          UnfinishedError: if the file has an unfinished change of evaluator, without `resume` or `read_only`.
          EvaluatorMismatchError: if the file is bound to another evaluator.
          SchemaVersionError: if its format is newer than this version.
          StoreLockedError: if another process is writing it.
          StoreError: if it cannot be opened, or is no graph file.
        """
        real = real_path(path)
        check_is_file(real, create=create and not read_only)
        with ExitStack() as stack:
            lock = None if read_only else WriteLock(real)
            if lock:
                stack.callback(lock.release)
            connection = open_reader(real) if read_only else open_writer(real, create=create)
            stack.callback(connection.close)
            with sql_errors(real, "read it"):
                if not read_only and not resume:
                    unfinished.refuse(connection, real, provenance.read_identity(connection))
                bound = provenance.bind(
                    connection, real, identity, create=create, unbound=unbound, write=not read_only
                )
                store = cls(real, connection, lock, bound, sizes)
            stack.pop_all()
            return store

    @property
    def parts(self) -> list[Store]:
        """The stores that hold the records: this one, or those of a cluster's shards."""
        return [self]

    def store_of(self, board: chess.Board) -> Store:
        """Returns the store for a position: for its record, and for its rows as a root."""
        return self

    def close(self) -> None:
        """Closes the file; SQLite's last connection to it also empties the log. A second call does nothing.

        Raises:
          StoreError: after closing, if a record could not be written and no error has named it yet.
        """
        if self._closed:
            return
        self._closed = True
        for reader in self._readers:
            reader.close()
        if self.place:
            self.place.leave(self.connection)
        self.connection.close()
        if self._lock:
            self._lock.release()
        if lost := self.left_out_error():
            raise lost

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def format_version(self) -> int:
        """The format of the file."""
        with self.reading() as connection:
            return format_of(connection, self.path)

    @property
    def read_only(self) -> bool:
        """Whether the store was opened for reading only."""
        return self._lock is None

    @property
    def is_bound(self) -> bool:
        """Whether the file is bound to an evaluator; a file with imported games only may be unbound."""
        return self.identity != UNBOUND

    @property
    def node_count(self) -> int:
        """Distinct records in the file."""
        with self.reading(), self.snapshot():
            return self._node_count

    @property
    def evaluator_number(self) -> int:
        """The number of the evaluator that the file is bound to, which new records carry."""
        return self._evaluator_number

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Runs the body as one transaction: all of it reaches the file, or nothing.

        Raises:
          StoreMovedError: if the file is no longer where it was opened.
          StoreError: if the file cannot be written; it is unchanged, and the store stays usable.
        """
        self.check_writable()
        if self.connection.in_transaction:
            raise StoreError(f"{self.path}: a transaction is already open; end it first")
        try:
            with sql_errors(self.path, "write to it"):
                self.connection.execute("BEGIN IMMEDIATE")
                if self.place:
                    self.place.check()
                provenance.set_fact(self.connection, unfinished.IMAGE, None)
                yield
                self._top.follow(self.read)
                self.connection.execute("COMMIT")
            self._catalog.committed()
        except BaseException:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
            self._top.forget()
            with sql_errors(self.path, "read it"):
                self._load(forget=True)
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yields the connection; SQLite errors in the body become a StoreError that names the file."""
        self._check_open()
        with sql_errors(self.path, "read it"):
            yield self.connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Joins the open transaction, or makes a new one."""
        self.check_writable()
        if self.connection.in_transaction:
            with sql_errors(self.path, "write to it"):
                yield self.connection
        else:
            with self.transaction():
                yield self.connection

    def append(self, batch: RecordBatch, *, fresh: int) -> None:
        """Writes records, in any order, as one new segment; see `append_parts`."""
        self.append_parts([batch], fresh=fresh)

    def append_parts(self, batches: Sequence[RecordBatch], *, fresh: int) -> None:
        """Writes records as one new segment; they supersede all earlier versions.

        Args:
          batches: of at most 2**20 records; all sort keys of a batch are below those of the next. The last
            version of a record counts.
          fresh: number of records that are not in the file yet.

        Raises:
          UnfitRecordError: if a record does not fit the format, unless the store leaves it out.
          CapacityError: if a batch has too many records.
          StoreError: if the file is bound to no evaluator, or cannot be written.
        """
        if not (most := max(map(len, batches), default=0)):
            return
        if most > MAX_BATCH:
            raise CapacityError(f"{most} records in one batch, at most {MAX_BATCH} can be appended at once")
        if not self.is_bound:
            raise StoreError(f"{self.path} is bound to no evaluator; open it with the identity of one")
        with self.writing() as connection:
            left_out = self._left_out
            count, unknown = left_out.count, left_out.unknown
            dictionary = dictionary_for(self._catalog, sum(map(len, batches)))
            segment = NewSegment(connection, self._catalog, dictionary)
            segment.append(*batches, on_unfit=left_out.add if self.leaves_out else None)
            if self.leaves_out:
                segment.drop_if_empty()
            provenance.add_nodes(connection, fresh - min(fresh, left_out.unknown - unknown))
            self._follow()
            for batch in batches:
                self._top.touch(keys_of(batch.words), batch if left_out.count == count else None)

    def records_changed(self, words: NDArray[np.uint64] | None, batch: RecordBatch | None = None) -> None:
        """Marks records as changed or deleted; the open transaction updates the plain tables before it ends.

        Args:
          words: `[R, 10]` packed positions; None: any record may have changed.
          batch: their present records, if none was deleted.
        """
        self._top.touch(None if words is None else keys_of(words), batch)

    def left_out_error(self) -> StoreError | None:
        """Returns an error that names the records not written, each record once; None if there are none."""
        return self._left_out.error()

    merge_step, checkpoint = merging.merge_step, file.checkpoint
    scan, portion, fetch_portion = scanning.scan, scanning.portion, scanning.fetch_portion
    read, may_hold = finding.read, finding.may_hold

    def reader(self, *, threads: int = 2) -> Reader:
        """Returns a reader of batches with its own connection, for another thread than the writer's.

        It sees committed data only. Closing the store closes it, too. `threads`: most threads that work on a
        large batch, the caller's included.
        """
        from .reading import Reader

        self._check_open()
        self._catalog.indexes.keep_blooms = True
        reader = Reader(self.path, self._catalog.indexes, threads, sizes=self._catalog.sizes)
        self._readers = [*(r for r in self._readers if not r.closed), reader]
        return reader

    begin_run, update_run, finish_run = provenance.begin_run, provenance.update_run, provenance.finish_run
    runs, run, evaluators = provenance.runs, provenance.run, provenance.evaluators
    add_evaluator, bind_evaluator = provenance.add_evaluator, provenance.bind_evaluator
    read_fact, write_fact = provenance.read_fact, provenance.write_fact
    mark_unfinished = unfinished.mark_unfinished
    roots, record_root, raise_root = provenance.roots, provenance.record_root, provenance.raise_root

    def write_top(self, positions: Sequence[Mapping[str, Any]], edges: Sequence[Mapping[str, Any]]) -> None:
        """Writes rows of `top.Listed.rows` to `top_position` and `top_edge`.

        From now on the rows follow the records of their positions.
        """
        lost = self._left_out.keys
        with self.writing():
            self._top.write(*([row for row in rows if row["key"] not in lost] for rows in (positions, edges)))

    @property
    def unfinished(self) -> Unfinished | None:
        """The unfinished change of evaluator of the file, None if there is none."""
        with self.reading() as connection:
            return unfinished.read(connection)

    @property
    def sizes(self) -> Sizes:
        """The sizes of the portions that are written, merged and read."""
        return self._catalog.sizes

    @property
    def catalog(self) -> Catalog:
        """The index of segments, for the other modules of the store."""
        return self._catalog

    @contextmanager
    def rearranging(self) -> Iterator[None]:
        """Runs one step of a merge as a transaction, and updates the index at its end."""
        with self.transaction():
            yield
            self._follow()
            records = self._catalog.records
            if len(self._catalog.segments) == 1 and records != self._node_count:
                # a single segment holds each record once; damage can make the stored count too high
                provenance.add_nodes(self.connection, records - self._node_count)
                self._node_count = records

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Holds one state of the file for a reader; a writer needs none, as only it changes the records."""
        if not self.read_only or self.connection.in_transaction:
            yield
            return
        with self._one_state():
            self._refresh()
            yield

    @contextmanager
    def _one_state(self) -> Iterator[None]:
        """Runs the body in a read transaction, so that it sees one state of the file."""
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            # an unfinished scan may outlive the store; COMMIT fails where the file is damaged
            if not self._closed and self.connection.in_transaction:
                self.connection.execute("ROLLBACK")

    def _refresh(self) -> None:
        """Reloads the index if another connection has committed."""
        self._check_open()
        if self.read_only and data_version(self.connection) != self._data_version:
            with sql_errors(self.path, "read it"):
                self._data_version = data_version(self.connection)
                self._load(forget=False)
                self._catalog.committed()

    def _load(self, *, forget: bool) -> None:
        """Reloads all cached data: after a rollback (`forget`), or a commit of another connection."""
        self._catalog.load(forget=forget)
        self._node_count = provenance.node_count(self.connection)
        identity = provenance.read_identity(self.connection)
        self.bound_to(identity or self.identity, provenance.evaluator_number(self.connection))

    def _follow(self) -> None:
        """Updates the cached data after this store has written."""
        self._catalog.follow()
        self._node_count = provenance.node_count(self.connection)

    def bound_to(self, identity: EvaluatorIdentity, number: int) -> None:
        """Sets the evaluator that the open transaction, or another process, has bound the file to."""
        self.identity, self._evaluator_number = identity, number

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"{self.path} is closed")
        if self._owner != os.getpid():
            raise StoreError(f"{self.path} was opened before a fork; open it again in this process")

    def check_writable(self) -> None:
        """Raises StoreError if the store is closed or open for reading only."""
        self._check_open()
        if self.read_only:
            raise StoreError(f"{self.path} is open for reading only")
