"""The executor with several workers: processes that search tasks of one file at once."""

from __future__ import annotations

import atexit
import os
import threading
import time
from dataclasses import dataclass
from functools import partial

import chess

from ...errors import InvalidParameterError, StoreError
from ...evaluators.factory import EvaluatorSpec, create, with_threads
from ...evaluators.pool.worker import Make
from ...graph.memory import default_budget
from ...search.params import LEAST_RAM
from ...search.shards.store import open_to_write
from ...store.record.node import NodeRecord
from ...store.record.provenance import EvaluatorIdentity
from ...store.sharded.manifest import is_sharded
from ...workers.launcher import Launcher, LocalLauncher
from ..executor import Note, Outcome, Task
from . import leases
from .file_service import FileService
from .leases import LEASE_SECONDS
from .ledger import Ledger
from .task_supervisor import TaskSupervisor
from .worker import Setup
from .writer import Writer

TICK_SECONDS, REST_SECONDS = 0.25, 0.05  # between two checks for hung workers, at most and at least
SILENT_SECONDS = 60.0  # without a heartbeat until a worker counts as hung
MOST_WORKERS = 256
CLOSING_SECONDS = 60.0  # for the waves under way
COORDINATOR_SHARE = 8  # this part of the memory is for the ledger and the messages here


def check_workers(workers: int) -> None:
    """Raises InvalidParameterError for a number of workers out of range."""
    if not 1 <= workers <= MOST_WORKERS:
        raise InvalidParameterError(f"workers must be from 1 to {MOST_WORKERS}, not {workers}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """When a worker counts as hung.

    Attributes:
      result: seconds without a result; None: the larger of 60 s and twenty times the expected time, and ten
        minutes for its first result.
      heartbeat: seconds without a heartbeat.
    """

    result: float | None = None
    heartbeat: float = SILENT_SECONDS


class WorkerExecutor:
    """Searches tasks in several processes, and is the only writer of the file; see `executor.Executor`.

    Its methods are for one thread. Use it in a `with` statement, or close it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        spec: EvaluatorSpec | Make,
        workers: int,
        *,
        book: int,
        run: int,
        launcher: Launcher | None = None,
        ram_bytes: int | None = None,
        timeouts: Timeouts = Timeouts(),
    ) -> None:
        """Starts the workers, waits until the first has its evaluator, and opens the file.

        Args:
          path: the graph file, which no other process writes; made if it is missing.
          spec: of the evaluator that each worker makes; or a function of a module that makes it.
          workers: their number, at least 1.
          book: id of the book, for the table `book_lease`. run: row of the table `run`, which records carry.
          launcher: starts the workers, and is closed at the end; default: on this machine.
          ram_bytes: limit of the memory of all graphs together; default: 80 % of the machine's, on a Ray
            cluster the share of each reserved core.
          timeouts: of workers.

        Raises:
          InvalidParameterError: for a number of workers or bytes out of range, or an option of the evaluator.
          EvaluatorError: if the evaluator cannot be made, or no process started.
          EvaluatorMismatchError: if the file is bound to another evaluator.
          StoreError: if the file cannot be opened for writing.
        """
        check_workers(workers)
        self._launcher = launcher or LocalLauncher(workers)
        try:
            self._setup = _setup(path, spec, workers, ram_bytes, self._launcher)
        except BaseException:
            self._launcher.close()
            raise
        self._book = book
        self._ledger, self._service = Ledger(timeout=timeouts.result), FileService(book)
        self._workers = TaskSupervisor(
            self._setup,
            workers,
            launcher=self._launcher,
            run=run,
            ledger=self._ledger,
            service=self._service,
            silent=timeouts.heartbeat,
        )
        self._is_closed = False
        self._ended = threading.Event()
        self._extended = time.monotonic()
        self._writer = self._started(path)
        self._keeper = threading.Thread(target=self._keep, name="graphsearch-keeper", daemon=True)
        self._keeper.start()

    def _started(self, path: str | os.PathLike[str]) -> Writer:
        """Starts the workers, and returns the writer when the first is ready."""
        atexit.register(self._workers.kill)  # before multiprocessing waits for them
        try:
            identity = EvaluatorIdentity.from_json(self._workers.start().identity)
            writer = Writer(open_to_write(path, identity=identity, create=True))
        except BaseException:
            self._workers.close(0.0)
            atexit.unregister(self._workers.kill)
            self._launcher.close()
            raise
        self._service.open(writer)
        return writer

    # ---------------------------------------------------------- for the builder
    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of the evaluator for the user."""
        greeting = self._workers.greeting
        return greeting.notes if greeting else ()

    @property
    def capacity(self) -> int:
        """The number of tasks that are searched at once."""
        return max(1, self._workers.size)

    @property
    def open_tasks(self) -> int:
        """The number of tasks whose outcome was not read yet."""
        with self._workers.changed:
            return self._workers.open_tasks + len(self._workers.outcomes)

    @property
    def evaluations(self) -> int:
        """Evaluations that all workers have paid for."""
        return self._ledger.published

    @property
    def dropped(self) -> int:
        """Records that lost against a version of the same position with more visits."""
        return self._writer.dropped

    @property
    def processes(self) -> list[int]:
        """The ids of the workers' processes."""
        return self._workers.processes

    def submit(self, task: Task) -> None:
        """Queues a task; it waits while another task searches its position.

        Raises:
          StoreError: if the workers have been stopped.
        """
        if self._is_closed or self._workers.is_over:
            raise StoreError(f"{self._setup.path}: its workers have been stopped")
        self._workers.take(task)

    def finished(self, timeout: float) -> list[Outcome]:
        """Returns outcomes, whose records can be read; waits up to `timeout` seconds for the first.

        It does not wait if there are no tasks.

        Raises:
          StoreError: if the file cannot be written, once; unsaved data is kept and written later.
          GraphSearchError: if no worker is left.
        """
        end = time.monotonic() + timeout
        workers = self._workers
        with workers.changed:
            while not workers.outcomes and workers.open_tasks:
                self._raise_store_error()
                workers.check()
                left = end - time.monotonic()
                if left <= 0:
                    break
                workers.changed.wait(left)
            self._raise_store_error()
            found = list(workers.outcomes)
            workers.outcomes.clear()
            return found

    def _raise_store_error(self) -> None:
        error, self._service.error = self._service.error, None
        if error is not None:
            raise error

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position as it is in the file, None if the graph does not know it."""
        return self._writer.read(board)

    def note(self, note: Note) -> None:
        """Adds a write to the next transaction, after the records of all outcomes so far."""
        self._writer.note(note)

    def save(self, *, wait: bool) -> None:
        """Saves pending writes; with `wait` they are in the file on return.

        The records of outcomes are in the file already.

        Raises:
          StoreError: if it cannot be written.
        """
        if wait:
            self._writer.commit()
        else:
            self._service.wanted.set()

    def call(self, work: Note) -> None:
        """Runs a function on the store in a transaction of its own, and waits for it."""
        self._writer.call(work)

    def stop(self) -> None:
        """Ends searches after their wave, and drops tasks that no worker has.

        `finished` returns their outcomes until `open_tasks` is 0.
        """
        self._workers.stop()

    def close(self) -> None:
        """Stops the searches, saves their records, and closes the file. A second call does nothing.

        An exception meanwhile, such as a KeyboardInterrupt, ends the workers at once.

        Raises:
          StoreError: if the file cannot be written.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self._workers.close(CLOSING_SECONDS, spare_busy=True)
        finally:
            try:
                self._end()
            finally:
                self._launcher.close()

    def __enter__(self) -> WorkerExecutor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _end(self) -> None:
        """Writes pending data, and closes the file."""
        atexit.unregister(self._workers.kill)
        self._ended.set()
        self._service.wanted.set()
        self._keeper.join()
        try:
            self._writer.note(leases.drop(self._book))
            self._writer.commit()
        finally:
            self._writer.close()

    # ---------------------------------------------------------- the keeper's thread
    def _keep(self) -> None:
        """Kills hung workers, extends leases, and saves pending writes."""
        while not self._ended.is_set():
            is_wanted = self._service.wanted.wait(TICK_SECONDS)
            self._service.wanted.clear()
            try:
                self._workers.kill_what_hangs()
                self._extend()
                self._writer.check()
                if is_wanted and not self._ended.is_set():
                    self._writer.commit()
            except Exception as error:  # raised again in the caller's thread, which would wait for ever
                self._service.error = error
                with self._workers.changed:
                    self._workers.changed.notify_all()
            self._ended.wait(REST_SECONDS)

    def _extend(self) -> None:
        if time.monotonic() - self._extended < LEASE_SECONDS / 3:
            return
        self._extended = time.monotonic()
        with self._workers.changed:
            self._service.extend(self._workers.leases)


