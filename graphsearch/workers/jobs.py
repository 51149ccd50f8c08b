"""One job at a time, in parts: whoever has it waits until all of its parts are done, or something fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ..errors import EvaluatorError, GraphSearchError
from .supervisor import Assignment, Seat, Supervisor

if TYPE_CHECKING:
    from .launcher import Launcher

CLOSING_SECONDS = 10.0  # for a job under way to fail


@dataclass(eq=False)
class Job:
    """What its parts come together in: how many are missing, and what went wrong."""

    missing: int
    error: GraphSearchError | None = None


@dataclass(eq=False)
class Part(Assignment):
    """A part of a job."""

    job: Job


P = TypeVar("P", bound=Part)


class JobSupervisor(Supervisor[P]):
    """Workers that do one job at a time. Only `end` may come from another thread than the caller's."""

    closed = "the pool of workers is closed"

    def __init__(self, workers: int, launcher: Launcher | None = None) -> None:
        super().__init__(workers, launcher)
        self._running = threading.Lock()
        self._job: Job | None = None

    def do(self, job: Job, parts: Sequence[P]) -> None:
        """Returns when all parts of a job are done.

        Raises:
          GraphSearchError: what went wrong with it, or with a worker; or if this was ended meanwhile.
        """
        with self._running, self.changed:
            self._job, self._alive_at = job, time.monotonic()
            try:
                self._fill_seats(len(parts))  # again, if they have failed in an earlier job
                self.submit(*parts)
                while job.missing:
                    self.check()
                    if job.error is not None:
                        raise job.error
                    self.rest()
            finally:
                self._job = None
                self.waiting.clear()

    def check(self) -> None:
        """Raises what has ended any worker, once; the next job tries them again."""
        if self.is_over:
            raise EvaluatorError(self.closed)
        errors = [seat.error for seat in self.seats if seat.error is not None]
        if errors:
            for seat in self.seats:
                seat.error, seat.lost_at_start = None, 0
            raise errors[0]
        self._check_patience()

    def end(self, seconds: float) -> None:
        """Ends all workers, idle ones when they have left, at most so late; a job under way fails."""
        self.close(seconds)
        if self._running.acquire(timeout=CLOSING_SECONDS):  # its caller has noticed
            self._running.release()

    def _fail(self, job: Job, error: GraphSearchError) -> None:
        """Ends a job; the first error counts."""
        job.error = job.error or error
        if job is self._job:
            self.waiting.clear()

    def _next(self, seat: Seat[P]) -> P | None:
        while (part := super()._next(seat)) is not None:
            if part.job is self._job:  # else of one that has failed
                return part
        return None

    def _given_up(self, assignment: P, why: str) -> None:
        self._fail(assignment.job, EvaluatorError(why))
