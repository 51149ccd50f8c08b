"""An evaluator that runs in worker processes, on one or several machines."""

from __future__ import annotations

import pickle
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import ceil, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import EvaluatorError, InvalidParameterError
from ..position.board import fen_of, unpack
from ..store.record.provenance import EvaluatorIdentity
from ..workers.calls import own_place
from ..workers.executor import LOCAL, workers_for
from .option_values import MAX_WORKERS
from .protocol import OUTSIDE_BATCH, Evaluation, Evaluator, PositionBatch

LEAVING_SECONDS = 5.0  # for workers to close their evaluators
Make = Callable[[], Evaluator]


# ---------------------------------------------------------- in a worker
@dataclass(frozen=True, slots=True)
class Description:
    """An evaluator, and where it is.

    Attributes:
      identity: as JSON; all workers must have the same. place: host name and process, for messages.
      notes: for the user. wants_lines: whether it wants the moves before a position.
      batch_size: the smallest batch that keeps it busy.
    """

    identity: str
    place: str
    notes: tuple[str, ...]
    wants_lines: bool
    batch_size: int


@dataclass(frozen=True, slots=True)
class PartEvaluation:
    """The evaluation of a part of a batch.

    Attributes:
      wdl: `[n, 3]` float32. priors: `[m]` float32. seconds: time of the evaluation.
      is_first: whether it is the first of its process, which includes compiling.
      identity, place: as in `Description`.
    """

    wdl: NDArray[np.float32]
    priors: NDArray[np.float32]
    seconds: float
    is_first: bool
    identity: str
    place: str


_evaluators: dict[bytes, Evaluator] = {}  # of this worker process, by how they are made
_evaluated: set[bytes] = set()  # those that have evaluated a part


def evaluator_of(make: Make) -> Evaluator:
    """Returns the evaluator of this worker process; it is made once."""
    key = pickle.dumps(make)
    if key not in _evaluators:
        _evaluators[key] = make()
    return _evaluators[key]


def close_evaluators() -> None:
    """Closes the evaluators of this worker process."""
    while _evaluators:
        _evaluators.popitem()[1].close()


def describe(make: Make) -> Description:
    """Returns the description of this process's evaluator."""
    made = evaluator_of(make)
    return Description(made.identity.as_json(), own_place(), made.notes, made.wants_lines, made.batch_size)


def evaluate_part(make: Make, part: PositionBatch) -> PartEvaluation:
    """Returns the evaluation of a part by this process's evaluator."""
    evaluator = evaluator_of(make)
    found, seconds = timed(evaluator, part)
    key = pickle.dumps(make)
    is_first = key not in _evaluated
    _evaluated.add(key)
    identity = evaluator.identity.as_json()
    return PartEvaluation(found.wdl, found.priors, seconds, is_first, identity, own_place())


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


# ---------------------------------------------------------- in the process that searches
class Crew:
    """Workers that have the same evaluator.

    Attributes:
      workers: their executor. make: returns the evaluator.
    """

    def __init__(self, make: Make, workers: int, pool: str | None, *, cpus: int = 1) -> None:
        """Starts the workers; `PooledEvaluator` describes the arguments, and the errors."""
        check_make(make, workers)
        self.make = make
        self._first: Description | None = None
        self.workers = workers_for(pool, workers, cpus=cpus, begin=partial(describe, make), check=self.check)

    def start(self) -> Description:
        """Returns the description of the evaluator, when the first worker is ready."""
        self.workers.start()
        found: Description = self.workers.give(partial(describe, self.make)).result()
        return found

    def check(self, found: Description | PartEvaluation) -> None:
        """Raises EvaluatorError unless a worker's evaluator is that of the first one."""
        first = self._first
        if first is None and isinstance(found, Description):
            self._first = found
        elif first is not None and found.identity != first.identity:
            raise EvaluatorError(
                f"the workers' evaluators differ: {found.identity} ({found.place}), but {first.identity}"
                f" ({first.place}); give all workers the same files and versions"
            )

    def leave(self) -> None:
        """Ends all workers; calls fail. Safe to call from any thread, and more than once."""
        self.workers.close(last=close_evaluators, seconds=LEAVING_SECONDS)


