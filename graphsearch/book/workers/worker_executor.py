"""The executor with several workers: processes that search tasks of one file at once."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from math import inf

import chess

from ...base.errors import GraphSearchError, InvalidParameterError, StoreError
from ...evaluators.factory import EvaluatorSpec
from ...evaluators.pool import Make
from ...store.record.node import NodeRecord, RecordBatch
from ...store.record.provenance import EvaluatorIdentity
from ...store.sharded.cluster_store import open_to_write
from ...workers.launcher import Launcher, LocalLauncher
from ...workers.messages import Failure, failure_of
from ...workers.process import Handlers, Hear, WorkerProcess
from ...workers.supervisor import Seat, Supervisor
from ..executor import Note, Outcome, Task
from .ledger import LeaseHolder, Ledger
from .messages import (
    GetUpdates,
    LeaseReply,
    LeaseRequest,
    Publish,
    ReleaseLeases,
    Saved,
    Stop,
    TaskRequest,
    Updates,
)
from .task_assignment import TaskAssignment
from .worker import setup_for, work
from .worker_store import SnapshotServer
from .writer import LEASE_SECONDS, Writer

TICK_SECONDS, REST_SECONDS = 0.25, 0.05  # between two checks for hung workers, at most and at least
SILENT_SECONDS = 60.0  # without a heartbeat before a worker counts as hung
MOST_WORKERS = 256
CLOSING_SECONDS = 60.0  # for the waves under way


def check_workers(workers: int) -> None:
    """Raises InvalidParameterError for a number of workers out of range."""
    if not 1 <= workers <= MOST_WORKERS:
        raise InvalidParameterError(f"workers must be from 1 to {MOST_WORKERS}, not {workers}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The timeouts after which a worker counts as hung.

    Attributes:
      result: seconds without a result; None: the larger of 60 s and twenty times the expected time, and ten
        minutes for its first result.
      heartbeat: seconds without a heartbeat.
    """

    result: float | None = None
    heartbeat: float = SILENT_SECONDS


