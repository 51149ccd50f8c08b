"""Evaluators inside the kernels: each has a batch kernel, which the search calls by address.

A batch kernel is `evaluate_batch` of a separate module, so only kernels in use are compiled. Several threads
evaluate portions of a batch at once; results do not depend on the number of threads.

    caller     begin | gathers the next wave | portion 5 | portion 7 | take it
    thread 1   ----- portion 0 | portion 2 | portion 4 | portion 6 |
    thread 2   ----- portion 1 | portion 3 ------------|
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.system import cores
from ..jit.compiler import Bound, bind
from ..jit.types import apart
from ..position.tables import load_tables
from .batch_kernel import BEGIN, END
from .protocol import EXTERNAL, Evaluation, Evaluator, PositionBatch

Work = Callable[[int], None]  # called with the number of a portion


class BatchTask:
    """The portions of one batch in progress: of other threads, and of the one that waits for the result."""

    def __init__(self, work: Work, portions: int, threads: ThreadPoolExecutor, helpers: int) -> None:
        """Starts to work on the portions with some helping threads."""
        self._work = work
        self._portions = iter(range(portions))  # shared: each portion goes to one thread
        self._helpers = [threads.submit(self._work_off) for _ in range(min(helpers, portions))]

    def _work_off(self) -> None:
        try:
            for portion in self._portions:
                self._work(portion)
        except BaseException:
            self._drop()
            raise

    def result(self) -> None:
        """Works on portions, then waits until all are done; raises the error of a failed portion."""
        try:
            self._work_off()
        finally:
            started = self._join()
        for helper in started:
            helper.result()

    def cancel(self) -> None:
        """Drops the portions that have not started, and waits for the other threads."""
        self._drop()
        self._join()

    def _drop(self) -> None:
        for _ in self._portions:
            pass

    def _join(self) -> list[Future[None]]:
        """Waits for the helpers that have started, and returns them; the others are not needed any more."""
        started = [helper for helper in self._helpers if not helper.cancel()]
        wait(started)
        return started


class EvaluationThreads:
    """A team of `count` threads, including the caller's. The first task starts them, `close` ends them.

    In a process forked after the start, the caller does all work itself.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        # kernels that run as plain Python compute hashes, which wrap around
        start = partial(np.seterr, over="ignore")
        self._threads = ThreadPoolExecutor(max(1, count - 1), "graphsearch-evaluation", start)

    def begin(self, work: Work, portions: int) -> BatchTask:
        """Starts a task on the threads and returns it; `work` is called with the number of each portion."""
        return BatchTask(work, portions, self._threads, self.count - 1)

    def close(self) -> None:
        """Ends the threads after their current portions. A second call does nothing."""
        self._threads.shutdown()


PORTION = 8  # positions in a portion; a batch of 256 has 32 portions, and taking one costs 4 us


class BatchKernel(NamedTuple):
    """A kernel that evaluates positions, and the size of its work area.

    Attributes:
      call: `evaluate_batch(T, weights, positions, moves, offsets, values, priors, scratch, temperature,
        begin, end)` evaluates the positions from `begin` to `end` (exclusive), each independently of the
        others.
          T: `load_tables()`. weights: of the evaluator. temperature: of the priors, float64 (`temper`).
          positions: uint64[B * 10]. moves: uint16[M], the legal moves of all positions in turn.
          offsets: int64[B + 1], start of each position's moves.
          values: float32[2 * B] out: Q in [-1, 1] and the draw probability in [0, 1 - |Q|].
          priors: float32[M] out; sums to 1 over each position's moves.
          scratch: uint64[scratch_words], work area.
      scratch_words: size of the work area; each thread has its own.
    """

    call: Any
    scratch_words: int


