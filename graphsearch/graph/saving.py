"""The writer's thread: it saves what it is given, and merges runs while there is nothing to save.

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

from ..errors import StoreMovedError
from ..store.file import LOG_BYTES
from ..store.log import LONGEST_LOG_BYTES
from ..store.merging import Rules
from ..store.place import copy_elsewhere
from ..store.store import Store
from .bring_kernel import BYTES_PER_NODE

Work = Callable[[Store], object]

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
      unread: whether the graph holds all of the file in memory, so that merging serves nobody yet.
      newest: age of the newest segment that may be merged; None: all may.
    """

    def __init__(self, store: Store) -> None:
        self.unread = False
        self.newest: int | None = None
        self._step_blocks = store.sizes.step_blocks
        self._store = store
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._saving: _Job | None = None
        self._error: Exception | None = None  # of merging
        self._merging = threading.Event()
        self._merging.set()
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

    def close(self) -> None:
        """Ends the thread after the step it is at; merges go on when the file is opened again."""
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
        began = time.monotonic()
        rules = Rules(unread=self.unread, blocks=self._step_blocks, newest=self.newest)
        more = self._store.merge_step(rules)
        seconds = time.monotonic() - began
        if seconds > STEP_SECONDS:
            self._step_blocks = max(LEAST_STEP_BLOCKS, self._step_blocks // 2)
        elif seconds < STEP_SECONDS / 4:
            self._step_blocks = min(self._store.sizes.step_blocks, 2 * self._step_blocks)
        return more

    def _checkpoint(self) -> None:
        try:
            self._log_bytes, self._log_held = self._store.checkpoint(over=LOG_BYTES)
        except Exception as error:
            self._error = error