class WorkerExecutor(Supervisor[TaskAssignment]):
    """Searches tasks in several processes, and is the only writer of the file; see `executor.LocalExecutor`.

    Its methods are for one thread, which closes it.
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
          path: the graph file, created if missing; no other process writes it.
          spec: of each worker's evaluator, or a function of a module that creates it.
          workers: number of workers, at least 1.
          book: id of the book, for the table `book_lease`. run: row of the table `run`, for the records.
          launcher: starts the workers; the executor closes it; default: on this machine.
          ram_bytes: limit of the memory of all graphs together; default: 80 % of the machine's, on a Ray
            cluster the share of each reserved core.
          timeouts: of workers.

        Raises:
          InvalidParameterError: for a number of workers or bytes out of range, or an option of the evaluator.
          EvaluatorError: if no evaluator can be created, or no process started.
          EvaluatorMismatchError: if the file is bound to another evaluator.
          StoreError: if the file cannot be opened for writing.
        """
        check_workers(workers)
        self._launcher = launcher or LocalLauncher(workers)
        super().__init__(workers, self._launcher)
        try:
            self._setup = setup_for(path, spec, workers, ram_bytes, self._launcher)
        except BaseException:
            self._launcher.close()
            raise
        self._run, self._silent = run, timeouts.heartbeat
        self._ledger = Ledger(timeout=timeouts.result)
        self._holders: dict[int, LeaseHolder] = {}
        self._outcomes: deque[Outcome] = deque()
        self._is_closed = False
        self._ending = threading.Event()
        self._extended = time.monotonic()
        self._writer = self._started(path, book)  # before any task
        self._keeper = threading.Thread(target=self._keep, name="graphsearch-keeper", daemon=True)
        self._keeper.start()

    def _started(self, path: str | os.PathLike[str], book: int) -> Writer:
        """Starts the workers, and returns the writer once the first worker has its evaluator."""
        atexit.register(self.kill)  # runs before multiprocessing joins the workers
        try:
            identity = EvaluatorIdentity.from_json(self.start().identity)
            return Writer(open_to_write(path, identity=identity, create=True), book)
        except BaseException:
            self.shut_down(0.0)
            atexit.unregister(self.kill)
            self._launcher.close()
            raise

    # ---------------------------------------------------------- for the builder
    @property
    def capacity(self) -> int:
        """The number of tasks that are searched at once."""
        return max(1, sum(seat.error is None for seat in self.seats))

    @property
    def open_tasks(self) -> int:
        """The number of tasks with an outcome that `finished` has not returned yet."""
        with self.changed:
            return len(self.waiting) + len(self._leased) + len(self._outcomes)

    def submit(self, task: Task) -> None:
        """Queues a task; it waits while another task searches its position.

        Raises:
          StoreError: if the workers have been stopped.
        """
        if self._is_closed or self.is_over:
            raise StoreError(f"{self._setup.path}: its workers have been stopped")
        self.enqueue(TaskAssignment(task))

    def finished(self, timeout: float) -> list[Outcome]:
        """Returns outcomes with readable records; waits up to `timeout` seconds for the first.

        Returns at once if there are no tasks.

        Raises:
          StoreError: once, if the file cannot be written; unsaved data is kept and written later.
          GraphSearchError: if no worker is left.
        """
        end = time.monotonic() + timeout
        with self.changed:
            while not self._outcomes and self.open_tasks:
                self._raise_store_error()
                self.check()
                left = end - time.monotonic()
                if left <= 0:
                    break
                self.changed.wait(left)
            self._raise_store_error()
            found = list(self._outcomes)
            self._outcomes.clear()
            return found

    def _raise_store_error(self) -> None:
        error, self._writer.error = self._writer.error, None
        if error is not None:
            raise error

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position in the file, None if there is none."""
        return self._writer.read(board)

    def note(self, note: Note) -> None:
        """Adds a write to the next transaction, after the records of all outcomes so far."""
        self._writer.note(note)

    def save(self, *, wait: bool) -> None:
        """Saves pending writes; with `wait` they are in the file on return.

        Records of outcomes are in the file before.

        Raises:
          StoreError: if it cannot be written.
        """
        if wait:
            self._writer.commit()
        else:
            self._writer.wanted.set()

    def stop(self) -> None:
        """Ends searches after their wave, and drops queued tasks.

        `finished` returns their outcomes until `open_tasks` is 0.
        """
        with self.changed:
            super().stop()
            for seat in self.seats:
                if seat.worker is not None:
                    seat.worker.send(Stop())

    def close(self) -> None:
        """Stops the searches, saves their records, and closes the file. A second call does nothing.

        An exception during it, such as KeyboardInterrupt, ends the workers at once.

        Raises:
          StoreError: if the file cannot be written.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.shut_down(CLOSING_SECONDS, spare_busy=True)
        finally:
            try:
                self._end()
            finally:
                self._launcher.close()

    def _end(self) -> None:
        """Writes pending data, and closes the file."""
        atexit.unregister(self.kill)
        self._ending.set()
        self._writer.wanted.set()
        self._keeper.join()
        try:
            self._writer.unlease()
            self._writer.commit()
        finally:
            self._writer.close()

    # ---------------------------------------------------------- the keeper's thread
    def _keep(self) -> None:
        """Kills hung workers, extends leases, and saves pending writes."""
        while not self._ending.is_set():
            is_wanted = self._writer.wanted.wait(TICK_SECONDS)
            self._writer.wanted.clear()
            try:
                self.kill_what_hangs()
                self._extend()
                self._writer.check()
                if is_wanted and not self._ending.is_set():
                    self._writer.commit()
            except Exception as error:  # the caller's thread raises it, instead of waiting for ever
                self._writer.error = error
                with self.changed:
                    self.changed.notify_all()
            self._ending.wait(REST_SECONDS)

    def _extend(self) -> None:
        if time.monotonic() - self._extended < LEASE_SECONDS / 3:
            return
        self._extended = time.monotonic()
        with self.changed:
            self._writer.extend(self._leased)

    # ---------------------------------------------------------- the work
    @property
    def _leased(self) -> list[str]:
        """The keys of the positions that workers have."""
        return [seat.assignment.task.key for seat in self.seats if seat.assignment is not None]

    def _worker(self, seat: Seat[TaskAssignment]) -> WorkerProcess:
        holder = self._ledger.enter(seat.number)
        snapshots = SnapshotServer(lambda: self._writer.store)
        hear: list[Hear] = [
            partial(self._heard, seat),
            partial(self._share, holder),
            partial(self._save, holder),
        ]
        if not self._setup.reads_file:
            hear.append(snapshots.answer)
        try:
            worker = self._launcher.start(
                partial(work, self._setup),
                Handlers(
                    hear, partial(self._ended, seat, holder, snapshots), partial(self._ledger.end, holder)
                ),
                name=f"graphsearch-book-{seat.number}",
            )
        except GraphSearchError:
            self._ledger.release(holder)
            raise
        self._holders[seat.number] = holder
        return worker

    def deadline(self, seat: Seat[TaskAssignment]) -> float:
        """Returns the time after which a worker without results or heartbeats counts as hung."""
        if not isinstance(seat.worker, WorkerProcess) or not seat.is_ready or seat.is_killed:
            return super().deadline(seat)
        return min(self._holders[seat.number].deadline, seat.worker.last_heard + self._silent)

    def _next(self, seat: Seat[TaskAssignment]) -> TaskAssignment | None:
        """Removes and returns the first queued task with a position that no worker has, or None."""
        busy = set(self._leased)
        for assignment in self.waiting:
            if assignment.task.key not in busy:
                self.waiting.remove(assignment)
                return assignment
        return None

    def _request(self, seat: Seat[TaskAssignment], assignment: TaskAssignment) -> tuple[TaskRequest, float]:
        assert seat.worker is not None
        self._writer.lease(assignment.task.key, seat.number, seat.worker.pid)
        self._ledger.begins(self._holders[seat.number])
        if not assignment.lost:
            assignment.before = assignment.visits_in_file(self._writer.read)
        rest = assignment.rest()
        assert rest is not None, "else the task would not be given again"
        return TaskRequest(rest, self._run), inf

    def _take_back(self, seat: Seat[TaskAssignment]) -> TaskAssignment | None:
        assignment = super()._take_back(seat)
        if assignment is not None:
            self._ledger.ends(self._holders[seat.number])
            self._writer.unlease(assignment.task.key)
        return assignment

    def _finished(self, seat: Seat[TaskAssignment], assignment: TaskAssignment, message: object) -> None:
        assert isinstance(message, Outcome)
        self._holders[seat.number].settled += message.evaluations
        visits, paid = assignment.visits + message.visits, assignment.paid + message.evaluations
        self._outcomes.append(replace(message, task=assignment.task, visits=visits, evaluations=paid))

    def _ended(
        self, seat: Seat[TaskAssignment], holder: LeaseHolder, snapshots: SnapshotServer, how: str
    ) -> None:
        self._ledger.release(holder)
        snapshots.close()
        with self.changed:
            if (assignment := seat.assignment) is not None:
                assignment.paid += holder.paid - holder.settled
                assignment.saved += holder.saved
                if not self.is_over:  # otherwise the file may be closed
                    now = assignment.visits_in_file(self._writer.read)
                    assignment.visits = max(0, now - assignment.before)
            self._lost(seat, how)

    def _give_again(self, assignment: TaskAssignment, how: str) -> None:
        if assignment.rest() is None:
            self._outcomes.append(Outcome(assignment.task, assignment.visits, assignment.paid))
        else:
            super()._give_again(assignment, how)

    def _given_up(self, assignment: TaskAssignment, why: str) -> None:
        self._outcomes.append(Outcome(assignment.task, assignment.visits, assignment.paid, why))

    # ---------------------------------------------------------- positions and records
    def _share(self, holder: LeaseHolder, message: object) -> LeaseReply | Updates | None:
        """Handles a message to the ledger; returns the reply, or None."""
        if isinstance(message, LeaseRequest):
            return self._ledger.ask(holder, message)
        if isinstance(message, GetUpdates):
            return self._writer.between(partial(self._ledger.updates, holder))
        if isinstance(message, Publish):
            self._ledger.publish(holder, message)
        elif isinstance(message, ReleaseLeases):
            self._ledger.give_back(holder, message.words)
        return None

    def _save(self, holder: LeaseHolder, batches: list[RecordBatch]) -> Saved | Failure:
        """Commits the records of a worker; returns the reply."""
        words = [batch.words for batch in batches]
        try:
            self._writer.commit(batches, partial(self._ledger.committed, holder, words))
            return Saved(self._writer.log_held)
        except GraphSearchError as error:
            return failure_of(error)
