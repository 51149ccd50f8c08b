"""Supervisors of workers that do one batch at a time, in parts."""

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

CLOSING_SECONDS = 10.0  # for the batch under way to fail


@dataclass(eq=False)
class Batch:
    """Work in parts: the number of missing parts, and the first error."""

    missing: int
    error: GraphSearchError | None = None


@dataclass(eq=False)
class Part(Assignment):
    """A part of a batch."""

    batch: Batch


P = TypeVar("P", bound=Part)


class BatchSupervisor(Supervisor[P]):
    """Workers that do one batch at a time. Only `end` may be called from other threads than `do`."""

    closed = "the pool of workers is closed"

    def __init__(self, workers: int, launcher: Launcher | None = None) -> None:
        super().__init__(workers, launcher)
        self._running = threading.Lock()
        self._batch: Batch | None = None

    def do(self, batch: Batch, parts: Sequence[P]) -> None:
        """Waits until all parts of a batch are done.

        Raises:
          GraphSearchError: if a part or a worker fails, or the workers are ended meanwhile.
        """
        with self._running, self.changed:
            self._batch, self._alive_at = batch, time.monotonic()
            try:
                self._fill_seats(len(parts))  # again, if they have failed in an earlier batch
                self.submit(*parts)
                while batch.missing:
                    self.check()
                    if batch.error is not None:
                        raise batch.error
                    self.rest()
            finally:
                self._batch = None
                self.waiting.clear()

    def check(self) -> None:
        """Raises the error of any worker, once; the next batch starts the worker again."""
        if self.is_over:
            raise EvaluatorError(self.closed)
        errors = [seat.error for seat in self.seats if seat.error is not None]
        if errors:
            for seat in self.seats:
                seat.error, seat.lost_at_start = None, 0
            raise errors[0]
        self._check_patience()

    def end(self, seconds: float) -> None:
        """Ends all workers, and lets idle ones close within so many seconds; a batch under way fails."""
        self.close(seconds)
        if self._running.acquire(timeout=CLOSING_SECONDS):  # its caller has noticed
            self._running.release()

    def _fail(self, batch: Batch, error: GraphSearchError) -> None:
        """Ends a batch; the first error counts."""
        batch.error = batch.error or error
        if batch is self._batch:
            self.waiting.clear()

    def _next(self, seat: Seat[P]) -> P | None:
        while (part := super()._next(seat)) is not None:
            if part.batch is self._batch:  # else its batch has failed
                return part
        return None

    def _given_up(self, assignment: P, why: str) -> None:
        self._fail(assignment.batch, EvaluatorError(why))
