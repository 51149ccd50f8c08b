"""The supervisor of a book's workers: it assigns tasks, and serves leases, results and commits."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from math import inf

from ...errors import GraphSearchError
from ...store.record.node import RecordBatch
from ...workers.child import Hear, WorkerProcess
from ...workers.launcher import Launcher
from ...workers.messages import Failure, failure_of
from ...workers.supervisor import Assignment, Seat, Supervisor
from ..executor import Outcome, Task
from .file_service import FileService
from .leases import Lease
from .ledger import LeaseHolder, Ledger
from .messages import (
    GetUpdates,
    LeaseReply,
    LeaseRequest,
    Publish,
    ReleaseLeases,
    Saved,
    Stop,
    TaskDone,
    TaskRequest,
    Updates,
)
from .snapshots import SnapshotServer
from .worker import Setup, work


@dataclass(eq=False)
class TaskAssignment(Assignment):
    """A task, and the evaluations of workers that were lost over it."""

    task: Task
    paid: int = 0

    def __str__(self) -> str:
        return self.task.fen


class TaskSupervisor(Supervisor[TaskAssignment]):
    """The workers of one file and their tasks.

    Attributes:
      outcomes: of finished tasks, until they are read.
    """

    def __init__(
        self,
        setup: Setup,
        workers: int,
        *,
        launcher: Launcher,
        run: int,
        ledger: Ledger,
        service: FileService,
        silent: float,
    ) -> None:
        """Makes a supervisor without processes yet; `WorkerExecutor` describes the arguments."""
        super().__init__(workers, launcher)
        self._launcher = launcher
        self.outcomes: deque[Outcome] = deque()
        self._setup, self._run, self._silent = setup, run, silent
        self._ledger, self._service = ledger, service
        self._holders: dict[int, LeaseHolder] = {}

    @property
    def size(self) -> int:
        """The number of usable workers."""
        return sum(seat.error is None for seat in self.seats)

    @property
    def open_tasks(self) -> int:
        """The number of tasks without an outcome."""
        return len(self.waiting) + sum(seat.assignment is not None for seat in self.seats)

    @property
    def leases(self) -> list[Lease]:
        """The leases of all workers."""
        pairs = [(seat, seat.assignment) for seat in self.seats]
        return [_lease(seat, assignment) for seat, assignment in pairs if assignment is not None]

    def take(self, task: Task) -> None:
        """Queues a task; it waits while another task searches its position."""
        self.submit(TaskAssignment(task))

    def stop(self) -> None:
        """Ends searches after their wave, and drops tasks that no worker has."""
        with self.changed:
            super().stop()
            for seat in self.seats:
                if seat.worker is not None:
                    seat.worker.send(Stop())

    # ---------------------------------------------------------- the work
    def _worker(self, seat: Seat[TaskAssignment]) -> WorkerProcess:
        holder = self._ledger.enter(seat.number)
        snapshots = SnapshotServer(self._service.store)
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
                name=f"graphsearch-book-{seat.number}",
                hear=hear,
                died=partial(self._ledger.end, holder),
                lost=partial(self._ended, seat, holder, snapshots),
            )
        except GraphSearchError:
            self._ledger.release(holder)
            raise
        self._holders[seat.number] = holder
        return worker

    def deadline(self, seat: Seat[TaskAssignment]) -> float:
        """Returns when a worker has published nothing, or sent no heartbeat, for too long."""
        if not isinstance(seat.worker, WorkerProcess) or not seat.is_ready or seat.is_killed:
            return super().deadline(seat)
        return min(self._holders[seat.number].deadline, seat.worker.last_heard + self._silent)

    def _next(self, seat: Seat[TaskAssignment]) -> TaskAssignment | None:
        """Returns a task whose position no worker has."""
        busy = {seat.assignment.task.key for seat in self.seats if seat.assignment is not None}
        for assignment in self.waiting:
            if assignment.task.key not in busy:
                self.waiting.remove(assignment)
                return assignment
        return None

    def _request(self, seat: Seat[TaskAssignment], assignment: TaskAssignment) -> tuple[TaskRequest, float]:
        self._service.leased(_lease(seat, assignment))
        self._ledger.begins(self._holders[seat.number])
        return TaskRequest(assignment.task, self._run), inf

    def _take_back(self, seat: Seat[TaskAssignment]) -> TaskAssignment | None:
        assignment = super()._take_back(seat)
        if assignment is not None:
            self._ledger.ends(self._holders[seat.number])
            self._service.returned(assignment.task.key)
        return assignment

    def _finished(self, seat: Seat[TaskAssignment], assignment: TaskAssignment, message: object) -> None:
        assert isinstance(message, TaskDone)
        self._holders[seat.number].settled += message.evaluations
        paid = assignment.paid + message.evaluations
        self.outcomes.append(Outcome(assignment.task, message.visits, paid, message.error, message.is_whole))

    def _ended(
        self, seat: Seat[TaskAssignment], holder: LeaseHolder, snapshots: SnapshotServer, how: str
    ) -> None:
        self._ledger.release(holder)
        snapshots.close()
        with self.changed:
            if seat.assignment is not None:
                seat.assignment.paid += holder.paid - holder.settled
            self._lost(seat, how)

    def _given_up(self, assignment: TaskAssignment, why: str) -> None:
        self.outcomes.append(Outcome(assignment.task, 0, assignment.paid, why))

    # ---------------------------------------------------------- positions and records
    def _share(self, holder: LeaseHolder, message: object) -> LeaseReply | Updates | None:
        """Handles a message to the ledger; returns the reply, None if there is none."""
        if isinstance(message, LeaseRequest):
            return self._ledger.ask(holder, message)
        if isinstance(message, GetUpdates):
            return self._service.between(partial(self._ledger.news, holder))
        if isinstance(message, Publish):
            self._ledger.publish(holder, message)
        elif isinstance(message, ReleaseLeases):
            self._ledger.give_back(holder, message.words)
        return None

    def _save(self, holder: LeaseHolder, batches: list[RecordBatch]) -> Saved | Failure:
        """Commits the records of a worker; returns the reply."""
        words = [batch.words for batch in batches]
        try:
            return Saved(self._service.commit(batches, partial(self._ledger.committed, holder, words)))
        except GraphSearchError as error:
            return failure_of(error)


def _lease(seat: Seat[TaskAssignment], assignment: TaskAssignment) -> Lease:
    return Lease(assignment.task.key, seat.number, seat.worker.pid if seat.worker else 0)
