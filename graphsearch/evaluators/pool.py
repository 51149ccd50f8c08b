"""An evaluator that runs as a pool of worker processes, on one or several machines."""

from __future__ import annotations

import pickle
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from ..base.errors import EvaluatorError, InvalidParameterError
from ..position.board import fen_of, unpack
from ..store.record.provenance import EvaluatorIdentity
from ..workers.launcher import LOCAL, Launcher, launcher_for
from ..workers.messages import Failure, Leave, Ready, failure_of, own_place
from ..workers.process import Handlers, Pipe, WorkerProcess
from ..workers.supervisor import Batch, Part, Seat, Supervisor
from .option_values import MAX_WORKERS
from .protocol import OUTSIDE_BATCH, Evaluation, Evaluator, PositionBatch


class PooledEvaluator(Evaluator):
    """Evaluates with several workers at once; results, identity and errors are those of one evaluator.

    The pool splits a batch into parts and sends them to idle workers. It replaces a worker that dies or
    hangs, and sends the part to another one; if three workers in a row die over one part, the batch fails.

    Attributes:
      identity: of the workers' evaluator, the same for all.
      notes: the evaluator's notes for the user.
    """

    def __init__(
        self, make: Make, *, workers: int, pool: str = LOCAL, timeout: float | None = None, cpus: int = 1
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
        _check(make, workers, timeout, cpus)
        self._dispatcher = Dispatcher(make, launcher_for(pool, workers, cpus=cpus), workers, timeout=timeout)
        self._finalizer = weakref.finalize(self, self._dispatcher.leave)
        try:
            greeting = self._dispatcher.start()
        except BaseException:
            self.close()
            raise
        self.workers, self.pool = workers, pool
        self.identity = EvaluatorIdentity.from_json(greeting.identity)
        self.notes = greeting.notes
        self.wants_lines = greeting.wants_lines
        self.batch_size = workers * max(OUTSIDE_BATCH, greeting.batch_size)

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position.

        Raises:
          EvaluatorError: if the evaluator fails, no worker starts, or the pool is closed.
        """
        return self._dispatcher.run(batch)

    def close(self) -> None:
        """Ends the workers; a running batch fails. Safe to call from any thread, and more than once."""
        self._finalizer()

    def __enter__(self) -> PooledEvaluator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def pooled(make: Make, workers: int, pool: str = LOCAL) -> PooledEvaluator:
    """Returns a `PooledEvaluator` of `workers` workers; `make` returns the evaluator."""
    return PooledEvaluator(make, workers=workers, pool=pool)


def _check(make: Make, workers: int, timeout: float | None, cpus: int) -> None:
    if not 1 <= workers <= MAX_WORKERS:
        raise InvalidParameterError(f"workers must be from 1 to {MAX_WORKERS}, not {workers}")
    if timeout is not None and not timeout > 0:
        raise InvalidParameterError(f"timeout must be above 0 seconds, not {timeout}")
    if cpus < 1:
        raise InvalidParameterError(f"cpus must be at least 1, not {cpus}")
    try:
        pickle.dumps(make)
    except Exception as error:
        raise EvaluatorError(
            f"the function that makes the evaluator cannot be sent to a worker: {error}"
        ) from None


LEAVING_SECONDS = 5.0  # for workers to close their evaluators


@dataclass(eq=False)
class _Rows(Part):
    """The positions of a batch from `begin` to `end` (exclusive)."""

    batch: _EvaluationBatch
    begin: int
    end: int

    def __len__(self) -> int:
        return self.end - self.begin

    def __str__(self) -> str:
        first = unpack(self.batch.positions.words[self.begin].tolist())
        return f"a part of {len(self)} positions that begins with {fen_of(first)}"

    @property
    def positions(self) -> PositionBatch:
        return self.batch.positions.part(self.begin, self.end)


class _EvaluationBatch(Batch):
    """A batch of positions, and the results so far."""

    def __init__(self, batch: PositionBatch, sizes: Sequence[int]) -> None:
        super().__init__(missing=len(sizes))
        self.positions = batch
        self.wdl = np.empty((len(batch), 3), np.float32)
        self.priors = np.empty(len(batch.moves), np.float32)
        ends = np.cumsum(sizes, dtype=np.int64).tolist()
        self.parts = [_Rows(self, end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def fill_in(self, part: _Rows, answer: PartEvaluation) -> None:
        """Stores the result of a part; raises EvaluatorError if its shape is wrong."""
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


class Dispatcher(Supervisor[_Rows]):
    """Distributes the parts of one batch at a time among the workers."""

    def __init__(self, make: Make, launcher: Launcher, workers: int, *, timeout: float | None) -> None:
        """Makes a dispatcher without workers yet.

        Args:
          make: returns the evaluator, in the worker.
          timeout: seconds that a part may take; None: a generous multiple of the measured times.
        """
        super().__init__(workers, launcher)
        self.throughput = Throughput()
        self._make, self._launcher = make, launcher
        self._timeout = timeout

    def run(self, batch: PositionBatch) -> Evaluation:
        """Returns the evaluation of a batch.

        Raises:
          EvaluatorError: if the evaluator fails, returns a wrong shape, or three workers die over one part.
        """
        sizes = self.throughput.sizes(len(batch), len(self.seats)) if len(batch) else []
        work = _EvaluationBatch(batch, sizes)
        self.do(work, work.parts)
        return Evaluation(work.wdl, work.priors)

    def leave(self) -> None:
        """Ends all workers; a running batch fails. Safe to call from any thread."""
        self.end(LEAVING_SECONDS)
        self._launcher.close()

    # ---------------------------------------------------------- the work
    def _worker(self, seat: Seat[_Rows]) -> WorkerProcess:
        heard, lost = partial(self._heard, seat), partial(self._lost, seat)
        work, name = partial(serve, self._make), f"graphsearch-pool-{seat.number}"
        return self._launcher.start(work, Handlers(heard, lost), name=name)

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


KEPT = 0.97  # factor of the earlier parts' weight, with each new part
SPREAD = 0.2  # least relative deviation of the sizes for estimating the fixed cost of a call
PROBE = 32  # positions in a part before any is timed: few, because an engine may take seconds for one
WORTH = 2  # least time of a part, as a multiple of the time to send it
FINE = 10  # the same for parts cut smaller for balance, as a multiple of the time to send and call
MOST_SECONDS = 2.0  # of one part: the work lost if a worker dies
SLACK = 20.0  # multiple of the expected time after which a worker counts as hung
LEAST_SECONDS = 60.0  # but not earlier than this
FIRST_SECONDS = 600.0  # the same for a worker's first part, which may load or compile


@dataclass(slots=True)
class Throughput:
    """Estimates the cost of a part: `fixed + per_position * n` seconds in a worker, `overhead` to send it.

    `fixed` and `per_position` are a line fitted to the latest parts, with decreasing weights. While all parts
    have about the same size, `fixed` does not change; it starts at 0.
    """

    fixed: float = 0.0
    per_position: float = 0.0
    overhead: float = inf
    _weight: float = 0.0
    _n: float = 0.0
    _nn: float = 0.0
    _t: float = 0.0
    _nt: float = 0.0

    @property
    def is_known(self) -> bool:
        """Whether any part has been timed."""
        return self._weight > 0

    def learn(self, n: int, seconds: float, round_trip: float) -> None:
        """Adds the measured times of a part.

        Args:
          n: number of its positions.
          seconds: time of the evaluation in the worker.
          round_trip: time from sending the part to receiving its result.
        """
        self._weight = KEPT * self._weight + 1
        self._n = KEPT * self._n + n
        self._nn = KEPT * self._nn + n * n
        self._t = KEPT * self._t + seconds
        self._nt = KEPT * self._nt + n * seconds
        self.overhead = min(max(round_trip - seconds, 1e-6), 1.02 * self.overhead)  # the recent minimum
        self._fit()

    def _fit(self) -> None:
        mean_n, mean_t = self._n / self._weight, self._t / self._weight
        variance = self._nn / self._weight - mean_n**2
        if variance > (SPREAD * mean_n) ** 2:
            slope = (self._nt / self._weight - mean_n * mean_t) / variance
            self.fixed = min(max(0.0, mean_t - slope * mean_n), mean_t)
        self.per_position = max((mean_t - self.fixed) / mean_n, 1e-9)

    def sizes(self, count: int, workers: int) -> list[int]:
        """Returns the numbers of positions in the parts of a batch, in the order of sending.

        Every worker gets a share if that is faster than one worker alone. Smaller parts let fast workers do
        more than slow ones: large parts go first, small ones last, none so small that its overhead matters.
        If the fixed cost of a call is high, as for a network on a GPU, all shares are equal.

        >>> Throughput().sizes(100, 2)
        [32, 32, 32, 4]
        >>> Throughput(per_position=0.001, overhead=0.001, _weight=1).sizes(100, 2)
        [25, 19, 14, 11, 10, 10, 11]
        >>> Throughput(fixed=0.1, per_position=0.001, overhead=0.001, _weight=1).sizes(100, 2)
        [50, 50]
        """
        if not self.is_known:
            return _equal(count, min(PROBE, ceil(count / workers)))
        worth = max(1, ceil(WORTH * self.overhead / self.per_position))
        share = ceil(count / max(1, min(workers, count // worth)))
        fine = max(1, ceil(FINE * (self.overhead + self.fixed) / self.per_position))
        most = max(fine, int(MOST_SECONDS / self.per_position))
        if 2 * fine >= share:
            return _equal(count, min(share, most))
        found = []
        while count:
            size = min(most, max(fine, ceil(count / (2 * workers))))
            found.append(count if count < size + fine // 2 else size)  # no tiny part at the end
            count -= found[-1]
        return found

    def allowance(self, n: int, *, first: bool) -> float:
        """Returns the seconds after which a worker with a part of n positions counts as hung."""
        least = FIRST_SECONDS if first or not self.is_known else LEAST_SECONDS
        return max(least, SLACK * (self.fixed + self.per_position * n))


def _equal(count: int, size: int) -> list[int]:
    return [min(size, count - begin) for begin in range(0, count, size)]


Make = Callable[[], Evaluator]


@dataclass(frozen=True, slots=True)
class PartEvaluation:
    """The evaluation of a part.

    Attributes:
      wdl: `[n, 3]` float32. priors: `[m]` float32. seconds: time of the evaluation.
      identity: of the evaluator, as JSON. place: host name and process of the worker.
    """

    wdl: NDArray[np.float32]
    priors: NDArray[np.float32]
    seconds: float
    identity: str
    place: str


def serve(make: Make, pipe: Pipe) -> None:
    """Main function of a worker: makes the evaluator, then evaluates the parts from a pipe."""
    place = own_place()
    try:
        evaluator = make()
        identity = evaluator.identity.as_json()
    except BaseException as error:  # SystemExit too: the caller needs the reason
        pipe.send(failure_of(error, place))
        return
    pipe.send(Ready(place, identity, evaluator.notes, evaluator.wants_lines, evaluator.batch_size))
    while not isinstance(part := pipe.recv(), Leave):
        try:
            found, seconds = timed(evaluator, part)
            pipe.send(PartEvaluation(found.wdl, found.priors, seconds, identity, place))
        except BaseException as error:
            pipe.send(failure_of(error, place))
    evaluator.close()


def timed(evaluator: Evaluator, batch: PositionBatch) -> tuple[Evaluation, float]:
    """Returns the evaluation of a batch, WDL and priors as float32, and its time in seconds.

    Until the evaluator's kernels are compiled, only one process of a machine evaluates at a time.
    """
    purpose = f"pool-{evaluator.identity.kind}"
    with compiled_once(purpose) if evaluator.calls_kernels else nullcontext():
        begin = time.perf_counter()
        found = evaluator.evaluate(batch)
        seconds = time.perf_counter() - begin
    wdl, priors = np.asarray(found.wdl, np.float32), np.asarray(found.priors, np.float32)
    return Evaluation(wdl, priors, found.bounds), seconds


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
