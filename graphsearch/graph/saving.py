"""Saving: copies of dirty records, and the writer thread, which merges while there is nothing to save.

    search   | waves | copy out | waves ...            | settle | waves
    writer             encode, write, COMMIT | merge step | merge step ...

All writes to the file go through this module, so that the file has one writer.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path

import chess

from ..base.errors import StoreError, StoreMovedError
from ..store.apart import ApartMoves
from ..store.apart import write as write_apart
from ..store.file import LOG_BYTES, LONGEST_LOG_BYTES
from ..store.merging import Rules
from ..store.moved import copy_elsewhere
from ..store.record.node import RecordBatch
from ..store.store import Store
from ..store.union.records import add_records
from .arena import Arena, Saving
from .bring_kernel import BYTES_PER_NODE
from .kept_transpositions import GraphEntries
from .memory import return_freed_memory
from .paging import Pager
from .summary import RootTables

Work = Callable[[Store], object]

CLOSED = "the graph is closed; open it again to continue"

FLUSH_NODES = 1 << 20  # most dirty nodes that are saved at once
FLUSH_PARTS = 64  # a save takes at most 1 / FLUSH_PARTS of the budget,
SMALL_FLUSH_NODES, SMALL_FLUSH_PARTS = 65_536, 16  # or 1 / SMALL_FLUSH_PARTS if that is few nodes
STEP_SECONDS = 0.25  # wall time of a merge step: a save waits for its end, and a search may wait for the save
LEAST_STEP_BLOCKS = 256  # 25 ms of a free core; steps of 64 blocks take four times as long per record
MERGING_LOG_BYTES = 256 << 20  # merging pauses while a reader of an old state keeps a longer log


def flush_nodes(budget: int) -> int:
    """Returns the most dirty nodes that are saved at once, for a budget in bytes.

    A node that changes several times between two saves is written once, so more is better. But each takes
    some 400 bytes for log and copies, which then are not available for nodes read from the file.

    >>> flush_nodes(64_000_000), flush_nodes(2_000_000_000), flush_nodes(20_000_000_000)
    (28571, 223214, 1048576)
    """
    few = min(SMALL_FLUSH_NODES, budget // (BYTES_PER_NODE * SMALL_FLUSH_PARTS))
    return max(1, few, min(FLUSH_NODES, budget // (BYTES_PER_NODE * FLUSH_PARTS)))


class Saver:
    """The writer thread of a store. One other thread may call its methods.

    Attributes:
      unread: whether the graph has the whole file in memory, or soon will; more segments may then remain
        unmerged (`Rules.unread`).
      most_blocks: of a merge step.
    """

    def __init__(self, store: Store, *, unread: bool = False) -> None:
        self.unread = unread
        self._step_blocks = self.most_blocks = store.sizes.step_blocks
        self._store = store
        self._jobs: queue.SimpleQueue[tuple[Work, Future[None]] | None] = queue.SimpleQueue()
        self._saving: Future[None] | None = None
        self._error: Exception | None = None  # of merging
        self._merging = threading.Event()  # set by a save: without saves there is no merging
        self._log_bytes, self._log_held = 0, False
        self._thread = threading.Thread(target=self._loop, name="graphsearch-writer", daemon=True)
        self._thread.start()

    # ---------------------------------------------------------- for the search
    @property
    def log_held(self) -> int:
        """Bytes of the write-ahead log if a reader of an old state keeps it too long, else 0."""
        return self._log_bytes if self._log_held and self._log_bytes > LONGEST_LOG_BYTES else 0

    def save(self, work: Work) -> None:
        """Starts `work` in a transaction on the writer thread; `settled` must follow."""
        assert self._saving is None, "one at a time"

        def in_transaction(store: Store) -> None:
            with store.transaction():
                work(store)
            self._merging.set()

        self._saving = self._give(in_transaction)

    def _give(self, work: Work) -> Future[None]:
        outcome: Future[None] = Future()
        self._jobs.put((work, outcome))
        return outcome

    def settled(self, *, wait: bool) -> bool:
        """Returns whether the last `save` has ended.

        Raises:
          StoreError: if it failed; its transaction was rolled back.
        """
        job = self._saving
        if job is None:
            return True
        if not (wait or job.done()):
            return False
        job.exception()  # waits for its end
        self._saving = None
        job.result()
        return True

    def check_open(self) -> None:
        """Raises StoreError if the thread was closed: its caller would wait forever."""
        if not self._thread.is_alive():
            raise StoreError(CLOSED)

    def check(self) -> None:
        """Raises the error that stopped merging, usually a StoreError, once; merging may then continue."""
        error, self._error = self._error, None
        if error:
            self._merging.set()
            raise error

    def call(self, work: Work) -> None:
        """Runs `work` on the writer thread and waits for it; `work` opens a transaction if it needs one."""
        self.check_open()
        self._give(work).result()

    def close(self) -> None:
        """Ends the thread after its current step; the next session continues the merges."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join()

    # ---------------------------------------------------------- the thread
    def _loop(self) -> None:
        while True:
            try:
                job = self._jobs.get(block=not self._can_merge())
            except queue.Empty:
                self._merge()
                continue
            if job is None:
                return
            work, outcome = job
            failure: BaseException | None = None
            try:
                work(self._store)
            except BaseException as error:  # the waiting thread raises it again
                failure = error
            self._checkpoint()
            if failure:
                outcome.set_exception(failure)
            else:
                outcome.set_result(None)

    def _can_merge(self) -> bool:
        return self._merging.is_set() and not (self._log_held and self._log_bytes > MERGING_LOG_BYTES)

    def _merge(self) -> None:
        """Does one merge step; if it is the last or fails, merging waits for the next save or `check`."""
        try:
            if not self._merge_step():
                self._merging.clear()
        except Exception as error:  # the thread must survive: other threads wait for its jobs
            self._error = error
            self._merging.clear()
        self._checkpoint()

    def _merge_step(self) -> bool:
        """Does one merge step; adapts the size of the next to STEP_SECONDS; returns whether more are due."""
        began, blocks = time.monotonic(), min(self._step_blocks, self.most_blocks)
        rules = Rules(unread=self.unread, lazy=True, blocks=blocks)
        more = self._store.merge_step(rules)
        seconds = time.monotonic() - began
        if seconds > STEP_SECONDS:
            self._step_blocks = max(LEAST_STEP_BLOCKS, self._step_blocks // 2)
        elif seconds < STEP_SECONDS / 4:
            self._step_blocks = min(self.most_blocks, 2 * self._step_blocks)
        return more

    def _checkpoint(self) -> None:
        try:
            self._log_bytes, self._log_held = self._store.checkpoint(over=LOG_BYTES)
        except Exception as error:
            self._error = error


class SavedGraph:
    """The part of a `Graph` that saves: the arena, the store, and the copies between them.

    Attributes:
      tables_meanwhile: whether a search writes the plain tables; if False, only `flush` and `close` do.
      apart: the moves that were searched apart. saved_nodes: records saved so far.
      entries: the transposition entries in use.
    """

    def __init__(self, store: Store | None, ram_bytes: int | None, *, logged: bool = False) -> None:
        """`logged`: note changes without a file too, for `changed_records`."""
        if store:
            store.leaves_out = True
            if ram_bytes:
                return_freed_memory()
        self.store = store
        self.arena = Arena(ram_bytes, logged=logged or store is not None)
        self._reader = store.reader() if store else None
        self.pager = Pager(
            self.arena, self._reader, self.arena.max_bytes, complete=store is None or not store.node_count
        )
        self._file_nodes = store.node_count if store else 0
        self._saver = Saver(store, unread=self._is_unread) if store else None
        self._saving: Saving | None = None
        self.saved_nodes = 0
        self.tables_meanwhile = True
        self._notes: list[Work] = []
        self.apart = ApartMoves.of(store) if store else ApartMoves()
        self._tables = RootTables(self.pager.read)
        self.entries = GraphEntries(self.arena, self._saver.call if self._saver else None)

    def begin_saving(self, note: Work | None = None, *, tables: bool = False) -> None:
        """Starts to save all unsaved changes; the search may continue, and `settle` must follow.

        Args:
          note: called in the same transaction. tables: write the plain tables too; else only if they are due.

        Raises:
          StoreError: if the previous save failed; nothing is lost, the next save retries it. Or if closed.
        """
        self._settle_saving(wait=True)
        if self._saver is None:
            return
        self._saver.check_open()
        late, notes = len(self._notes), [*self._notes, *([note] if note else [])]
        tables = tables or (self.tables_meanwhile and self._tables.is_due)
        self.arena.subtract_overlay()
        try:
            rows = self._tables.rows() if tables else None
            entries = self.entries.begin_saving()
            saving = self.arena.begin_saving()
        finally:
            self.arena.add_overlay()
        self._saving = saving

        def work(store: Store) -> None:
            store.append_parts(saving.batches, fresh=saving.fresh)
            for item in (rows, entries, *notes):
                if item:
                    item(store)
            del self._notes[:late]

        self._saver.unread = self._is_unread
        self._saver.save(work)

    @property
    def _is_unread(self) -> bool:
        """Whether the whole file is in memory, or will be once a search needs much of it."""
        return self.pager.complete or self.pager.has_room_for(self._file_nodes)

    def limit_merge_steps(self, blocks: int) -> int:
        """Limits merge steps to about `blocks` blocks, but at least LEAST_STEP_BLOCKS; returns the limit."""
        if self._saver is None or self.store is None:
            return 0
        self._saver.most_blocks = min(self.store.sizes.step_blocks, max(LEAST_STEP_BLOCKS, blocks))
        return self._saver.most_blocks

    def note_later(self, note: Work) -> None:
        """Adds a function that the next save calls in its transaction."""
        self._notes.append(note)

    def add_records(self, batch: RecordBatch) -> None:
        """Merges records into the file by the rule of `store merge`, in one transaction with pending notes.

        The graph must leave its records in the file (`Graph.over`).

        Raises:
          StoreError: if the file cannot be written; a later save may succeed.
        """
        if len(batch):
            self.note_later(lambda store: add_records(store, batch))
        self.begin_saving()
        self.settle(wait=True)

    def changed_records(self) -> RecordBatch:
        """Returns the records that were made or changed, of a graph in memory that logs them."""
        self.arena.subtract_overlay()
        saving = self.arena.begin_saving()
        self.arena.end_saving(saving)
        self.arena.add_overlay()
        return RecordBatch.concat(saving.batches)

    def note_apart(self, board: chess.Board, moves: Iterable[chess.Move]) -> None:
        """Notes that moves of a position are searched apart; the next save writes it."""
        new = self.apart.add(board, moves)
        if new and self.store:
            self.note_later(lambda store: write_apart(store.connection, new))

    def save_soon(self) -> bool:
        """Starts to save in the background if there are unsaved changes and no save is running; never waits.

        Returns:
          whether everything is saved.

        Raises:
          StoreError: if the last save or merge failed; nothing is lost, a later save may succeed.
        """
        if not self.settle(wait=False):
            return False
        if self._saver and self.has_unsaved:
            self.begin_saving()
            return False
        return True

    @property
    def has_unsaved(self) -> bool:
        """Whether there are unsaved changes, beside those of a running save."""
        return bool(self.arena.dirty_count or self._notes or self.entries.has_unsaved)

    def settle(self, *, wait: bool) -> bool:
        """Returns whether no save is running; with `wait` it waits until none is.

        Raises:
          StoreError: if a save or merge failed; nothing is lost, a later save may succeed.
        """
        if not self._settle_saving(wait=wait):
            return False
        if self._saver:
            self._saver.check()
        return True

    def _settle_saving(self, *, wait: bool) -> bool:
        """Does the same as `settle`, but does not raise errors of merging."""
        saving = self._saving
        if self._saver is None or saving is None:
            return True
        try:
            if not self._saver.settled(wait=wait):
                return False
        except BaseException:
            self._saving = None
            self.arena.undo_saving(saving)
            self.entries.end_saving(saved=False)
            raise
        self._saving = None
        self.entries.end_saving(saved=True)
        self.arena.end_saving(saving)
        self.pager.file_changed()
        assert self.store
        self._file_nodes = self.store.node_count
        self.saved_nodes += len(saving)
        return True

    def flush(self, note: Work | None = None) -> int:
        """Saves all unsaved changes and calls `note`, in one transaction; returns the records saved.

        Raises:
          StoreMovedError: if the file is gone; everything is then saved in a new file, which the error names.
          StoreError: if the file cannot be written; nothing is lost, a later flush may succeed.
        """
        if self._saver is None:
            return 0
        before = self.saved_nodes
        try:
            self._save_all(note)
        except StoreMovedError as error:
            raise self._saved_elsewhere(error, note) from None
        return self.saved_nodes - before

    def _save_all(self, note: Work | None) -> None:
        self.begin_saving(note, tables=True)
        self.settle(wait=True)

    def _saved_elsewhere(self, moved: StoreMovedError, note: Work | None) -> StoreMovedError:
        """Saves everything although the file is gone, and copies it; returns an error that names the copy."""
        copies: list[Path] = []

        def give_up(store: Store) -> None:
            if store.place:
                store.place.given_up = True

        self.call(give_up)
        self._save_all(note)
        self.call(lambda store: copies.append(copy_elsewhere(store.connection, store.path)))
        return StoreMovedError(
            f"{moved}; everything up to now is saved in {copies[0]}; continue with that file"
        )

    def call(self, work: Work) -> None:
        """Runs `work` on the writer thread and waits for it; does nothing without a file."""
        if self._saver:
            self._saver.call(work)

    @property
    def log_held(self) -> int:
        """Bytes of the write-ahead log if a reader of an old state keeps it too long, else 0."""
        return self._saver.log_held if self._saver else 0