class BatchArrays(NamedTuple):
    """Positions and output buffers of a batch kernel, as `BatchKernel.call` requires them."""

    positions: NDArray[np.uint64]
    moves: NDArray[np.uint16]
    offsets: NDArray[np.int64]
    values: NDArray[np.float32]
    priors: NDArray[np.float32]

    @classmethod
    def of(cls, batch: PositionBatch) -> BatchArrays:
        """Returns arrays with the positions of a batch and empty outputs."""
        values, priors = np.zeros(2 * len(batch), np.float32), np.zeros(len(batch.moves), np.float32)
        words = np.ascontiguousarray(batch.words, np.uint64).reshape(-1)
        moves = np.ascontiguousarray(batch.moves, np.uint16)
        return cls(words, moves, np.ascontiguousarray(batch.offsets, np.int64), values, priors)


class KernelEvaluator(Evaluator):
    """An evaluator inside the kernels, with `identity`, `kernel_kind` and `batch_kernel` of its own.

    Attributes:
      threads: number of threads that evaluate and search, 0 for all cores. Set it before the first use.
    """

    threads: int = 0
    batch_size = 1  # in the kernels a batch does not make a position cheaper

    @property
    @abstractmethod
    def batch_kernel(self) -> BatchKernel:
        """Its kernel, imported on access."""

    @property
    def purpose(self) -> str:
        """The name under which compiling its kernel is announced and marked as done."""
        return f"{self.identity.kind} evaluation"

    @cached_property
    def team(self) -> EvaluationThreads:
        """Its threads."""
        return EvaluationThreads(self.threads or cores())

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors from its kernel; bit for bit the same as in a search."""
        arrays = BatchArrays.of(batch)
        Filler(self, arrays).begin(len(batch)).result()
        return Evaluation(wdl_of(arrays.values), arrays.priors, q=arrays.values[::2])

    def close(self) -> None:
        """Ends its threads; a later use starts others."""
        self.team.close()
        del self.team


class Filler:
    """Evaluates the positions in fixed arrays, which the caller refills and reuses.

    Attributes:
      call: the kernel, bound to the arrays, for the caller's thread.
    """

    def __init__(self, evaluator: KernelEvaluator, arrays: BatchArrays) -> None:
        self._evaluator, self._arrays = evaluator, arrays
        self.call = self._new_call()
        self._calls: dict[int, Bound] = {threading.get_ident(): self.call}  # by thread
        self._count = 0

    def begin(self, count: int) -> BatchTask:
        """Starts a task that evaluates the first `count` positions, and returns it; one task at a time."""
        self._count = count
        return self._evaluator.team.begin(self._fill, -(-count // PORTION))

    def _new_call(self) -> Bound:
        evaluator, kernel = self._evaluator, self._evaluator.batch_kernel
        scratch = apart(kernel.scratch_words, np.uint64)
        fixed = load_tables(), evaluator.weights, *self._arrays, scratch, float(evaluator.temperature)
        return bind(kernel.call, *fixed, 0, 0)

    def _fill(self, portion: int) -> None:
        thread = threading.get_ident()
        call = self._calls.get(thread) or self._calls.setdefault(thread, self._new_call())
        begin = portion * PORTION
        call.words[BEGIN], call.words[END] = begin, min(begin + PORTION, self._count)
        call.run()


def wdl_of(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns win, draw and loss, `[B, 3]`, from pairs of Q and draw probability, `[2 * B]`.

    >>> wdl_of(np.array([0.5, 0.25], np.float32)).tolist()
    [[0.625, 0.25, 0.125]]
    """
    q, draw = values.reshape(-1, 2).T
    return np.stack([np.maximum(1 - draw + q, 0) / 2, draw, np.maximum(1 - draw - q, 0) / 2], axis=1)


OUTSIDE = "outside"  # purpose of the kernels that a search needs for evaluators outside the kernels


def inside(evaluator: Evaluator) -> KernelEvaluator | None:
    """Returns the evaluator if the search can call its kernel directly, else None."""
    if isinstance(evaluator, KernelEvaluator) and evaluator.kernel_kind != EXTERNAL:
        return evaluator
    return None


def purpose_of(evaluator: Evaluator) -> str:
    """Returns the purpose whose kernels a search compiles beside its own: the evaluator's, or `OUTSIDE`."""
    kernel = inside(evaluator)
    return kernel.purpose if kernel else OUTSIDE
