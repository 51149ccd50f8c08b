"""Saving: copies of dirty records, and the writer's thread, which merges while there is nothing to save.

    search   | waves | copy out | waves ...            | settle | waves
    writer             encode, write, COMMIT | merge step | merge step ...

Everything that writes to the file goes through here, so that the file has one writer.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ..base.errors import StoreMovedError
from ..store.log import LOG_BYTES, LONGEST_LOG_BYTES
from ..store.merging import Rules
from ..store.place import copy_elsewhere
from ..store.store import Store
from .arena import Arena, Saving
from .bring_kernel import BYTES_PER_NODE
from .kept_transpositions import GraphEntries
from .memory import return_freed_memory
from .paging import Pager
from .summary import RootTables

Work = Callable[[Store], object]

IN_FLIGHT = "in_flight"  # row of store_info

FLUSH_NODES = 1 << 20  # dirty nodes that are saved at once, at most
FLUSH_PARTS = 64  # a budget holds so many times what is saved at once,
SMALL_FLUSH_NODES, SMALL_FLUSH_PARTS = 65_536, 16  # or so many times, if that would be few nodes
STEP_SECONDS = 0.25  # of a merge step, on the clock: a save waits for its end, and the search may for that
LEAST_STEP_BLOCKS = 256  # 25 ms of a free core; steps of 64 blocks take four times as long for each record
MERGING_LOG_BYTES = 256 << 20  # merging pauses while a reader of an old state keeps a log this long


def flush_nodes(budget: int) -> int:
    """Returns how many dirty nodes are saved at once, at most, within a budget of so many bytes.

    What changes again before it is saved is written once, so more is better. But each takes some 400 bytes,
    with log and copies, which nodes read from the file would need.

    >>> flush_nodes(64_000_000), flush_nodes(2_000_000_000), flush_nodes(20_000_000_000)
    (28571, 223214, 1048576)
    """
    few = min(SMALL_FLUSH_NODES, budget // (BYTES_PER_NODE * SMALL_FLUSH_PARTS))
    return max(1, few, min(FLUSH_NODES, budget // (BYTES_PER_NODE * FLUSH_PARTS)))


def saved_elsewhere(
    moved: StoreMovedError, call: Callable[[Work], object], save: Callable[[], object]
) -> StoreMovedError:
    """Saves everything although the file is gone, and copies it to a new one; returns what says so.

    Args:
      moved: how that was noticed.
      call: has something done by the writer's thread.
      save: saves what is not saved yet.

    Raises:
      StoreError: if there is no place for the copy.
    """
    copies: list[Path] = []

    def give_up(store: Store) -> None:
        if store.place:
            store.place.given_up = True

    call(give_up)
    save()
    call(lambda store: copies.append(copy_elsewhere(store.connection, store.path)))
    return StoreMovedError(f"{moved}; everything up to now is saved in {copies[0]}; continue with that file")


class _Job:
    """Something to do with the store, and how it went."""

    def __init__(self, work: Work, *, saves: bool) -> None:
        self.work = work
        self.saves = saves
        self.done = threading.Event()
        self.error: BaseException | None = None

    def do(self, store: Store) -> None:
        try:
            if self.saves:
                with store.transaction():
                    self.work(store)
            else:
                self.work(store)
        except BaseException as error:  # raised again where it is waited for
            self.error = error


class Saver:
    """Owns the writing side of a store. Its methods are for one other thread.

    Attributes:
      unread: whether the graph holds the whole file, or soon reads it: merging serves nobody then.
      newest: age of the newest segment that may be merged; None: all may.
      most_blocks: of a merge step.
    """

    def __init__(self, store: Store, *, unread: bool = False) -> None:
        self.unread = unread
        self.newest: int | None = None
        self._step_blocks = self.most_blocks = store.sizes.step_blocks
        self._store = store
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._saving: _Job | None = None
        self._error: Exception | None = None  # of merging
        self._merging = threading.Event()  # set by what is saved: who saves nothing merges nothing
        self._log_bytes, self._log_held = 0, False
        self._thread = threading.Thread(target=self._loop, name="graphsearch-writer", daemon=True)
        self._thread.start()

    # ---------------------------------------------------------- for the search
    @property
    def log_held(self) -> int:
        """Bytes of a write-ahead log that is too long because of a reader of an old state, else 0."""
        return self._log_bytes if self._log_held and self._log_bytes > LONGEST_LOG_BYTES else 0

    def save(self, work: Work) -> None:
        """Has `work` done in a transaction, in the background; `settle` must follow."""
        assert self._saving is None, "one at a time"
        self._saving = _Job(work, saves=True)
        self._jobs.put(self._saving)

    def settled(self, *, wait: bool) -> bool:
        """Returns whether the last `save` has ended.

        Raises:
          StoreError: if it failed, or merging did; what was not saved is not in the file.
        """
        job = self._saving
        if job is None:
            return True
        if wait:
            job.done.wait()
        elif not job.done.is_set():
            return False
        self._saving = None
        if job.error:
            raise job.error
        return True

    def check(self) -> None:
        """Raises what ended merging, a StoreError as a rule, once."""
        error, self._error = self._error, None
        if error:
            self._merging.set()
            raise error

    def call(self, work: Work) -> None:
        """Has something done and waits for it; it makes its own transaction if it needs one."""
        job = _Job(work, saves=False)
        self._jobs.put(job)
        job.done.wait()
        if job.error:
            raise job.error

    def close(self, last: Work | None = None) -> None:
        """Ends the thread after the step it is at, and `last`; merges go on when the file is opened again."""
        if self._thread.is_alive():
            if last:
                self._jobs.put(_Job(last, saves=False))
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
            job.do(self._store)
            if job.saves and not job.error:
                self._merging.set()
            self._checkpoint()
            job.done.set()

    def _can_merge(self) -> bool:
        return self._merging.is_set() and not (self._log_held and self._log_bytes > MERGING_LOG_BYTES)

    def _merge(self) -> None:
        """Does one step; whatever keeps it from more is tried again after the next save or `check`."""
        try:
            if not self._merge_step():
                self._merging.clear()
        except Exception as error:  # this thread lives on: those who wait for it would wait for ever
            self._error = error
            self._merging.clear()
        self._checkpoint()

    def _merge_step(self) -> bool:
        """Does one step, of a size that the machine at its present load does in `STEP_SECONDS`."""
        began, blocks = time.monotonic(), min(self._step_blocks, self.most_blocks)
        rules = Rules(unread=self.unread, lazy=self.newest is None, blocks=blocks, newest=self.newest)
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
    """What of a `Graph` is saved, and when: its arena, its file, and what is on the way between them.

    Attributes:
      tables_meanwhile: whether a search writes the plain tables; if False, only `flush` and `close` do.
      in_flight: the wave that the last search had in flight when it stopped (`search.in_flight`), saved with
        everything else; None if there is none.
      saved_nodes: records saved so far.
    """

    def __init__(self, store: Store | None, ram_bytes: int | None) -> None:
        if store:
            store.leaves_out = True
            if ram_bytes:
                return_freed_memory()
        self.store = store
        self.arena = Arena(ram_bytes, logged=store is not None)
        self._reader = store.reader() if store else None
        self.pager = Pager(
            self.arena, self._reader, self.arena.max_bytes, complete=store is None or not store.node_count
        )
        self._file_nodes = store.node_count if store else 0
        self._saver = Saver(store, unread=self._is_unread) if store else None
        self._saving: Saving | None = None
        self.saved_nodes = 0
        self.tables_meanwhile = True
        self.in_flight = store.read_fact(IN_FLIGHT) if store else None
        self._notes: list[Work] = []
        self._tables = RootTables(self.pager.read)
        self._entries = GraphEntries(self.arena, self._saver.call if self._saver else None)

    def begin_saving(self, note: Work | None = None, *, tables: bool = False) -> None:
        """Starts to save what the file does not hold yet; searching may go on, and `settle` must follow.

        Args:
          note: writes what belongs to the same transaction, such as the state of a search.
          tables: write the plain tables too; else now and then.

        Raises:
          StoreError: if what was saved before failed; nothing is lost, it is tried again with the next save.
        """
        self._settle_saving(wait=True)
        if self._saver is None:
            return
        late, in_flight = len(self._notes), self.in_flight
        notes = [
            *self._notes,
            lambda store: store.write_fact(IN_FLIGHT, in_flight),
            *([note] if note else []),
        ]
        tables = tables or (self.tables_meanwhile and self._tables.is_due)
        self.arena.take_back_overlay()
        try:
            rows = self._tables.rows() if tables else None
            entries = self._entries.take()
            saving = self.arena.begin_saving()
        finally:
            self.arena.give_again_overlay()
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
        """Whether the file is in memory, or is read whole once a search asks for much of it."""
        return self.pager.complete or self.pager.has_room_for(self._file_nodes)

    def merge_up_to(self, age: int | None) -> None:
        """Leaves segments of the file alone that are younger than an age; None: merges all again."""
        if self._saver is not None:
            self._saver.newest = age

    def limit_merge_steps(self, blocks: int) -> int:
        """Limits merge steps to about so many blocks, but not to a tiny number; returns the limit."""
        if self._saver is None or self.store is None:
            return 0
        self._saver.most_blocks = min(self.store.sizes.step_blocks, max(LEAST_STEP_BLOCKS, blocks))
        return self._saver.most_blocks

    def note_later(self, note: Work) -> None:
        """Has something written with what is saved next."""
        self._notes.append(note)

    def save_soon(self) -> bool:
        """Starts to save in the background what is not in the file, if nothing is being saved; never waits.

        Returns:
          whether all is saved.

        Raises:
          StoreError: if the last saving or merging failed; nothing is lost, a later save may succeed.
        """
        if not self.settle(wait=False):
            return False
        if self._saver is None or not self.has_unsaved:
            return True
        self.begin_saving()
        return False

    @property
    def has_unsaved(self) -> bool:
        """Whether there is anything that the file does not hold once nothing is on its way there."""
        return bool(self.arena.dirty_count or self._notes or self._entries.has_unsaved)

    def settle(self, *, wait: bool) -> bool:
        """Returns whether nothing is being saved; with `wait` it waits for that.

        Raises:
          StoreError: if saving or merging failed; nothing is lost, a later save may succeed.
        """
        settled = self._settle_saving(wait=wait)
        if self._saver is not None and settled:
            self._saver.check()
        return settled

    def _settle_saving(self, *, wait: bool) -> bool:
        """Does what `settle` says, but leaves alone what may have gone wrong with merging."""
        saving = self._saving
        if self._saver is None or saving is None:
            return True
        try:
            if not self._saver.settled(wait=wait):
                return False
        except BaseException:
            self._saving = None
            self.arena.undo_saving(saving)
            self._entries.settle(saved=False)
            raise
        self._saving = None
        self._entries.settle(saved=True)
        self.arena.end_saving(saving)
        self.pager.file_changed()
        assert self.store
        self._file_nodes = self.store.node_count
        self.saved_nodes += len(saving)
        return True

    def flush(self, note: Work | None = None) -> int:
        """Saves what the file does not hold yet, all of it or nothing; returns how many records that was.

        Args:
          note: writes what belongs to the same transaction, such as the state of a search.

        Raises:
          StoreMovedError: if the file is gone; all is in another one then, which the error names.
          StoreError: if the file cannot be written; nothing is lost, a later flush may succeed.
        """
        if self._saver is None:
            return 0
        before = self.saved_nodes
        try:
            self._save_all(note)
        except StoreMovedError as error:
            assert self._saver is not None
            raise saved_elsewhere(error, self._saver.call, lambda: self._save_all(note)) from None
        return self.saved_nodes - before

    def _save_all(self, note: Work | None) -> None:
        self.begin_saving(note, tables=True)
        self.settle(wait=True)

    def call(self, work: Work) -> None:
        """Has something written to the file by its one writer, and waits for it; without a file, nothing."""
        if self._saver is not None:
            self._saver.call(work)

    @property
    def log_held(self) -> int:
        """Bytes of a write-ahead log that is too long because of a reader of an old state, else 0."""
        return self._saver.log_held if self._saver else 0
