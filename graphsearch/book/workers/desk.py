"""The desk of several workers: processes that search tasks of one file at once."""

from __future__ import annotations

import atexit
import os
import threading
import time
from functools import partial

import chess

from ...cluster.store import open_to_write
from ...errors import InvalidParameterError, StoreError
from ...evaluators.factory import EvaluatorSpec, create, with_threads
from ...evaluators.pool.worker import Make
from ...graph.memory import default_budget
from ...record.node import NodeRecord
from ...record.provenance import EvaluatorIdentity
from ...search.params import LEAST_RAM
from ...store.sharded.manifest import is_sharded
from ...workers.launcher import Launcher, LocalLauncher
from ..desk import Note, Outcome, Task
from . import leases
from .crew import TaskWorkers
from .leases import LEASE_SECONDS
from .ledger import Ledger
from .office import Office
from .worker import Setup
from .writer import Writer

TICK_SECONDS, REST_SECONDS = 0.25, 0.05  # between two looks at what hangs, at most and at least
SILENT_SECONDS = 60.0  # without a sign of life until a worker counts as hung
MOST_WORKERS = 256
CLOSING_SECONDS = 60.0  # for the waves under way
COORDINATOR_SHARE = 8  # one part of so many of the memory is for what is shared out here


def check_workers(workers: int) -> None:
    """Raises InvalidParameterError for a number of workers out of range."""
    if not 1 <= workers <= MOST_WORKERS:
        raise InvalidParameterError(f"workers must be from 1 to {MOST_WORKERS}, not {workers}")


