"""Who works on what: tasks given to idle workers, and given again when a worker is lost."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ...errors import EvaluatorError, GraphSearchError
from ...record.node import RecordBatch
from ...record.provenance import EvaluatorIdentity, differences
from ..desk import Outcome, Task
from .leases import Lease
from .ledger import Ledger
from .merging import Merged
from .messages import Errand, Failure, Finished, Leave, News, Ready, Stop
from .seats import Seat
from .worker import Setup

START_SECONDS = 600.0  # until a worker has its evaluator: it may load a large network
MOST_LOST = 3  # workers in a row over one task, or at their start
ADVICE = "what the processes wrote to stderr says more; a script needs `if __name__ == '__main__':`"


class Office(Protocol):
    """Who keeps the file for a crew. Calls come from any thread."""

    def commit(self, batches: list[RecordBatch], then: Callable[[Merged], object]) -> int:
        """Writes what a worker has found, and says what has become of it before anything else is written.

        Returns:
          the size of a write-ahead log that is held, or 0.

        Raises:
          StoreError: if the file cannot be written.
        """

    def between(self, ask: Callable[[], News]) -> News:
        """Returns the answer to a question that is put while nothing is being committed."""

    def leased(self, lease: Lease) -> None:
        """Notes that a worker has a position."""

    def returned(self, key: str) -> None:
        """Notes that it has it no more."""


@dataclass(eq=False)
class _Assignment:
    """A task on its way, and what workers that had it have left: how many there were, what they paid for."""

    task: Task
    lost: int = 0
    paid: int = 0


@dataclass(eq=False)
class _Place:
    """A worker's number, whichever process has it.

    Attributes:
      seat: the process. is_ready: whether that has said that it has its evaluator.
      assignment: what it works on. paid: evaluations of the tasks that it has finished.
      lost_at_start: processes in a row that ended before they were ready.
      error: why nobody works here any more.
    """

    number: int
    seat: Seat | None = None
    is_ready: bool = False
    assignment: _Assignment | None = None
    paid: int = 0
    lost_at_start: int = 0
    error: GraphSearchError | None = None


class Crew:
    """Some workers, and the tasks that they have. Its methods are for any thread.

    Attributes:
      changed: notified when anything happens; whoever holds it sees one state.
      outcomes: of tasks, until they are taken.
      is_over: whether no more tasks are given out.
      identity, notes: of the evaluator, None and empty until a worker has made it.
    """

    def __init__(self, setup: Setup, workers: int, run: int, ledger: Ledger, office: Office) -> None:
        self.changed = threading.Condition()
        self.outcomes: deque[Outcome] = deque()
        self.identity: EvaluatorIdentity | None = None
        self.notes: tuple[str, ...] = ()
        self._setup, self._run = setup, run
        self._ledger, self._office = ledger, office
        self._places = [_Place(number) for number in range(workers)]
        self._queue: deque[_Assignment] = deque()
        self.is_over = False

    # ---------------------------------------------------------- for the desk
    def start(self) -> EvaluatorIdentity:
        """Starts all workers; returns the identity of the evaluator as soon as one has made it.

        Raises:
          GraphSearchError: if none can.
        """
        with self.changed:
            for place in self._places:
                self._start(place)
            while self.identity is None:
                self.check()
                self.changed.wait()
            return self.identity

    def check(self) -> None:
        """Raises what has ended all workers."""
        errors = [place.error for place in self._places]
        if all(errors):
            assert errors[0] is not None
            raise errors[0]

    @property
    def size(self) -> int:
        """How many workers there are."""
        return sum(place.error is None for place in self._places)

    @property
    def open_tasks(self) -> int:
        """How many tasks have no outcome yet."""
        return len(self._queue) + sum(place.assignment is not None for place in self._places)

    @property
    def processes(self) -> list[int]:
        """The processes that there are."""
        seats = [place.seat for place in self._places if place.seat is not None]
        return [seat.process.pid for seat in seats if seat.process.pid is not None]

    @property
    def leases(self) -> list[Lease]:
        """What the workers have."""
        return [self._lease(place) for place in self._places if place.assignment is not None]

    def submit(self, task: Task) -> None:
        """Takes a task; one whose position is being searched waits for that."""
        with self.changed:
            self._queue.append(_Assignment(task))
            self._hand_out()

    def stop(self) -> None:
        """Has searches end after their wave; nothing more is given out, and tasks nobody has are dropped."""
        with self.changed:
            self.is_over = True
            self._queue.clear()
            for place in self._places:
                if place.seat is not None:
                    place.seat.send(Stop())
            self.changed.notify_all()

    def dismiss(self) -> None:
        """Has all workers save and end; one that is not ready yet has nothing to save."""
        self.stop()
        with self.changed:
            for place in self._places:
                if place.seat is not None and place.is_ready:
                    place.seat.send(Leave())
                elif place.seat is not None:
                    place.seat.kill()

    def wait(self, seconds: float) -> bool:
        """Returns whether all processes have ended in so many seconds, and what they sent is taken in."""
        end = time.monotonic() + seconds
        with self.changed:
            while any(place.seat is not None for place in self._places):
                left = end - time.monotonic()
                if left <= 0:
                    return False
                self.changed.wait(left)
        return True

    def kill(self) -> None:
        """Ends all processes at once, and starts no more."""
        with self.changed:
            self.is_over = True
            for place in self._places:
                if place.seat is not None:
                    place.seat.kill()

    def kill_what_hangs(self, silent: float) -> None:
        """Ends workers that have evaluated nothing, or given no sign of life, for too long."""
        hung = self._ledger.hung()
        now = time.monotonic()
        with self.changed:
            for place in self._places:
                patience = silent if place.is_ready else START_SECONDS
                seat = place.seat
                if seat is not None and (seat.holder in hung or now - seat.last_heard > patience):
                    seat.kill()

    # ---------------------------------------------------------- what workers say
    def heard(self, seat: Seat, message: object) -> None:
        """Takes in what a worker says of its tasks."""
        with self.changed:
            place = self._places[seat.number]
            if isinstance(message, Ready):
                self._greet(place, message)
            elif isinstance(message, Failure):
                place.error = message.as_error(placed=False)
            elif isinstance(message, Finished):
                self._finish(place, message)
            else:
                return
            self._hand_out()
            self.changed.notify_all()

    def commit(self, batches: list[RecordBatch], then: Callable[[Merged], object]) -> int:
        """Writes what a worker has found."""
        return self._office.commit(batches, then)

    def between(self, ask: Callable[[], News]) -> News:
        """Returns the answer to a question that is put while nothing is being committed."""
        return self._office.between(ask)

    def _greet(self, place: _Place, ready: Ready) -> None:
        identity = EvaluatorIdentity.from_json(ready.identity)
        if self.identity is None:
            self.identity, self.notes = identity, ready.notes
        if identity.as_json() != self.identity.as_json():
            place.error = EvaluatorError(
                f"the workers' evaluators differ: {differences(self.identity, identity)};"
                " has a file changed meanwhile?"
            )
            assert place.seat is not None
            place.seat.kill()
            return
        place.is_ready, place.lost_at_start = True, 0

    def _finish(self, place: _Place, message: Finished) -> None:
        """Makes an outcome of what a worker has done."""
        assignment = self._take_back(place)
        if assignment is None:
            return
        place.paid += message.evaluations
        paid = assignment.paid + message.evaluations
        self.outcomes.append(Outcome(assignment.task, message.visits, paid, message.error, message.is_whole))

    def _take_back(self, place: _Place) -> _Assignment | None:
        """Returns what a worker had, which it has no more."""
        assignment, place.assignment = place.assignment, None
        if assignment is not None:
            assert place.seat is not None
            self._ledger.ends(place.seat.holder)
            self._office.returned(assignment.task.key)
        return assignment

    # ---------------------------------------------------------- lost workers
    def lost(self, seat: Seat, how: str) -> None:
        """Replaces a worker that has ended, and has its task done by another one."""
        with self.changed:
            place = self._places[seat.number]
            assignment = self._take_back(place)
            was_ready, place.is_ready, place.seat = place.is_ready, False, None
            paid, place.paid = seat.holder.paid - place.paid, 0
            if assignment is not None:
                self._give_again(assignment, paid, how)
            if not was_ready:
                self._lost_at_start(place, how)
            if not self.is_over and place.error is None:
                self._start(place)
            self._hand_out()
            self.changed.notify_all()

    def _give_again(self, assignment: _Assignment, paid: int, how: str) -> None:
        """Puts a task first again, unless it has cost too many workers, or no more are given out."""
        assignment.lost += 1
        assignment.paid += paid
        if assignment.lost < MOST_LOST and not self.is_over:
            self._queue.appendleft(assignment)
            return
        often = f"{assignment.lost} workers in a row" if assignment.lost > 1 else "the worker"
        error = f"{often} ended over {assignment.task.fen}: {how}"
        self.outcomes.append(Outcome(assignment.task, 0, assignment.paid, error))

    def _lost_at_start(self, place: _Place, how: str) -> None:
        place.lost_at_start += 1
        if place.lost_at_start >= MOST_LOST and place.error is None:
            place.error = EvaluatorError(
                f"{MOST_LOST} workers in a row ended as they started: {how}; {ADVICE}"
            )

    # ---------------------------------------------------------- handing out
    def _start(self, place: _Place) -> None:
        try:
            place.seat = Seat.started(place.number, self._setup, self, self._ledger)
        except EvaluatorError as error:
            place.error = error

    def _hand_out(self) -> None:
        """Gives tasks to idle workers; none whose position another one searches."""
        for place in self._places:
            if self.is_over or not place.is_ready or place.assignment is not None:
                continue
            assignment = self._next()
            if assignment is None:
                return
            assert place.seat is not None
            place.assignment = assignment
            self._office.leased(self._lease(place))
            self._ledger.begins(place.seat.holder)
            place.seat.send(Errand(assignment.task, self._run))

    def _next(self) -> _Assignment | None:
        busy = {place.assignment.task.key for place in self._places if place.assignment is not None}
        for assignment in self._queue:
            if assignment.task.key not in busy:
                self._queue.remove(assignment)
                return assignment
        return None

    def _lease(self, place: _Place) -> Lease:
        assert place.seat is not None
        assert place.assignment is not None
        return Lease(place.assignment.task.key, place.number, place.seat.process.pid or 0)
