"""An evaluator that runs in worker processes, on one or several machines."""

from __future__ import annotations

import pickle
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil, nan
from typing import Any

import numpy as np

from ..base.errors import EvaluatorError, InvalidParameterError
from ..position.board import fen_of, unpack
from ..store.provenance import EvaluatorIdentity
from ..workers.executor import LOCAL, Allowance, workers_for
from .options import MAX_WORKERS
from .protocol import Evaluation, Evaluator, PositionBatch, check_shapes

Make = Callable[[], Evaluator]


# ---------------------------------------------------------- in a worker
_made: list[Evaluator] = []  # the evaluator of this worker process
_evaluated: list[bool] = []  # whether it has evaluated a part


def in_worker(make: Make, identity: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result of `function(evaluator, *arguments)`; the evaluator is made at the first call.

    Args:
      identity: that of the other workers' evaluators, as JSON; empty if unknown.

    Raises:
      EvaluatorError: if the evaluator cannot be made, or has another identity.
    """
    if not _made:
        _made.append(make())
    evaluator = _made[0]
    if identity not in ("", evaluator.identity.as_json()):
        raise EvaluatorError(
            f"the workers' evaluators differ: {evaluator.identity.as_json()}, but {identity};"
            " give all workers the same files and versions"
        )
    return function(evaluator, *arguments)


def close_evaluator() -> None:
    """Closes the evaluator of this worker process."""
    while _made:
        _made.pop().close()


@dataclass(frozen=True, slots=True)
class Description:
    """An evaluator, as the owner of the workers sees it.

    Attributes:
      identity: as JSON. notes: for the user. wants_lines: whether it wants the moves before a position.
      batch_size: the smallest batch that keeps it busy.
    """

    identity: str
    notes: tuple[str, ...]
    wants_lines: bool
    batch_size: int


def describe(evaluator: Evaluator) -> Description:
    """Returns the description of this process's evaluator."""
    return Description(
        evaluator.identity.as_json(), evaluator.notes, evaluator.wants_lines, evaluator.outside_batch
    )


def evaluate_part(evaluator: Evaluator, part: PositionBatch) -> tuple[Evaluation, float]:
    """Returns the evaluation of a part, and its time in seconds; NaN if it may include compiling.

    Until the evaluator's kernels are compiled, only one process of a machine evaluates at a time.
    """
    with compiled_once(f"pool-{evaluator.identity.kind}") if evaluator.kernel_kind else nullcontext():
        begin = time.perf_counter()
        found = evaluator.evaluate(part)
        seconds = time.perf_counter() - begin
    found = Evaluation(np.asarray(found.wdl, np.float32), np.asarray(found.priors, np.float32))
    check_shapes(part, found)
    if not _evaluated:
        _evaluated.append(True)
        seconds = nan
    return found, seconds


@contextmanager
def compiled_once(purpose: str) -> Iterator[None]:
    """Holds a machine-wide lock for the body if the kernels of `purpose` are not compiled yet.

    Of workers that start together one compiles; the others wait and then use its cache on disk.
    """
    from ..jit.compiler import alone, is_compiled, mark_compiled

    if is_compiled(purpose):
        yield
        return
    with alone(purpose):
        if not is_compiled(purpose):
            yield
            mark_compiled(purpose)
            return
    yield


# ---------------------------------------------------------- in the process that searches
class Crew:
    """Workers that have the same evaluator.

    Attributes:
      workers: their executor.
    """

    def __init__(self, make: Make, workers: int, pool: str | None, *, cpus: int = 1) -> None:
        """Starts nothing yet; `PooledEvaluator` describes the arguments, and the errors."""
        if not 1 <= workers <= MAX_WORKERS:
            raise InvalidParameterError(f"workers must be from 1 to {MAX_WORKERS}, not {workers}")
        try:
            pickle.dumps(make)
        except Exception as error:
            raise EvaluatorError(
                f"the function that makes the evaluator cannot be sent to a worker: {error}"
            ) from None
        self._make, self._identity = make, ""
        self.workers = workers_for(pool, workers, cpus=cpus, last=close_evaluator)

    def start(self) -> Description:
        """Starts the workers; returns the description of the evaluator, when one worker has made it."""
        self.workers.start()
        found: Description = self.give(describe, name="the start of an evaluator").result()
        self._identity = found.identity
        return found

    def give(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        name: str,
        seconds: Allowance = lambda first: FIRST_SECONDS,
    ) -> Future[Any]:
        """Returns the future result of `function(evaluator, *arguments)` in a worker, as `Workers.give`."""
        call = partial(in_worker, self._make, self._identity, function, *arguments)
        return self.workers.give(call, seconds=seconds, name=name)

    def leave(self) -> None:
        """Ends all workers; calls fail. Safe to call from any thread, and more than once."""
        self.workers.close()


class PooledEvaluator(Evaluator):
    """Evaluates with several workers at once; results, identity and errors are those of one evaluator.

    The pool splits a batch into parts and sends them to idle workers. It replaces a worker that dies or
    hangs, and sends the part again; if three workers in a row die over one part, the batch fails.

    Attributes:
      identity: of the workers' evaluator, the same for all.
      notes: the evaluator's notes for the user.
    """

    def __init__(
        self, make: Make, workers: int, pool: str = LOCAL, *, timeout: float | None = None, cpus: int = 1
    ) -> None:
        """Starts the workers, and waits until the first one is ready.

        With Ray, call it on the main thread if possible: Ray changes signal handlers, and only there can they
        be restored.

        Args:
          make: returns the evaluator, in the worker; a module-level function or a `functools.partial` of one.
          workers: their number, at least 1.
          pool: `local`: processes on this machine; `ray`: actors of the Ray cluster running on this machine,
            or of a new one; `ray:HOST:PORT`, `ray:auto`: actors of a running cluster.
          timeout: seconds after which a worker with a part counts as hung; None: the larger of 60 s and
            twenty times the expected time, and at least ten minutes for a worker's first part.
          cpus: with Ray, number of CPUs to reserve per worker.

        Raises:
          InvalidParameterError: if `workers`, `cpus` or `timeout` is out of range, or the pool is unknown.
          EvaluatorError: if the evaluator cannot be made, or the workers cannot be started.
        """
        if timeout is not None and not timeout > 0:
            raise InvalidParameterError(f"timeout must be above 0 seconds, not {timeout}")
        if cpus < 1:
            raise InvalidParameterError(f"cpus must be at least 1, not {cpus}")
        self._crew = Crew(make, workers, pool, cpus=cpus)
        self._finalizer = weakref.finalize(self, self._crew.leave)
        try:
            found = self._crew.start()
        except BaseException:
            self.close()
            raise
        self.workers, self.pool = workers, pool
        self._timeout, self._pace = timeout, Pace(found.batch_size)
        self.identity = EvaluatorIdentity.from_json(found.identity)
        self.notes = found.notes
        self.wants_lines = found.wants_lines
        self.batch_size = workers * max(2, found.batch_size)  # fast workers get a second part

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position.

        Raises:
          EvaluatorError: if the evaluator fails, returns a wrong shape, or three workers die over one part;
            or if no worker starts, or the pool is closed.
        """
        ends = [*range(0, len(batch), self._pace.size(len(batch), self.workers)), len(batch)]
        parts = [batch.part(begin, end) for begin, end in pairwise(ends)]
        futures = [self._given(part) for part in parts]
        found = [Evaluation(np.empty((0, 3), np.float32), np.empty(0, np.float32))]
        try:
            for part, future in zip(parts, futures, strict=True):
                evaluation, seconds = future.result()
                found.append(evaluation)
                self._pace.learn(len(part), seconds)
        finally:
            for future in futures:
                future.cancel()
        return Evaluation(
            np.concatenate([part.wdl for part in found]), np.concatenate([part.priors for part in found])
        )

    def _given(self, part: PositionBatch) -> Future[Any]:
        first = fen_of(unpack(part.words[0].tolist()))
        name = f"a part of {len(part)} positions that begins with {first}"
        return self._crew.give(evaluate_part, part, name=name, seconds=partial(self._allowance, len(part)))

    def _allowance(self, count: int, first: bool) -> float:
        """Returns the seconds after which a worker with so many positions counts as hung."""
        return self._timeout or self._pace.allowance(count, first=first)

    def close(self) -> None:
        """Ends the workers; a running batch fails. Safe to call from any thread, and more than once."""
        self._finalizer()

    def __enter__(self) -> PooledEvaluator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


PROBE = 32  # positions in a part before any is timed: few, because an engine may take seconds for one
PART_SECONDS = 0.01  # least time of a part: to send it takes a thirtieth
MOST_SECONDS = 2.0  # of one part: the work lost if a worker dies
KEPT = 0.9  # weight of the earlier parts in the mean, with each new part
SLACK = 20.0  # multiple of the expected time after which a worker counts as hung
LEAST_SECONDS = 60.0  # but not earlier than this
FIRST_SECONDS = 600.0  # the same for a worker's first part, which may load or compile


@dataclass(slots=True)
class Pace:
    """The time of a position in a worker, and the sizes of parts that follow.

    Attributes:
      batch_size: the smallest part that keeps a worker busy. per_position: seconds, 0 if unknown.
    """

    batch_size: int
    per_position: float = 0.0

    def learn(self, count: int, seconds: float) -> None:
        """Adds the time of a part; NaN is ignored."""
        if seconds >= 0:
            weight = KEPT if self.per_position else 0.0
            self.per_position = weight * self.per_position + (1 - weight) * max(seconds / count, 1e-9)

    def size(self, count: int, workers: int) -> int:
        """Returns the number of positions in each part of a batch.

        No part is larger than the share of a worker. Slow positions get smaller parts, so that fast workers
        do more than slow ones.

        >>> Pace(16).size(100, 2), Pace(1, per_position=0.03).size(100, 2), Pace(256, 0.001).size(1024, 4)
        (32, 1, 256)
        """
        share = max(1, ceil(count / workers))
        if not self.per_position:
            return min(share, PROBE)
        least = max(self.batch_size, ceil(PART_SECONDS / self.per_position))
        return min(share, least, max(1, int(MOST_SECONDS / self.per_position)))

    def allowance(self, count: int, *, first: bool) -> float:
        """Returns the seconds after which a worker with a part of so many positions counts as hung."""
        least = FIRST_SECONDS if first or not self.per_position else LEAST_SECONDS
        return max(least, SLACK * self.per_position * count)
