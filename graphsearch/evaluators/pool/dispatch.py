"""Parts of a batch to whichever worker is free, and their answers in order; lost parts go to another worker.

Local processes and Ray's actors differ in how a worker is started and asked (`Site`); who does what is
decided by `workers/supervisor.py`, how large the parts are and how long they may take is decided here, for
both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Protocol

import numpy as np

from ...errors import EvaluatorError
from ...position.board import unpack
from ...workers.jobs import Job, JobSupervisor, Part
from ...workers.messages import Failure
from ...workers.supervisor import Seat, WorkerHandle
from ..protocol import Evaluation, PositionBatch
from .throughput import Throughput
from .worker import PartEvaluation


class Site(Protocol):
    """Where workers are started."""

    patience: float  # seconds for a worker to be ready while no other one is
    leaving_seconds: float  # to close evaluators
    advice: str  # what to do if none starts
    is_far: bool  # whether a message has to say on which machine something failed

    def worker(
        self, number: int, heard: Callable[[object], None], lost: Callable[[str], None]
    ) -> WorkerHandle:
        """Returns a worker that was just started, again if it was lost.

        It says `Ready` or `Failure`; told a part, it says a `PartEvaluation` or `Failure`.

        Raises:
          EvaluatorError: if none can be started.
        """

    def close(self) -> None:
        """Gives back what is left, once nobody waits for workers any more."""


@dataclass(eq=False)
class _Rows(Part):
    """Some positions of a batch, from `begin` to `end`."""

    job: _BatchJob
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    def __str__(self) -> str:
        first = unpack(self.job.batch.words[self.begin].tolist())
        return f"a part of {len(self)} positions that begins with {first.fen()}"

    @property
    def positions(self) -> PositionBatch:
        return self.job.batch.part(self.begin, self.end)


class _BatchJob(Job):
    """A batch on its way, and the answers so far."""

    def __init__(self, batch: PositionBatch, sizes: Sequence[int]) -> None:
        super().__init__(missing=len(sizes))
        self.batch = batch
        self.wdl = np.empty((len(batch), 3), np.float32)
        self.priors = np.empty(len(batch.moves), np.float32)
        ends = np.cumsum(sizes, dtype=np.int64).tolist()
        self.parts = [_Rows(self, end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def fill_in(self, part: _Rows, answer: PartEvaluation) -> None:
        """Takes a part's answer in.

        Raises:
          EvaluatorError: if it has another shape.
        """
        offsets = self.batch.offsets
        begin, end = int(offsets[part.begin]), int(offsets[part.end])
        if answer.wdl.shape != (len(part), 3) or answer.priors.shape != (end - begin,):
            raise EvaluatorError(
                f"the evaluator answered {answer.wdl.shape} values and {answer.priors.shape} priors to"
                f" {len(part)} positions with {end - begin} moves"
            )
        self.wdl[part.begin : part.end] = answer.wdl
        self.priors[begin:end] = answer.priors
        self.missing -= 1


class Dispatcher(JobSupervisor[_Rows]):
    """Keeps workers busy with the parts of one batch."""

    start_seconds = inf  # a worker may wait for room in a cluster; see `rest`

    def __init__(self, site: Site, workers: int, *, timeout: float | None) -> None:
        """Takes the place where the workers will be started.

        Args:
          site: where they are. workers: how many.
          timeout: seconds that a part may take; None: by what parts take, generously.
        """
        super().__init__(workers)
        self.throughput = Throughput()
        self.advice, self.is_far = site.advice, site.is_far
        self._site = site
        self._timeout = timeout
        self._stirred = time.monotonic()  # when a worker was last ready

    def run(self, batch: PositionBatch) -> Evaluation:
        """Returns the evaluation of a batch.

        Raises:
          EvaluatorError: if the evaluator fails, answers in another shape or costs three workers their life.
        """
        sizes = self.throughput.sizes(len(batch), len(self.seats)) if len(batch) else []
        job = _BatchJob(batch, sizes)
        with self.changed:
            self._stirred = time.monotonic()
        self.do(job, job.parts)
        return Evaluation(job.wdl, job.priors)

    def rest(self, until: float = 0.0) -> None:
        """Waits as every supervisor, but only so long for a worker to be ready if there is none.

        Raises:
          EvaluatorError: if none has been ready for too long.
        """
        now, patience = time.monotonic(), self._site.patience
        if any(seat.is_ready for seat in self.seats):
            self._stirred = now
        elif now >= self._stirred + patience:
            raise EvaluatorError(f"no worker has started in {patience:.0f} s; {self.advice}")
        super().rest(self._stirred + patience)

    def leave(self) -> None:
        """Ends all workers; a batch under way fails. It may be called from any thread."""
        self.end(self._site.leaving_seconds)
        self._site.close()

    # ---------------------------------------------------------- what the work is
    def _worker(self, seat: Seat[_Rows]) -> WorkerHandle:
        return self._site.worker(seat.number, partial(self._heard, seat), partial(self._lost, seat))

    def _errand(self, seat: Seat[_Rows], assignment: _Rows) -> tuple[PositionBatch, float]:
        seconds = self._timeout or self.throughput.allowance(len(assignment), first=not seat.answers)
        return assignment.positions, seconds

    def _finished(self, seat: Seat[_Rows], assignment: _Rows, message: object) -> None:
        job = assignment.job
        if isinstance(message, Failure):
            self._fail(job, message.as_error(placed=self.is_far))
        elif isinstance(message, PartEvaluation):
            if seat.answers > 1:  # the first is with what it loaded or compiled; no measure of the others
                round_trip = time.monotonic() - seat.since
                self.throughput.learn(len(assignment), message.seconds, round_trip)
            try:
                self._check_identity(message.identity, message.place)
                job.fill_in(assignment, message)
            except EvaluatorError as error:
                self._fail(job, error)
