"""Evaluators inside the kernels: each has a batch kernel, which the search calls by address.

A batch kernel is `evaluate_batch` of a separate module, so only kernels in use are compiled. Several threads
evaluate portions of a batch at once; results do not depend on the number of threads.

    caller     begin | gathers the next wave | portion 5 | portion 7 | take it
    thread 1   ----- portion 0 | portion 2 | portion 4 | portion 6 |
    thread 2   ----- portion 1 | portion 3 ------------|
"""

from __future__ import annotations

import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.system import cores
from ..jit.apart import apart
from ..jit.compiler import Call
from ..position.tables import load_tables
from .batch_kernel import BEGIN, END
from .protocol import EXTERNAL, NO_WEIGHTS, Evaluation, Evaluator, PositionBatch

Work = Callable[[int, int], None]  # called with the numbers of a portion and of the thread


class BatchTask:
    """The portions of one batch in progress."""

    def __init__(self, work: Work, portions: int) -> None:
        """Makes a task without working on it yet."""
        self._work = work
        self._portions = iter(range(portions))  # shared: each portion goes to one thread
        self._open, self._helpers = portions, 0  # portions not yet done, threads in `help`
        self._changed = threading.Condition()
        self._error: BaseException | None = None

    def help(self, thread: int) -> None:
        """Works on portions until none is left to start; for threads other than the caller's."""
        self._count(helpers=1)
        try:
            self._work_off(thread)
        finally:
            self._count(helpers=-1)

    def _work_off(self, thread: int) -> None:
        for portion in self._portions:
            try:
                self._work(portion, thread)
            except BaseException as error:
                self._error = self._error or error
                self._drop()
            self._count(done=1)

    def done(self) -> bool:
        """Returns whether all portions are done."""
        return not self._open

    def result(self) -> None:
        """Works on portions, then waits until all are done; raises the error of the first failed portion."""
        self._work_off(0)
        with self._changed:
            self._changed.wait_for(self.done)
        if self._error:
            raise self._error

    def cancel(self) -> None:
        """Drops the portions that have not started, and waits for the other threads.

        It does not wait until all are done: Ctrl-C may have interrupted the caller after taking a portion.
        """
        self._drop()
        with self._changed:
            self._changed.wait_for(lambda: not self._helpers)

    def _count(self, *, done: int = 0, helpers: int = 0) -> None:
        with self._changed:
            self._open -= done
            self._helpers += helpers
            self._changed.notify_all()

    def _drop(self) -> None:
        self._count(done=sum(1 for _ in self._portions))


class EvaluationThreads:
    """A team of threads, including the caller's. The first task starts them, `close` ends them.

    In a process forked after the start, the caller does all work itself.

    Attributes:
      count: number of threads, including the caller's.
    """

    def __init__(self, count: int) -> None:
        """Makes a team of `count` threads, at least 1, including the caller's; starts none yet."""
        self.count = count
        self._tasks: SimpleQueue[BatchTask | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._finalizer = weakref.finalize(self, _end, self._tasks, self._threads)

    def begin(self, work: Work, portions: int) -> BatchTask:
        """Starts a task on the threads and returns it; `BatchTask.result` works on it, too.

        Args:
          work: called on any thread with the number of a portion and of the thread, which is below `count`
            and 0 for the caller's. Concurrent calls have different thread numbers.
          portions: number of portions.
        """
        task = BatchTask(work, portions)
        if not self._threads and self._finalizer.alive:
            self._start()
        for _ in self._threads[:portions]:
            self._tasks.put(task)
        return task

    def close(self) -> None:
        """Ends the threads after their current portions. A second call does nothing."""
        self._finalizer()

    def _start(self) -> None:
        for number in range(1, self.count):
            name = f"graphsearch-evaluation-{number}"
            thread = threading.Thread(target=_serve, args=(self._tasks, number), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)


def _serve(tasks: SimpleQueue[BatchTask | None], number: int) -> None:
    np.seterr(over="ignore")  # for kernels that run as plain Python: hashes wrap around
    while (task := tasks.get()) is not None:
        task.help(number)
        del task  # it refers to the evaluator


def _end(tasks: SimpleQueue[BatchTask | None], threads: list[threading.Thread]) -> None:
    for _ in threads:
        tasks.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join()
    threads.clear()


PORTION = 8  # positions in a portion; a batch of 256 has 32 portions, and taking one costs 4 us


@dataclass(frozen=True, slots=True)
class BatchKernel:
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
        return cls(
            np.ascontiguousarray(batch.words, np.uint64).reshape(-1),
            np.ascontiguousarray(batch.moves, np.uint16),
            np.ascontiguousarray(batch.offsets, np.int64),
            np.zeros(2 * len(batch), np.float32),
            np.zeros(len(batch.moves), np.float32),
        )


class KernelEvaluator(Evaluator):
    """An evaluator inside the kernels.

    A subclass defines `identity`, `kernel_kind` and `batch_kernel`, and `weights` and `temperature` if it has
    any.

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
        return Evaluation(wdl_of(arrays.values), arrays.priors)

    def close(self) -> None:
        """Ends its threads."""
        self.team.close()


class Filler:
    """Evaluates the positions in fixed arrays, which the caller refills and reuses.

    Attributes:
      call: the kernel, bound to the arrays, for the caller's thread.
    """

    def __init__(self, evaluator: KernelEvaluator, arrays: BatchArrays) -> None:
        """Binds the evaluator to the arrays."""
        self._evaluator = evaluator
        self._arrays = arrays
        self.call = self._new_call()
        self._calls: dict[int, Call] = {0: self.call}  # by thread
        self._count = 0

    def begin(self, count: int) -> BatchTask:
        """Starts a task that evaluates the first `count` positions, and returns it; one task at a time."""
        self._count = count
        return self._evaluator.team.begin(self._fill, -(-count // PORTION))

    def _new_call(self) -> Call:
        evaluator, kernel = self._evaluator, self._evaluator.batch_kernel
        scratch = apart(kernel.scratch_words, np.uint64)
        fixed = load_tables(), evaluator.weights, *self._arrays, scratch, float(evaluator.temperature)
        return Call(kernel.call, *fixed, 0, 0)

    def _fill(self, portion: int, thread: int) -> None:
        call = self._calls.get(thread) or self._calls.setdefault(thread, self._new_call())
        begin = portion * PORTION
        call.bound.words[BEGIN] = begin
        call.bound.words[END] = min(begin + PORTION, self._count)
        call()


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


def compile_batch_kernel(call: Any) -> None:
    """Compiles a batch kernel by calling it without positions."""
    arrays = BatchArrays.of(PositionBatch.from_boards([]))
    call(load_tables(), NO_WEIGHTS, *arrays, np.zeros(1, np.uint64), 1.0, 0, 0)
