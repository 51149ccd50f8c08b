"""The store: one graph file, open for one writer or for reading."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Self, TypeVar

import chess
import numpy as np
from numpy.typing import NDArray

from ..base.deadline import check_time
from ..base.errors import CapacityError, CorruptRecordError, StoreError, UnfinishedError
from ..base.version import __version__
from ..position.board import POSITION_WORDS, fen_of, key_text_of_words, pack, unpack
from . import file, merging, provenance
from .block import unfit
from .index import KEPT, KEPT_WRITING, SIZES, Catalog, OnCorrupt, Sizes
from .index_kernel import find_stored
from .ordered_work import in_order, thread_count
from .provenance import UNBOUND, EvaluatorIdentity, RootInfo, RunInfo, Unfinished, now
from .reading import Reader, find
from .record import NodeRecord, RecordBatch, keys_of, owned, sort_keys, take
from .record_kernel import MAX_EVALUATOR, MAX_RUN
from .segment import Portion, choose_pivot, cursors_from, fetch_portion, passed_over, write_segment
from .tables.rows import Row, query, read_rows, rows, update_row, write_row
from .tables.top import Shown, TopTables

_Result = TypeVar("_Result")

MAX_BATCH = 1 << 20  # records of one append; it is sorted in RAM


def _last_run(connection: sqlite3.Connection) -> int:
    """Returns the highest number of a run in a file, 0 without one."""
    return int(connection.execute("SELECT coalesce(max(id), 0) FROM run").fetchone()[0])


class Store:
    """A graph file. Use it from one thread at a time, and close it.

    Methods raise StoreError if the file cannot be read or written, CorruptRecordError if a block or row that
    they need is damaged, UnsoundRecordError if a record is.

    Attributes:
      catalog: the index of its segments, with the sizes of the portions that are written, merged and read.
      data_version: of the file's state that was read last; it changes when another connection commits.
      evaluator_number: the evaluator that the file is bound to, which new records carry.
      begun: rows of the runs that were begun with this store, by number.
      left_out: keys of the records that do not fit the format, which `append` has left out.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, lock: file.WriteLock | None, sizes: Sizes
    ) -> None:
        self.path, self.connection, self._lock = path, connection, lock
        self.place = file.Place(path, connection) if lock else None
        self.begun: dict[int, dict[str, Any]] = {}
        self._last_run = self._node_count = 0  # the highest number of a run in the file or reserved
        self._numbering = Lock()  # of `_last_run`
        self._owner, self._closed = os.getpid(), False
        self._readers: list[Reader] = []
        self.left_out: set[str] = set()
        self._lost: dict[str, str] = {}  # of these, what no error has told yet
        self._top = TopTables(connection)
        with self._one_state():
            self.data_version = file.data_version(connection)
            self._last_run = _last_run(connection) if lock else 0
            self.catalog = Catalog(connection, path, sizes, kept=KEPT_WRITING if lock else KEPT)
            self._load()

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
        """Returns the store of a file; links are followed.

        Args:
          identity: the evaluator; an unbound file is bound to it. None accepts the file's own, or none.
          create: create the file if it is missing; this needs an identity, unless `unbound` is given.
          unbound: bind a new file to no evaluator; it accepts no records until it is bound.
          read_only: never write, lock or create anything; works while a search writes.
          resume: accept a file with an unfinished change of evaluator, to continue the change.

        Raises:
          UnfinishedError: if the file has an unfinished change of evaluator, without `resume` or `read_only`.
          EvaluatorMismatchError: if the file is bound to another evaluator.
          SchemaVersionError: if its format is newer than this version.
          StoreLockedError: if another process is writing it.
          StoreError: if it cannot be opened, or is no graph file.
        """
        real = file.real_path(path)
        file.check_is_file(real, create=create and not read_only, writing=not read_only)
        with ExitStack() as stack:
            lock = None if read_only else file.WriteLock(real)
            if lock:
                stack.callback(lock.release)
            connection = file.open_reader(real) if read_only else file.open_writer(real, create=create)
            stack.callback(connection.close)
            with file.sql_errors(real, "read it"):
                if not read_only and not resume:
                    its = provenance.read_identity(connection)
                    if its and (state := provenance.unfinished_state(connection, real, its)):
                        raise UnfinishedError(state)
                provenance.bind(connection, real, identity, create=create, unbound=unbound, write=bool(lock))
                store = cls(real, connection, lock, sizes)
            stack.pop_all()
            return store

    def announce_end(self) -> None:
        """Makes other processes wait for the file: it is about to be closed."""
        if self._lock:
            self._lock.announce_end()

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
            self.place.leave()
        else:
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

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Runs the body as one transaction: all of it reaches the file, or nothing.

        Raises:
          StoreMovedError: if the file is no longer where it was opened, or was overwritten.
          StoreError: if the file cannot be written; it is unchanged, and the store stays usable.
        """
        self.check_writable()
        if self.connection.in_transaction:
            raise StoreError(f"{self.path}: a transaction is already open; end it first")
        assert self.place
        try:
            with file.transaction(self.connection, self.path):
                self.place.check()
                yield
                self._top.follow(self.read_all)
                self.place.note_run()
        except BaseException:
            try:
                with file.sql_errors(self.path, "read it"):
                    self._load(forget=True)
            finally:
                self.place.check()  # a file that went explains any other error
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yields the connection; SQLite errors in the body become a StoreError that names the file."""
        self._check_open()
        with file.sql_errors(self.path, "read it"):
            yield self.connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Joins the open transaction, or makes a new one."""
        self.check_writable()
        if self.connection.in_transaction:
            with file.sql_errors(self.path, "write to it"):
                yield self.connection
        else:
            with self.transaction():
                yield self.connection

    def append(self, batch: RecordBatch, *, fresh: int) -> None:
        """Writes at most 2**20 records, in any order, as `append_batches` does; the last version counts."""
        if len(batch) > MAX_BATCH:
            raise CapacityError(
                f"{len(batch)} records in one batch, at most {MAX_BATCH} can be appended at once"
            )
        self.append_batches([batch], len(batch), fresh=fresh)

    def append_batches(self, batches: Iterable[RecordBatch], records: int, *, fresh: int) -> None:
        """Writes records as one new segment; they supersede all earlier versions.

        Records that do not fit the format are left out: `left_out_error` or `close` names them.

        Args:
          batches: all sort keys of a batch are below those of the next.
          records: their number; `fresh`: how many of them are not in the file yet.

        Raises:
          StoreError: if the file is bound to no evaluator.
        """
        if not records:
            return
        if not self.is_bound:
            raise StoreError(f"{self.path} is bound to no evaluator; open it with the identity of one")
        lost: list[tuple[NDArray[np.uint64], str]] = []

        def fitting(batch: RecordBatch) -> RecordBatch:
            bad = unfit(batch)
            lost.extend((batch.words[i], reason) for i, reason in bad)
            return take(batch, np.delete(np.arange(len(batch)), [i for i, _ in bad]))

        with self.writing() as connection:
            chunks = write_segment(connection, self.catalog, map(fitting, batches), records)
            for words, reason in lost:
                with suppress(CorruptRecordError):
                    fresh -= not self.find(words.reshape(1, -1))[0][0]
                key = key_text_of_words(words)
                self.left_out.add(key)
                self._lost[key] = f"{fen_of(unpack(words))} has {reason}"
            provenance.add_nodes(connection, max(0, fresh))
            self._load()
            if chunks:
                self._top.touch(lambda keys: np.any([chunk.may_hold(keys) for chunk in chunks], axis=0))

    def records_changed(self, words: NDArray[np.uint64] | None) -> None:
        """Marks records as changed or deleted; the open transaction updates the plain tables before it ends.

        Args:
          words: `[R, 10]` packed positions; None: any record may have changed.
        """
        self._top.touch(None if words is None else partial(np.isin, test_elements=keys_of(words)))

    def left_out_error(self) -> StoreError | None:
        """Returns an error that names the records not written since the last call; None if there are none."""
        names, self._lost = [*self._lost.values()], {}
        if not names:
            return None
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        return StoreError(
            f"{self.path}: a record cannot be written and is lost: {names[0]}{more}; all others are saved"
        )

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position, or None."""
        _, found = self.find(pack(board).reshape(1, -1))
        return found.record(0) if len(found) else None

    def read_all(self, boards: Sequence[chess.Board]) -> list[NodeRecord | None]:
        """Returns the records of positions, None without a sound one; 0.1 ms each, alone 1 ms."""
        try:
            have, found = self.find(np.array([*map(pack, boards)], np.uint64).reshape(-1, POSITION_WORDS))
        except CorruptRecordError:  # of one of them
            return [self.read_all([board])[0] for board in boards] if len(boards) > 1 else [None]
        records = map(found.record, range(len(found)))
        return [next(records) if held else None for held in have.tolist()]

    def find(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], RecordBatch]:
        """Returns which packed positions, `[K, 10]`, have a record, and the newest ones, in order."""
        check_time()
        with self.reading() as connection, self.snapshot():
            index = self.catalog.around(sort_keys(words))
            found = find(connection, index, words, self.catalog.sizes.piece_blocks)
            if found.damage:
                raise found.damage[0]
            return found.have, found.records

    def may_hold(self, words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Returns which positions the file may hold, `[K]`, by filters alone; about 0.5 % false positives.

        Args:
          words: `[K, 10]` packed positions; their clocks and keys are not read.
          keys: `[K]` their keys in the graph.
        """
        with self.reading(), self.snapshot():
            index, held = self.catalog.around(sort_keys(words)), np.zeros(len(keys), bool)
            find_stored(index.filter, owned(words, np.uint64).reshape(-1), owned(keys, np.uint64), held)
            return held

    def scan(self, *, on_corrupt: OnCorrupt | None = None) -> Iterator[RecordBatch]:
        """Yields the newest version of every record, in batches of some 16,000, in segment order.

        Args:
          on_corrupt: called for each damaged block and unsound record, which is then left out; without it the
            scan raises.
        """
        said: set[str] = set()  # the portions on both sides of a block read it

        def note(error: CorruptRecordError) -> None:
            if on_corrupt is None:
                raise error
            if str(error) not in said:
                said.add(str(error))
                on_corrupt(error)

        with self.reading(), self.snapshot():
            for portion in self._fetched_portions():
                batch = take(*portion.versions(on_corrupt or passed_over, note))
                if len(batch):
                    check_time()
                    yield batch

    def fetch_portion(self, start: int = 0) -> Portion:
        """Returns some 16,000 records from a sort key on, still encoded, so that any thread can decode them.

        Begin with 0 and continue with the portion's `following` until it is None: this scan lets the file be
        written between two portions. It may or may not return records that are added or deleted meanwhile.
        """
        with self.reading() as connection, self.snapshot():
            catalog = self.catalog
            blocks = catalog.sizes.scan_blocks
            cursors = cursors_from(catalog, catalog.segments, start, blocks)
            return fetch_portion(connection, catalog, cursors, start, choose_pivot(cursors, blocks, start))

    def portions(self, solve: Callable[[Portion], _Result]) -> Iterator[_Result]:
        """Yields `solve(portion)` for every portion of the file, in order; several threads call `solve`.

        The caller's thread reads the file, some portions ahead. Other connections may write between two
        portions.
        """
        return in_order(self._fetched_portions(), solve, thread_count())

    def all_records(self) -> Iterator[RecordBatch]:
        """Yields all records in segment order, in batches of at least one, decoded on all cores."""
        return (batch for batch in self.portions(Portion.records) if len(batch))

    def _fetched_portions(self) -> Iterator[Portion]:
        start: int | None = 0
        while start is not None:
            portion = self.fetch_portion(start)
            yield portion
            start = portion.following

    def reader(self) -> Reader:
        """Returns a reader of committed data with its own connection; closing the store closes it, too."""
        self._check_open()
        reader = Reader(self.path, sizes=self.catalog.sizes)
        self._readers = [*(r for r in self._readers if not r.closed), reader]
        return reader

    # ---------------------------------------------------------- plain tables
    def query(self, statement: str, values: Sequence[object], *names: str) -> list[Row]:
        """Returns the rows of a statement; `values`, `names`: as for `rows.query`, which checks them."""
        with self.reading() as connection:
            return list(query(connection, statement, values, *names))

    def read_fact(self, name: str) -> str | None:
        """Returns the value of a row of the table `store_info`, None if there is none."""
        with self.reading() as connection:
            return provenance.fact(connection, name)

    def write_fact(self, name: str, value: str | None) -> None:
        """Sets a row of the table `store_info`, or removes it if the value is None."""
        with self.writing() as connection:
            provenance.set_fact(connection, name, value)

    def evaluators(self) -> dict[int, EvaluatorIdentity]:
        """Returns the evaluators that a file lists, by number."""
        with self.reading() as connection:
            found = rows(connection, "evaluator", ("id", "identity"), "ORDER BY id")
            return {number: provenance.identity_of(text) for number, text in found}

    def add_evaluator(self, identity: EvaluatorIdentity) -> int:
        """Returns the number of an evaluator; adds it if it is missing; at most 15 fit."""
        with self.writing() as connection:
            known = self.evaluators()
            for number, other in known.items():
                if other.as_json() == identity.as_json():
                    return number
            number = max(known, default=0) + 1
            if number > MAX_EVALUATOR:
                full = f"the file has {MAX_EVALUATOR} evaluators already, the most that fit"
                raise StoreError(f"{self.path}: {full}; use another file for {identity.describe()}")
            provenance.write_evaluator(connection, number, identity)
            return number

    def bind_evaluator(self, number: int) -> None:
        """Binds a file to one of its listed evaluators; from then on no other may be used with it."""
        with self.writing() as connection:
            identity = self.evaluators().get(number)
            if identity is None:
                problem = f"the file has no evaluator {number}; add it before binding the file to it"
                raise StoreError(f"{self.path}: {problem}")
            provenance.set_fact(connection, "evaluator", str(number))
            self.identity, self.evaluator_number = identity, number

    def reserve_run(self) -> int:
        """Returns a number, of at most 1,048,575, for a run that `begin_run` records later; on any thread."""
        with self._numbering:
            if self._last_run >= MAX_RUN:
                runs = f"the file has {MAX_RUN:,} runs already and no room for more"
                raise StoreError(f"{self.path}: {runs}; use another file")
            self._last_run += 1
            return self._last_run

    def begin_run(
        self,
        position_fen: str,
        limits: Mapping[str, Any],
        params: Mapping[str, Any],
        *,
        kind: str = "search",
        evaluator: int | None = None,
        run: int | None = None,
    ) -> int:
        """Records a new run that starts now; returns its number, which the records evaluated in it carry.

        Args:
          kind: `search`, or another reason to call an evaluator.
          evaluator: number of the evaluator; None: the one that the file is bound to.
          run: a reserved number; without one, `reserve_run` gives it.
        """
        with self.writing() as connection:
            highest = _last_run(connection)
            with self._numbering:
                self._last_run = max(self._last_run, highest)
            run = run or self.reserve_run()
            row = {
                "id": run,
                "started": now(),
                "position": position_fen,
                "limits": json.dumps(dict(limits)),
                # JSON has no infinity, but a number that no double holds
                "params": json.dumps(dict(params)).replace("Infinity", "1e999"),
                "evaluator": evaluator or provenance.evaluator_number(connection),
                "kind": kind,
                "program": __version__,
            }
            write_row(connection, "run", row, otherwise="ABORT")
            self.begun[run] = row
            return run

    def update_run(self, run: int, visits: int, evaluations: int, *, finished: bool = False) -> None:
        """Records the visits and evaluations that a run has added so far, and its end if `finished`."""
        row: dict[str, object] = {"visits": visits, "evaluations": evaluations}
        with self.writing() as connection:
            update_row(connection, "run", run, row | ({"finished": now()} if finished else {}))

    def runs(self) -> list[RunInfo]:
        """Returns all runs of a file, oldest first."""
        return self._runs("ORDER BY id")

    def run(self, number: int) -> RunInfo | None:
        """Returns the run of a number, or None."""
        return next(iter(self._runs("WHERE id = ?", number)), None)

    def _runs(self, rest: str, *values: int) -> list[RunInfo]:
        with self.reading() as connection:
            return read_rows(connection, "run", RunInfo, rest, values, objects=("limits", "params"))

    def record_root(self, key: str, fen: str, visits: int) -> None:
        """Records that a position was searched as a root, with its root N, and when, to the millisecond."""
        with self.writing() as connection:
            row = {"key": key, "position": fen, "visits": visits, "last_searched": now("milliseconds")}
            write_row(connection, "root", row)

    def raise_root(self, key: str, visits: int) -> None:
        """Raises the recorded root N of a position that was searched as a root before; never lowers it."""
        with self.writing() as connection:
            connection.execute("UPDATE root SET visits = max(visits, ?) WHERE key = ?", (visits, key))

    def roots(self) -> list[RootInfo]:
        """Returns all positions searched as roots, the last searched first."""
        with self.reading() as connection:
            return read_rows(connection, "root", RootInfo, "ORDER BY last_searched DESC, key")

    def write_top(self, found: Iterable[Shown]) -> None:
        """Writes positions of `top.rows_of`; from now on they follow their records."""
        with self.writing():
            self._top.write(shown for shown in found if shown.position["key"] not in self.left_out)

    @property
    def unfinished(self) -> Unfinished | None:
        """The unfinished change of evaluator of the file, None if there is none."""
        with self.reading() as connection:
            return provenance.read_unfinished(connection)

    def mark_unfinished(self, mark: Unfinished | None) -> None:
        """Writes the mark of an unfinished change of evaluator, or removes it if None."""
        self.write_fact(provenance.MARK, None if mark is None else json.dumps(asdict(mark)))

    # ---------------------------------------------------------- the segments, and the log
    def merge_step(self, rules: merging.Rules = merging.READ) -> bool:
        """Runs one bounded step (some 32,000 records) of a merge; returns whether another step is due."""
        self.check_writable()
        if self.connection.in_transaction:
            raise StoreError(f"{self.path}: merging inside a transaction; end it first")
        if not merging.is_due(self.catalog, self.node_count, rules):
            return False
        catalog = self.catalog
        with self.rearranging():
            if merging.under_way(catalog) and merging.may_end(catalog, self.node_count, rules):
                merging.end(self.connection)
                catalog.load()
            if not merging.under_way(catalog):
                count, sizes = self.node_count, catalog.sizes
                wanted = merging.choose_segments(catalog.segments, count, rules, sizes=sizes)
                merging.start(self.connection, wanted)
                catalog.load()
            blocks = rules.blocks or catalog.sizes.step_blocks
            output, _ = merging.parts_of_merge(catalog)
            step = merging.next_step(self.connection, catalog, output.frontier, blocks)
            merging.finish_step(self.connection, catalog, step, take(*step.portion.versions(None)))
        return merging.is_due(catalog, self.node_count, rules)

    def checkpoint(self, *, over: int = 0) -> tuple[int, bool]:
        """Copies the write-ahead log into the file, if it is longer than `over` bytes.

        Commits do not do this: call it after a transaction, from the thread that writes. It waits for the
        disk, never for a reader.

        Returns:
          The size of the log now in bytes; whether a reader of an old state prevents emptying it.
        """
        self.check_writable()
        if self.connection.in_transaction:
            raise StoreError(f"{self.path}: a checkpoint inside a transaction; end it first")
        size = file.log_bytes(self.path)
        if size <= over:
            return size, False
        assert self.place
        self.place.check()
        try:
            with file.sql_errors(self.path, "write to it"):
                _, frames, copied = self.connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                held = copied < frames  # by a reader, which keeps its state
                if not held and file.log_bytes(self.path):
                    self.connection.execute("PRAGMA busy_timeout = 0")
                    held = bool(self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
        finally:  # a failed one has written, too: nobody else has overwritten the file
            self.place.note_written()
            self.connection.execute(f"PRAGMA busy_timeout = {int(1000 * file.BUSY_SECONDS)}")
        return file.log_bytes(self.path), held

    def shorten_log(self) -> None:
        """Copies a long log into the file, between two transactions; raises if a reader makes it too long."""
        size, held = self.checkpoint(over=file.LOG_BYTES)
        if held and size > file.LONGEST_LOG_BYTES:
            raise StoreError(
                f"{self.path}: another program is reading an old state of it, so its write-ahead log keeps"
                f" growing ({size >> 20} MiB); close that program and continue; everything so far is saved"
            )

    @contextmanager
    def rearranging(self) -> Iterator[None]:
        """Runs one step of a merge as a transaction, and updates the index at its end."""
        with self.transaction():
            yield
            self._load()
            records = self.catalog.records
            if len(self.catalog.segments) == 1 and records != self._node_count:
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
            self._check_open()
            version = file.data_version(self.connection)
            if version != self.data_version:
                with file.sql_errors(self.path, "read it"):
                    self._load()
                    self.data_version = version
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

    def _load(self, *, forget: bool = False) -> None:
        """Reads all cached data: at first, after any connection has written, and a rollback (`forget`)."""
        self.catalog.load(forget=forget)
        self._node_count = provenance.fact_number(self.connection, "nodes")
        self.identity = provenance.read_identity(self.connection) or UNBOUND
        self.evaluator_number = provenance.evaluator_number(self.connection)

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


def unfinished_state(path: str | os.PathLike[str]) -> str:
    """Returns the progress of a file's unfinished change of evaluator and how to resume it; empty if none."""
    with Store.open(path, read_only=True) as store:
        return provenance.unfinished_state(store.connection, store.path, store.identity)