def _setup(
    path: str | os.PathLike[str],
    spec: EvaluatorSpec | Make,
    workers: int,
    ram_bytes: int | None,
    launcher: Launcher,
) -> Setup:
    """Returns the settings of the workers.

    Raises:
      InvalidParameterError: for numbers out of range, or an option that the evaluator does not have.
    """
    share = None if ram_bytes is None and launcher.is_remote else _share(workers, ram_bytes)
    make = partial(create, with_threads(spec, launcher.threads)) if isinstance(spec, EvaluatorSpec) else spec
    real = os.path.realpath(os.fspath(path))
    reads_file = launcher.shares_files and not is_sharded(path)
    return Setup(real, make, share, launcher.threads, workers == 1, reads_file=reads_file)


def _share(workers: int, ram_bytes: int | None) -> int:
    """Returns the memory of each worker."""
    every = default_budget() if ram_bytes is None else ram_bytes
    share = every * (COORDINATOR_SHARE - 1) // COORDINATOR_SHARE // workers
    if share < LEAST_RAM:
        least = -(-LEAST_RAM * workers * COORDINATOR_SHARE // (COORDINATOR_SHARE - 1))
        raise InvalidParameterError(
            f"{workers} workers need {-(-least // 10**6)} MB of memory at least, not {every // 10**6}"
        )
    return share