class WorkerDesk:
    """Has tasks searched by several processes, and is the one writer of the file. See `desk.Desk`.

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
        timeout: float | None = None,
        silent: float = SILENT_SECONDS,
    ) -> None:
        """Starts the workers, waits until the first has its evaluator, and opens the file.

        Args:
          path: the graph file, which nobody else has open for writing; made if it is missing.
          spec: of the evaluator that each worker makes for itself; or a function of a module that makes it.
          workers: how many, at least 1.
          book: id of the book, for the table `book_lease`. run: row of the table `run`, which records carry.
          launcher: starts the workers, and is closed at the end; default: on this machine.
          ram_bytes: most memory that all graphs may take together; default: 80 % of the machine's. Of a Ray
            cluster each core stands for its part of its machine's memory.
          timeout: seconds in which a worker must have evaluated some positions, else it counts as hung;
            None: 60 s or twenty times what they take, whichever is more, and ten minutes for its first ones.
          silent: seconds without a sign of life after which a worker counts as hung.

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
        self._ledger = Ledger(timeout=timeout)
        self._office = Office(book)
        self._workers = TaskWorkers(
            self._setup,
            workers,
            launcher=self._launcher,
            run=run,
            ledger=self._ledger,
            office=self._office,
            silent=silent,
        )
        self._is_closed = False
        self._ended = threading.Event()
        self._extended = time.monotonic()
        atexit.register(self._workers.kill)  # before multiprocessing waits for them
        try:
            identity = EvaluatorIdentity.from_json(self._workers.start().identity)
            self._writer = Writer(open_to_write(path, identity=identity, create=True))
        except BaseException:
            self._workers.close(0.0)
            atexit.unregister(self._workers.kill)
            self._launcher.close()
            raise
        self._office.open(self._writer)
        self._keeper = threading.Thread(target=self._keep, name="graphsearch-keeper", daemon=True)
        self._keeper.start()

    # ---------------------------------------------------------- for the builder
    @property
    def notes(self) -> tuple[str, ...]:
        """What the evaluator has to say to a person."""
        greeting = self._workers.greeting
        return greeting.notes if greeting else ()

    @property
    def capacity(self) -> int:
        """How many tasks it works on at once."""
        return max(1, self._workers.size)

    @property
    def open_tasks(self) -> int:
        """How many it has whose outcome was not taken yet."""
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
        """The process of each worker that has one."""
        return self._workers.processes

    def submit(self, task: Task) -> None:
        """Takes a task; one whose position is being searched waits for that.

        Raises:
          StoreError: if the workers have been stopped.
        """
        if self._is_closed or self._workers.is_over:
            raise StoreError(f"{self._setup.path}: its workers have been stopped")
        self._workers.take(task)

    def finished(self, timeout: float) -> list[Outcome]:
        """Returns outcomes, waiting up to `timeout` seconds for the first; what they found can be read then.

        It does not wait if there are no tasks.

        Raises:
          StoreError: if the file cannot be written, once; what it has not is kept, and tried again.
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
        error, self._office.error = self._office.error, None
        if error is not None:
            raise error

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position as it is in the file, None if the graph does not know it."""
        return self._writer.read(board)

    def note(self, note: Note) -> None:
        """Has something written to the file with what is saved next, after the records of outcomes so far."""
        self._writer.note(note)

    def save(self, *, wait: bool) -> None:
        """Saves what is not in the file; with `wait` it is there on return.

        Outcomes are in the file already when they come; this is for notes.

        Raises:
          StoreError: if it cannot be written.
        """
        if wait:
            self._writer.commit()
        else:
            self._office.wanted.set()

    def call(self, work: Note) -> None:
        """Has something done with the file at once, in a transaction of its own, and waits for it."""
        self._writer.call(work)

    def stop(self) -> None:
        """Has the searches end after the wave they are at; tasks that no worker has yet are dropped.

        Their outcomes come by `finished`, until `open_tasks` is 0.
        """
        self._workers.stop()

    def close(self) -> None:
        """Stops what is running, saves what it found, and closes the file. A second call does nothing.

        An exception meanwhile, such as a KeyboardInterrupt, ends the workers at once.

        Raises:
          StoreError: if what is left cannot be written.
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

    def __enter__(self) -> WorkerDesk:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _end(self) -> None:
        """Writes what is left, and closes the file."""
        atexit.unregister(self._workers.kill)
        self._ended.set()
        self._office.wanted.set()
        self._keeper.join()
        try:
            self._writer.note(leases.drop(self._book))
            self._writer.commit()
        finally:
            self._writer.close()

    # ---------------------------------------------------------- the keeper's thread
    def _keep(self) -> None:
        """Ends what hangs, extends leases, and saves what waits for that."""
        while not self._ended.is_set():
            is_wanted = self._office.wanted.wait(TICK_SECONDS)
            self._office.wanted.clear()
            try:
                self._workers.kill_what_hangs()
                self._extend()
                self._writer.check()
                if is_wanted and not self._ended.is_set():
                    self._writer.commit()
            except Exception as error:  # raised again in the coordinator's thread, which would wait for ever
                self._office.error = error
                with self._workers.changed:
                    self._workers.changed.notify_all()
            self._ended.wait(REST_SECONDS)

    def _extend(self) -> None:
        if time.monotonic() - self._extended < LEASE_SECONDS / 3:
            return
        self._extended = time.monotonic()
        with self._workers.changed:
            self._office.extend(self._workers.leases)


def _setup(
    path: str | os.PathLike[str],
    spec: EvaluatorSpec | Make,
    workers: int,
    ram_bytes: int | None,
    launcher: Launcher,
) -> Setup:
    """Returns what each worker is made from.

    Raises:
      InvalidParameterError: for numbers out of range, or an option that the evaluator does not have.
    """
    share = None if ram_bytes is None and launcher.is_far else _share(workers, ram_bytes)
    make = partial(create, with_threads(spec, launcher.threads)) if isinstance(spec, EvaluatorSpec) else spec
    real = os.path.realpath(os.fspath(path))
    reads_file = launcher.shares_files and not is_sharded(path)
    return Setup(real, make, share, launcher.threads, workers == 1, reads_file=reads_file)


def _share(workers: int, ram_bytes: int | None) -> int:
    """Returns the bytes of each worker, of those that all may take."""
    every = default_budget() if ram_bytes is None else ram_bytes
    share = every * (COORDINATOR_SHARE - 1) // COORDINATOR_SHARE // workers
    if share < LEAST_RAM:
        least = -(-LEAST_RAM * workers * COORDINATOR_SHARE // (COORDINATOR_SHARE - 1))
        raise InvalidParameterError(
            f"{workers} workers need {-(-least // 10**6)} MB of memory at least, not {every // 10**6}"
        )
    return share
