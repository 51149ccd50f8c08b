"""The workers of a book: tasks given to idle ones, and what they say about positions and records."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from math import inf

from ...errors import GraphSearchError
from ...record.node import RecordBatch
from ...workers.child import Hear, WorkerProcess
from ...workers.launcher import Launcher
from ...workers.messages import Failure, failure_of
from ...workers.supervisor import Assignment, Seat, Supervisor
from ..desk import Outcome, Task
from .held import Lookout
from .leases import Lease
from .ledger import Holder, Ledger
from .messages import Answers, Ask, Catchup, Errand, Finished, GiveBack, News, Publish, Saved, Stop
from .office import Office
from .worker import Setup, work


@dataclass(eq=False)
class _TaskOnItsWay(Assignment):
    """A task, and the evaluations that workers had paid for who were lost over it."""

    task: Task
    paid: int = 0

    def __str__(self) -> str:
        return self.task.fen


class TaskWorkers(Supervisor[_TaskOnItsWay]):
    """Some workers of one file, and the tasks that they have.

    Attributes:
      outcomes: of tasks, until they are taken.
    """

    def __init__(
        self,
        setup: Setup,
        workers: int,
        *,
        launcher: Launcher,
        run: int,
        ledger: Ledger,
        office: Office,
        silent: float,
    ) -> None:
        """Prepares workers that write records of one run; `silent`: as in `WorkerDesk`."""
        super().__init__(workers, launcher)
        self._launcher = launcher
        self.outcomes: deque[Outcome] = deque()
        self._setup, self._run, self._silent = setup, run, silent
        self._ledger, self._office = ledger, office
        self._holders: dict[int, Holder] = {}

    @property
    def size(self) -> int:
        """How many workers there are."""
        return sum(seat.error is None for seat in self.seats)

    @property
    def open_tasks(self) -> int:
        """How many tasks have no outcome yet."""
        return len(self.waiting) + sum(seat.assignment is not None for seat in self.seats)

    @property
    def leases(self) -> list[Lease]:
        """What the workers have."""
        pairs = [(seat, seat.assignment) for seat in self.seats]
        return [_lease(seat, assignment) for seat, assignment in pairs if assignment is not None]

    def take(self, task: Task) -> None:
        """Takes a task; one whose position is being searched waits for that."""
        self.submit(_TaskOnItsWay(task))

    def stop(self) -> None:
        """Has searches end after their wave; nothing more is given out, and tasks nobody has are dropped."""
        with self.changed:
            super().stop()
            for seat in self.seats:
                if seat.worker is not None:
                    seat.worker.send(Stop())

    # ---------------------------------------------------------- what the work is
    def _worker(self, seat: Seat[_TaskOnItsWay]) -> WorkerProcess:
        holder = self._ledger.enter(seat.number)
        lookout = Lookout(self._office.store)
        hear: list[Hear] = [
            partial(self._heard, seat),
            partial(self._share, holder),
            partial(self._save, holder),
        ]
        if not self._setup.reads_file:
            hear.append(lookout.answer)
        try:
            worker = self._launcher.start(
                partial(work, self._setup),
                name=f"graphsearch-book-{seat.number}",
                hear=hear,
                died=partial(self._ledger.end, holder),
                lost=partial(self._ended, seat, holder, lookout),
            )
        except GraphSearchError:
            self._ledger.release(holder)
            raise
        self._holders[seat.number] = holder
        return worker

    def deadline(self, seat: Seat[_TaskOnItsWay]) -> float:
        """Returns when a worker has evaluated nothing, or sent no sign of life, for too long."""
        if not isinstance(seat.worker, WorkerProcess) or not seat.is_ready or seat.is_killed:
            return super().deadline(seat)
        return min(self._holders[seat.number].deadline, seat.worker.last_heard + self._silent)

    def _next(self, seat: Seat[_TaskOnItsWay]) -> _TaskOnItsWay | None:
        """Returns a task whose position no worker has."""
        busy = {seat.assignment.task.key for seat in self.seats if seat.assignment is not None}
        for assignment in self.waiting:
            if assignment.task.key not in busy:
                self.waiting.remove(assignment)
                return assignment
        return None

    def _errand(self, seat: Seat[_TaskOnItsWay], assignment: _TaskOnItsWay) -> tuple[Errand, float]:
        self._office.leased(_lease(seat, assignment))
        self._ledger.begins(self._holders[seat.number])
        return Errand(assignment.task, self._run), inf

    def _take_back(self, seat: Seat[_TaskOnItsWay]) -> _TaskOnItsWay | None:
        assignment = super()._take_back(seat)
        if assignment is not None:
            self._ledger.ends(self._holders[seat.number])
            self._office.returned(assignment.task.key)
        return assignment

    def _finished(self, seat: Seat[_TaskOnItsWay], assignment: _TaskOnItsWay, message: object) -> None:
        assert isinstance(message, Finished)
        self._holders[seat.number].settled += message.evaluations
        paid = assignment.paid + message.evaluations
        self.outcomes.append(Outcome(assignment.task, message.visits, paid, message.error, message.is_whole))

    def _ended(self, seat: Seat[_TaskOnItsWay], holder: Holder, lookout: Lookout, how: str) -> None:
        self._ledger.release(holder)
        lookout.close()
        with self.changed:
            if seat.assignment is not None:
                seat.assignment.paid += holder.paid - holder.settled
            self._lost(seat, how)

    def _given_up(self, assignment: _TaskOnItsWay, why: str) -> None:
        self.outcomes.append(Outcome(assignment.task, 0, assignment.paid, why))

    # ---------------------------------------------------------- positions and records
    def _share(self, holder: Holder, message: object) -> Answers | News | None:
        """Takes in what a worker says to the ledger; returns the reply that it waits for."""
        if isinstance(message, Ask):
            return self._ledger.ask(holder, message)
        if isinstance(message, Catchup):
            return self._office.between(partial(self._ledger.news, holder))
        if isinstance(message, Publish):
            self._ledger.publish(holder, message)
        elif isinstance(message, GiveBack):
            self._ledger.give_back(holder, message.words)
        return None

    def _save(self, holder: Holder, batches: list[RecordBatch]) -> Saved | Failure:
        """Commits the records of a worker; returns the reply that it waits for."""
        words = [batch.words for batch in batches]
        try:
            return Saved(self._office.commit(batches, partial(self._ledger.committed, holder, words)))
        except GraphSearchError as error:
            return failure_of(error)


def _lease(seat: Seat[_TaskOnItsWay], assignment: _TaskOnItsWay) -> Lease:
    return Lease(assignment.task.key, seat.number, seat.worker.pid if seat.worker else 0)
