"""Supervisors assign work to workers, kill hung ones and replace lost ones.

    queue ---- assign ----> worker ---- result ----> finished
      ^                       | dies, or is killed because it hangs
      +------- requeue -------+---- the third in a row over one assignment ----> given up

A seat is the number of a worker; a replacement process gets the same one. A lost worker is replaced, unless
three in a row ended before they were ready. Subclasses define the work and start the processes.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Generic, TypeVar

from ..base.errors import EvaluatorError, GraphSearchError
from .launcher import Launcher
from .messages import Failure, Leave, Ready
from .process import ADVICE, ENDING_SECONDS, START_SECONDS, WorkerHandle

CLOSING_SECONDS = 10.0  # for the batch under way to fail


@dataclass(eq=False)
class Batch:
    """Work in parts: the number of missing parts, and the first error."""

    missing: int
    error: GraphSearchError | None = None


@dataclass(eq=False)
class Part:
    """A part of a batch, for one worker; its `str` is for messages.

    Attributes:
      lost: workers in a row that have ended over it.
    """

    batch: Batch
    lost: int = field(default=0, kw_only=True)


P = TypeVar("P", bound=Part)


@dataclass(eq=False)
class Seat(Generic[P]):
    """A worker's number and state; a replacement process gets the same seat.

    Attributes:
      worker: the process. is_ready: whether it has sent `Ready`. answers: number of its results.
      assignment: its work, since `since`, until `deadline`, when it counts as hung.
      lost_at_start: processes in a row that ended before they were ready.
      is_killed: whether it was killed because it hung.
      error: why the seat stays empty.
    """

    number: int
    worker: WorkerHandle | None = None
    is_ready: bool = False
    answers: int = 0
    assignment: P | None = None
    since: float = 0.0
    deadline: float = inf
    lost_at_start: int = 0
    is_killed: bool = False
    error: GraphSearchError | None = None


class Supervisor(ABC, Generic[P]):
    """Workers that do one batch at a time. Only `end` may be called from other threads than `do`.

    Attributes:
      changed: the lock of all state, notified at every change.
      seats: one for each worker. waiting: the queue of parts.
      greeting: of the first ready worker.
      is_over: whether nothing more is assigned, and no worker replaced.
    """

    closed = "the pool of workers is closed"
    most_lost = 3  # workers in a row over one assignment, or at their start
    advice = ADVICE  # what to do if workers end as they start
    patience = inf  # seconds until the first worker runs
    is_remote = False  # whether workers may be on other machines, which messages name then
    is_eager = True  # whether a worker is replaced while the queue is empty

    def __init__(self, workers: int, launcher: Launcher | None = None) -> None:
        if launcher is not None:
            self.advice, self.patience = launcher.advice, launcher.patience
            self.is_remote = launcher.is_remote
        self.changed = threading.Condition()
        self._alive_at = time.monotonic()  # when a worker last ran
        self.seats = [Seat[P](number) for number in range(workers)]
        self.waiting: deque[P] = deque()
        self.greeting: Ready | None = None
        self.is_over = False
        self._running = threading.Lock()
        self._batch: Batch | None = None

    # ---------------------------------------------------------- the work
    @abstractmethod
    def _worker(self, seat: Seat[P]) -> WorkerHandle:
        """Starts a worker, which calls `_heard` for its messages and `_lost` at its end."""

    @abstractmethod
    def _request(self, seat: Seat[P], assignment: P) -> tuple[object, float]:
        """Returns the request for an idle worker, and the seconds after which it counts as hung."""

    @abstractmethod
    def _finished(self, seat: Seat[P], assignment: P, message: object) -> None:
        """Handles the result of an assignment."""

    def _next(self, seat: Seat[P]) -> P | None:
        """Removes the next part for an idle worker from the queue; None: there is none."""
        while self.waiting:
            part = self.waiting.popleft()
            if part.batch is self._batch:  # else its batch has failed
                return part
        return None

    def deadline(self, seat: Seat[P]) -> float:
        """Returns the time, by `time.monotonic`, from which a worker counts as hung."""
        if seat.worker is None or seat.is_killed:
            return inf
        return seat.deadline if seat.is_ready else seat.worker.alive_since + START_SECONDS

    # ---------------------------------------------------------- for callers
    def start(self, most: int | None = None) -> Ready:
        """Starts all missing workers, or `most`, and waits until the first is ready; returns its greeting.

        Raises:
          GraphSearchError: if no worker can be started.
        """
        with self.changed:
            self._fill_seats(most)
            while self.greeting is None:
                self.check()
                self.rest()
            return self.greeting

    def do(self, batch: Batch, parts: Sequence[P]) -> None:
        """Waits until all parts of a batch are done.

        Raises:
          GraphSearchError: if a part or a worker fails, or the workers are ended meanwhile.
        """
        with self._running, self.changed:
            self._batch, self._alive_at = batch, time.monotonic()
            try:
                self._fill_seats(len(parts))  # again, if they have failed in an earlier batch
                self.enqueue(*parts)
                while batch.missing:
                    self.check()
                    if batch.error is not None:
                        raise batch.error
                    self.rest()
            finally:
                self._batch = None
                self.waiting.clear()

    def check(self) -> None:
        """Raises the error of any worker, once, or an error if none has started for too long.

        The next batch starts a worker with an error again.
        """
        if self.is_over:
            raise EvaluatorError(self.closed)
        errors = [seat.error for seat in self.seats if seat.error is not None]
        if errors:
            for seat in self.seats:
                seat.error, seat.lost_at_start = None, 0
            raise errors[0]
        now = time.monotonic()
        if any(seat.worker is not None and seat.worker.alive_since < inf for seat in self.seats):
            self._alive_at = now
        elif now >= self._alive_at + self.patience:
            raise EvaluatorError(f"no worker has started in {self.patience:.0f} s; {self.advice}")

    @property
    def processes(self) -> list[int]:
        """The ids of the running processes."""
        return [seat.worker.pid for seat in self.seats if seat.worker is not None and seat.worker.pid]

    def enqueue(self, *assignments: P) -> None:
        """Adds assignments to the queue."""
        with self.changed:
            self.waiting.extend(assignments)
            self._hand_out()

    def rest(self, until: float = inf) -> None:
        """Waits for a change, at most until a time, and kills hung workers. The caller holds `changed`."""
        soonest = min(until, self._alive_at + self.patience, *(self.deadline(seat) for seat in self.seats))
        self.changed.wait(min(max(0.0, soonest - time.monotonic()), 3600.0))
        self.kill_what_hangs()

    def kill_what_hangs(self) -> None:
        """Kills the workers that are past their deadline."""
        now = time.monotonic()
        with self.changed:
            for seat in self.seats:
                if seat.worker is not None and now >= self.deadline(seat):
                    seat.is_killed = True
                    seat.worker.kill()

    # ---------------------------------------------------------- the end
    def end(self, seconds: float) -> None:
        """Ends all workers, and lets idle ones close within so many seconds; a batch under way fails."""
        try:
            self.dismiss()
            self.wait(seconds)
        finally:
            self.kill()
            self.wait(ENDING_SECONDS)
        if self._running.acquire(timeout=CLOSING_SECONDS):  # its caller has noticed
            self._running.release()

    def dismiss(self) -> None:
        """Assigns no more work, and asks idle workers to leave; kills the others."""
        with self.changed:
            self.is_over = True
            self.waiting.clear()
            self.changed.notify_all()
            for seat in self.seats:
                if seat.worker is None:
                    continue
                if seat.is_ready and seat.assignment is None:
                    seat.worker.send(Leave())
                else:
                    seat.worker.kill()

    def wait(self, seconds: float) -> bool:
        """Waits until all workers have ended, all messages handled; returns False if `seconds` pass first."""
        with self.changed:
            return self.changed.wait_for(lambda: not any(seat.worker for seat in self.seats), seconds)

    def kill(self) -> None:
        """Kills all workers, and starts no more."""
        with self.changed:
            self.is_over = True
            for seat in self.seats:
                if seat.worker is not None:
                    seat.worker.kill()

    # ---------------------------------------------------------- messages of workers
    def _heard(self, seat: Seat[P], message: object) -> None:
        with self.changed:
            if isinstance(message, Ready):
                self._greet(seat, message)
            elif not seat.is_ready and isinstance(message, Failure):
                seat.error = message.as_error(placed=self.is_remote)
            elif (assignment := self._take_back(seat)) is not None:
                seat.answers += 1
                self._finished(seat, assignment, message)
            self._hand_out()
            self.changed.notify_all()

    def _greet(self, seat: Seat[P], ready: Ready) -> None:
        self.greeting = self.greeting or ready
        try:
            self._check_identity(ready.identity, ready.place)
            seat.is_ready, seat.lost_at_start, seat.deadline = True, 0, inf
        except EvaluatorError as error:
            seat.error = error
            assert seat.worker is not None
            seat.worker.kill()

    def _check_identity(self, identity: str, place: str) -> None:
        first = self.greeting
        if first is not None and identity != first.identity:
            raise EvaluatorError(
                f"the workers' evaluators differ: {identity} ({place}), but {first.identity} ({first.place});"
                " give all workers the same files and versions"
            )

    def _take_back(self, seat: Seat[P]) -> P | None:
        assignment, seat.assignment, seat.deadline = seat.assignment, None, inf
        return assignment

    # ---------------------------------------------------------- lost workers
    def _lost(self, seat: Seat[P], how: str) -> None:
        """Replaces a worker that has ended, and requeues its assignment."""
        with self.changed:
            assignment = self._take_back(seat)
            was_ready, seat.is_ready, seat.worker = seat.is_ready, False, None
            if assignment is not None:
                self._give_again(assignment, how)
            if not was_ready:
                self._lost_at_start(seat, how)
            if not self.is_over and seat.error is None and (self.is_eager or self.waiting):
                self._start(seat)
            self._hand_out()
            self.changed.notify_all()

    def _give_again(self, assignment: P, how: str) -> None:
        """Requeues an assignment at the front, unless too many workers have died over it."""
        assignment.lost += 1
        if assignment.lost < self.most_lost and not self.is_over:
            self.waiting.appendleft(assignment)
        else:
            self._given_up(assignment, f"{_in_a_row(assignment.lost)} ended over {assignment}: {how}")

    def _given_up(self, assignment: P, why: str) -> None:
        """Fails the batch of a part after too many workers have died over it."""
        self._fail(assignment.batch, EvaluatorError(why))

    def _fail(self, batch: Batch, error: GraphSearchError) -> None:
        batch.error = batch.error or error
        if batch is self._batch:
            self.waiting.clear()

    def _lost_at_start(self, seat: Seat[P], how: str) -> None:
        seat.lost_at_start += 1
        if seat.lost_at_start >= self.most_lost and seat.error is None:
            row = _in_a_row(seat.lost_at_start)
            seat.error = EvaluatorError(f"{row} ended as they started: {how}; {self.advice}")

    # ---------------------------------------------------------- handing out
    def _fill_seats(self, most: int | None = None) -> None:
        for seat in self.seats[:most]:
            if seat.worker is None and seat.error is None and not self.is_over:
                self._start(seat)

    def _start(self, seat: Seat[P]) -> None:
        seat.answers, seat.deadline, seat.is_killed = 0, inf, False
        try:
            seat.worker = self._worker(seat)
        except GraphSearchError as error:
            seat.error = error

    def _hand_out(self) -> None:
        """Assigns work to idle workers."""
        for seat in self.seats:
            if self.is_over or not seat.is_ready or seat.assignment is not None or seat.worker is None:
                continue
            if (assignment := self._next(seat)) is None:
                continue
            seat.assignment, seat.since = assignment, time.monotonic()
            message, seconds = self._request(seat, assignment)
            seat.deadline = seat.since + seconds
            seat.worker.send(message)


def _in_a_row(count: int) -> str:
    return f"{count} workers in a row" if count > 1 else "the worker"
