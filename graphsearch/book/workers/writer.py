"""The only writer of the file: merges workers' records, and runs the builder's writes.

It also writes the table `book_lease`: the positions that workers are searching, for `book status`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import chess
import numpy as np
from numpy.typing import NDArray

from ...base.errors import StoreError
from ...graph.saving import Saver
from ...position.board import POSITION_WORDS, pack
from ...position.fens import clocks_of
from ...store.codec.bulk import take
from ...store.file import LONGEST_LOG_BYTES
from ...store.reading import MAX_ASKED, Reader
from ...store.record.node import LOWER_SHIFT, TERMINAL_MASK, UPPER_SHIFT, NodeRecord, RecordBatch
from ...store.record.ranking import visits_of
from ...store.store import MAX_BATCH, Store
from ...store.upkeep.compact import tidy
from ..executor import Note

_T = TypeVar("_T")


LEASE_SECONDS = 120.0  # until a row of `book_lease` expires, unless it is extended


class Writer:
    """Commits records and writes of several threads, one transaction at a time.

    Attributes:
      store: the file; others may only create readers of it.
      dropped: number of workers' records with no more visits than the file's.
      wanted: set when a write is pending. error: of a write, until it is raised.
    """

    def __init__(self, store: Store, book: int) -> None:
        """Takes ownership of a store that is open for writing; removes old leases of the book."""
        self.store = store
        store.leaves_out = True
        self._book = book
        self._saver = Saver(store)
        self._merging = store.reader()  # used while a transaction is written
        self._reading = store.reader()
        self._turn, self._read = threading.Lock(), threading.Lock()
        self._notes: list[Note] = []
        self.dropped = 0
        self.wanted = threading.Event()
        self.error: Exception | None = None
        self.unlease()

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
                f"{self.store.path}: another program reads an old state of it, which keeps its write-ahead"
                f" log growing ({LONGEST_LOG_BYTES >> 20} MiB and more); close that program and"
                " continue; everything before is saved"
            )

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the committed record of a position, or None."""
        with self._read:
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

            try:
                self._saver.save(work)
                self._saver.settled(wait=True)
            except StoreError as error:
                if batches:  # of a worker: the builder's thread raises it
                    self.error = error
                raise
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
        """Runs a function between two commits, and returns its result."""
        with self._turn:
            return ask()

    # ---------------------------------------------------------- leases
    def lease(self, key: str, worker: int, process: int) -> None:
        """Inserts the lease of a position, with the number and the process id of its worker."""
        row = (self._book, key, worker, process, _time(), _time(LEASE_SECONDS))
        into = "INSERT OR REPLACE INTO book_lease (book, key, worker, pid, since, expires)"
        self._note_rows(into + " VALUES (?, ?, ?, ?, ?, ?)", [row])

    def extend(self, keys: Iterable[str]) -> None:
        """Extends the leases of positions."""
        rows = [(_time(LEASE_SECONDS), self._book, key) for key in keys]
        self._note_rows("UPDATE book_lease SET expires = ? WHERE book = ? AND key = ?", rows)

    def unlease(self, key: str | None = None) -> None:
        """Deletes the lease of a position; without a key, all leases of the book."""
        self._note_rows(
            "DELETE FROM book_lease WHERE book = ? AND key = coalesce(?, key)", [(self._book, key)]
        )

    def _note_rows(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        def write(store: Store) -> None:
            store.connection.executemany(statement, rows)

        self.note(write)
        self.wanted.set()

    def close(self) -> None:
        """Removes superseded versions if that is quick, and closes the file."""
        with self._turn:
            try:
                self._saver.call(tidy)
            except StoreError:  # everything is saved; only old versions stay
                pass
            finally:
                self._saver.close()
                self._merging.close()
                self._reading.close()
                self.store.close()


I64 = NDArray[np.int64]
Flags = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged records of a worker.

    Attributes:
      records: to write. fresh: number of these without a record in the file.
      better: records of the file that replace dropped versions of the worker.
    """

    records: RecordBatch
    fresh: int
    better: RecordBatch


def merged(batch: RecordBatch, reader: Reader) -> Merged:
    """Returns the records to write after merging a worker's records with those in the file.

    Of two versions, the one with the greater node N stays, or the file's if they are equal; proven bounds of
    either hold for both. This keeps invariant 3, child N >= n - r of every edge, if every worker sends all
    its changes in one transaction:

    - Node N in the file never falls, because the greater one stays.
    - A worker begins a turn with one state of the file, where the invariant holds, and changes it as a search
      in one process does (`worker.catch_up`): in its memory, an edge's child has N >= n - r. That child is in
      the same transaction, in an earlier one, or in that state of the file. In each case the file has it with
      at least this N when the transaction ends, and ever after.
    - So every edge of either version of the parent has its visits below. The merge never mixes edges of two
      versions, so N = 1 + sum n stays true as well.

    One case is left: if memory is so short that a worker reads back records that it has saved in the same
    turn, it sees a newer state of the file, and an edge may count more visits than its child has. Searches
    repair that as they repair a lost child.

    Visits may be lost, never an evaluation: every evaluated position has a record in the file.

    Args:
      batch: of one worker, each position once.
      reader: sees all commits.

    Raises:
      StoreError: if the file cannot be read.
    """
    parts = [
        _merged(batch.part(first, min(first + MAX_ASKED, len(batch))), reader)
        for first in range(0, len(batch), MAX_ASKED)
    ]
    records = RecordBatch.concat([part.records for part in parts])
    better = RecordBatch.concat([part.better for part in parts])
    return Merged(records, sum(part.fresh for part in parts), better)


def _merged(batch: RecordBatch, reader: Reader) -> Merged:
    have, stored = reader.find(batch.words)
    places = np.nonzero(have)[0]
    wins = np.ones(len(batch), bool)
    wins[places] = visits_of(batch)[places] > visits_of(stored)
    flags, ours_at, theirs_at = batch.flags.copy(), clocks_of(batch.words[places]), clocks_of(stored.words)
    flags[places] = tightened(batch.flags[places], ours_at, stored.flags, theirs_at)
    ours = take(replace(batch, flags=flags), np.nonzero(wins)[0])
    others = tightened(stored.flags, theirs_at, batch.flags[places], ours_at)
    stored, proven = replace(stored, flags=others), others != stored.flags
    theirs = take(stored, np.nonzero(~wins[places] & proven)[0])
    records = RecordBatch.concat([part for part in (ours, theirs) if len(part)])
    return Merged(records, len(batch) - len(places), take(stored, np.nonzero(~wins[places])[0]))


def tightened(flags: Flags, clocks: I64, others: Flags, their_clocks: I64) -> Flags:
    """Returns flags of records with the proven bounds of other versions of the same positions.

    A win or a loss is proven for its record's clock and lower ones, a draw for all clocks, as in
    `NodeRecord.bounds_at`.

    >>> win, open_ = np.array([2 << 2 | 2 << 4], np.uint8), np.array([0 << 2 | 2 << 4], np.uint8)
    >>> early, late = np.array([0]), np.array([10])
    >>> bool(tightened(open_, early, win, late) == win), bool(tightened(open_, late, win, early) == win)
    (True, False)
    """
    lower, upper = _bounds(flags)
    their_lower, their_upper = _bounds(others)
    later = clocks > their_clocks
    lower = np.maximum(lower, np.where(later, np.minimum(their_lower, 0), their_lower))
    upper = np.minimum(upper, np.where(later, np.maximum(their_upper, 0), their_upper))
    found = lower + 1 << LOWER_SHIFT | upper + 1 << UPPER_SHIFT
    good = (lower <= upper) & (flags & TERMINAL_MASK == 0) & (others & TERMINAL_MASK == 0)
    return np.where(good, found, flags).astype(np.uint8)


def _bounds(flags: Flags) -> tuple[I64, I64]:
    wide = flags.astype(np.int64)
    return (wide >> LOWER_SHIFT & 3) - 1, (wide >> UPPER_SHIFT & 3) - 1


def _time(ahead: float = 0.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=ahead)).isoformat(timespec="seconds")