def check_make(make: Make, workers: int) -> None:
    """Checks the number of workers, and that they can be sent the function that makes their evaluator.

    Raises:
      InvalidParameterError, EvaluatorError: if not.
    """
    if not 1 <= workers <= MAX_WORKERS:
        raise InvalidParameterError(f"workers must be from 1 to {MAX_WORKERS}, not {workers}")
    try:
        pickle.dumps(make)
    except Exception as error:
        raise EvaluatorError(
            f"the function that makes the evaluator cannot be sent to a worker: {error}"
        ) from None


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
        if timeout is not None and not timeout > 0:
            raise InvalidParameterError(f"timeout must be above 0 seconds, not {timeout}")
        if cpus < 1:
            raise InvalidParameterError(f"cpus must be at least 1, not {cpus}")
        self._crew = Crew(make, workers, pool, cpus=cpus)
        self._finalizer = weakref.finalize(self, self._crew.leave)
        self._timeout, self._throughput = timeout, Throughput()
        try:
            found = self._crew.start()
        except BaseException:
            self.close()
            raise
        self.workers, self.pool = workers, pool
        self.identity = EvaluatorIdentity.from_json(found.identity)
        self.notes = found.notes
        self.wants_lines = found.wants_lines
        self.batch_size = workers * max(OUTSIDE_BATCH, found.batch_size)

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position.

        Raises:
          EvaluatorError: if the evaluator fails, returns a wrong shape, or three workers die over one part;
            or if no worker starts, or the pool is closed.
        """
        sizes = self._throughput.sizes(len(batch), self.workers) if len(batch) else []
        ends = np.cumsum([0, *sizes]).tolist()
        found = Evaluation(np.empty((len(batch), 3), np.float32), np.empty(len(batch.moves), np.float32))
        parts = [_Part(batch, begin, end) for begin, end in pairwise(ends)]
        pending = {self._given(part): part for part in parts}
        try:
            while pending:
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    self._take(pending.pop(future), future.result(), found)
        finally:
            for future in pending:
                future.cancel()
        return found

    def _given(self, part: _Part) -> Future[Any]:
        call = partial(evaluate_part, self._crew.make, part.positions)
        return self._crew.workers.give(call, seconds=partial(self._allowance, len(part)), name=str(part))

    def _allowance(self, count: int, first: bool) -> float:
        """Returns the seconds after which a worker with so many positions counts as hung."""
        return self._timeout or self._throughput.allowance(count, first=first)

    def _take(self, part: _Part, answer: PartEvaluation, found: Evaluation) -> None:
        """Copies the evaluation of a part to its place."""
        self._crew.check(answer)
        if not answer.is_first:
            self._throughput.learn(len(part), answer.seconds, time.monotonic() - part.since)
        first, last = part.moves
        if answer.wdl.shape != (len(part), 3) or answer.priors.shape != (last - first,):
            raise EvaluatorError(
                f"the evaluator answered {answer.wdl.shape} values and {answer.priors.shape} priors to"
                f" {len(part)} positions with {last - first} moves"
            )
        found.wdl[part.begin : part.end] = answer.wdl
        found.priors[first:last] = answer.priors

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


@dataclass(frozen=True, slots=True)
class _Part:
    """The positions of a batch from `begin` to `end` (exclusive), for one worker, since a time."""

    batch: PositionBatch
    begin: int
    end: int
    since: float = field(default_factory=time.monotonic)

    def __len__(self) -> int:
        return self.end - self.begin

    def __str__(self) -> str:
        first = unpack(self.batch.words[self.begin].tolist())
        return f"a part of {len(self)} positions that begins with {fen_of(first)}"

    @property
    def positions(self) -> PositionBatch:
        """The part as a batch of its own."""
        return self.batch.part(self.begin, self.end)

    @property
    def moves(self) -> tuple[int, int]:
        """The first of its moves in the batch, and the end."""
        return int(self.batch.offsets[self.begin]), int(self.batch.offsets[self.end])


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
