"""Parts of a batch to idle workers, and their answers in order; lost parts go to another worker.

`workers/supervisor.py` assigns parts to workers; the sizes and time limits of parts are decided here.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ...errors import EvaluatorError
from ...position.board import unpack
from ...workers.batches import Batch, BatchSupervisor, Part
from ...workers.child import WorkerProcess
from ...workers.launcher import Launcher
from ...workers.messages import Failure
from ...workers.supervisor import Seat
from ..protocol import Evaluation, PositionBatch
from .throughput import Throughput
from .worker import Make, PartEvaluation, serve

LEAVING_SECONDS = 5.0  # to close evaluators


@dataclass(eq=False)
class _Rows(Part):
    """Some positions of a batch, from `begin` to `end`."""

    batch: _EvaluationBatch
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    def __str__(self) -> str:
        first = unpack(self.batch.positions.words[self.begin].tolist())
        return f"a part of {len(self)} positions that begins with {first.fen()}"

    @property
    def positions(self) -> PositionBatch:
        return self.batch.positions.part(self.begin, self.end)


class _EvaluationBatch(Batch):
    """A batch of positions, and the answers so far."""

    def __init__(self, batch: PositionBatch, sizes: Sequence[int]) -> None:
        super().__init__(missing=len(sizes))
        self.positions = batch
        self.wdl = np.empty((len(batch), 3), np.float32)
        self.priors = np.empty(len(batch.moves), np.float32)
        ends = np.cumsum(sizes, dtype=np.int64).tolist()
        self.parts = [_Rows(self, end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def fill_in(self, part: _Rows, answer: PartEvaluation) -> None:
        """Stores the answer to a part.

        Raises:
          EvaluatorError: if it has another shape.
        """
        offsets = self.positions.offsets
        begin, end = int(offsets[part.begin]), int(offsets[part.end])
        if answer.wdl.shape != (len(part), 3) or answer.priors.shape != (end - begin,):
            raise EvaluatorError(
                f"the evaluator answered {answer.wdl.shape} values and {answer.priors.shape} priors to"
                f" {len(part)} positions with {end - begin} moves"
            )
        self.wdl[part.begin : part.end] = answer.wdl
        self.priors[begin:end] = answer.priors
        self.missing -= 1


class Dispatcher(BatchSupervisor[_Rows]):
    """Keeps workers busy with the parts of one batch."""

    def __init__(self, make: Make, launcher: Launcher, workers: int, *, timeout: float | None) -> None:
        """Makes a dispatcher without workers yet.

        Args:
          make: returns the evaluator, in the worker.
          timeout: seconds that a part may take; None: by the time that parts take, generously.
        """
        super().__init__(workers, launcher)
        self.throughput = Throughput()
        self._make, self._launcher = make, launcher
        self._timeout = timeout

    def run(self, batch: PositionBatch) -> Evaluation:
        """Returns the evaluation of a batch.

        Raises:
          EvaluatorError: if the evaluator fails, answers in another shape or costs three workers their life.
        """
        sizes = self.throughput.sizes(len(batch), len(self.seats)) if len(batch) else []
        work = _EvaluationBatch(batch, sizes)
        self.do(work, work.parts)
        return Evaluation(work.wdl, work.priors)

    def leave(self) -> None:
        """Ends all workers; a batch under way fails. It may be called from any thread."""
        self.end(LEAVING_SECONDS)
        self._launcher.close()

    # ---------------------------------------------------------- the work
    def _worker(self, seat: Seat[_Rows]) -> WorkerProcess:
        heard, lost = partial(self._heard, seat), partial(self._lost, seat)
        work, name = partial(serve, self._make), f"graphsearch-pool-{seat.number}"
        return self._launcher.start(work, name=name, hear=[heard], lost=lost)

    def _request(self, seat: Seat[_Rows], assignment: _Rows) -> tuple[PositionBatch, float]:
        seconds = self._timeout or self.throughput.allowance(len(assignment), first=not seat.answers)
        return assignment.positions, seconds

    def _finished(self, seat: Seat[_Rows], assignment: _Rows, message: object) -> None:
        work = assignment.batch
        if isinstance(message, Failure):
            self._fail(work, message.as_error(placed=self.is_remote))
        elif isinstance(message, PartEvaluation):
            if seat.answers > 1:  # a worker's first part includes loading and compiling
                round_trip = time.monotonic() - seat.since
                self.throughput.learn(len(assignment), message.seconds, round_trip)
            try:
                self._check_identity(message.identity, message.place)
                work.fill_in(assignment, message)
            except EvaluatorError as error:
                self._fail(work, error)
