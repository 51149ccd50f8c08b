"""Evaluators inside the kernels: each names one batch kernel, which the search calls by address.

A batch kernel is `evaluate_batch` of a module of its own, so that only what is in use is compiled. Several
threads evaluate portions of a batch at once; the answers do not depend on their number.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import Call
from ..position.tables import load_tables
from ..workers.process import cores_per_worker
from .batch_kernel import BEGIN, END
from .kinds import EXTERNAL
from .protocol import NO_WEIGHTS, Evaluation, Evaluator, PositionBatch
from .threads import EvaluationThreads, Job

PORTION = 8  # positions that a thread takes at once; a batch of 256 is 32 of them, and taking one costs 4 us


@dataclass(frozen=True, slots=True)
class BatchKernel:
    """A kernel that evaluates positions, and what it needs.

    Attributes:
      call: `evaluate_batch(T, weights, positions, moves, offsets, values, priors, scratch, temperature,
        begin, end)` evaluates the positions from `begin` to `end`, each by itself: nothing may depend on
        what else is evaluated.
          T: `load_tables()`. weights: of the evaluator. temperature: of the priors, float64 (`temper`).
          positions: uint64[B * 10]. moves: uint16[M], the legal moves of all positions in turn.
          offsets: int64[B + 1], where each position's moves begin.
          values: float32[2 * B] out: Q in [-1, 1] and the chance of a draw in [0, 1 - |Q|].
          priors: float32[M] out; sums to 1 over each position's moves.
          scratch: uint64[scratch_words], holds everything temporary.
      scratch_words: its working memory; each thread has its own.
    """

    call: Any
    scratch_words: int


class BatchArrays(NamedTuple):
    """Positions for a batch kernel and room for what it says of them, as `BatchKernel.call` takes them."""

    positions: NDArray[np.uint64]
    moves: NDArray[np.uint16]
    offsets: NDArray[np.int64]
    values: NDArray[np.float32]
    priors: NDArray[np.float32]

    @classmethod
    def of(cls, batch: PositionBatch) -> BatchArrays:
        """Returns the arrays of a batch."""
        return cls(
            np.ascontiguousarray(batch.words, np.uint64).reshape(-1),
            np.ascontiguousarray(batch.moves, np.uint16),
            np.ascontiguousarray(batch.offsets, np.int64),
            np.zeros(2 * len(batch), np.float32),
            np.zeros(len(batch.moves), np.float32),
        )


class KernelEvaluator(Evaluator):
    """An evaluator inside the kernels.

    A class that names it as its base gives `identity`, `kernel_kind`, `batch_kernel`, and `weights` and
    `temperature` if it has any.

    Attributes:
      threads: how many evaluate at once, 0 for as many as there are cores. To be set before the first use.
    """

    threads: int = 0
    batch_size = 1  # in the kernels one position costs what it costs in a batch

    @property
    @abstractmethod
    def batch_kernel(self) -> BatchKernel:
        """Its kernel, imported when it is asked for."""

    @property
    def purpose(self) -> str:
        """What compiling its kernel is announced as, and marked done as."""
        return f"{self.identity.kind} evaluation"

    @cached_property
    def team(self) -> EvaluationThreads:
        """Its threads."""
        return EvaluationThreads(self.threads or cores_per_worker(1))

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors, computed by its kernel: the same as in a search, bit for bit."""
        arrays = BatchArrays.of(batch)
        Filler(self, arrays).begin(len(batch)).result()
        return Evaluation(wdl_of(arrays.values), arrays.priors)

    def close(self) -> None:
        """Ends its threads."""
        self.team.close()


class Filler:
    """Fills in what an evaluator says of the positions of some arrays, which are used again and again.

    Attributes:
      call: its kernel, bound to the arrays, for the caller's thread.
    """

    def __init__(self, evaluator: KernelEvaluator, arrays: BatchArrays) -> None:
        """Binds the evaluator to the arrays."""
        self._evaluator = evaluator
        self._arrays = arrays
        self.call = self._new_call()
        self._calls: dict[int, Call] = {0: self.call}  # by thread
        self._count = 0

    def begin(self, count: int) -> Job:
        """Returns the job of evaluating the first `count` positions; one at a time."""
        self._count = count
        return self._evaluator.team.begin(self._fill, -(-count // PORTION))

    def _new_call(self) -> Call:
        evaluator, kernel = self._evaluator, self._evaluator.batch_kernel
        scratch = np.zeros(kernel.scratch_words, np.uint64)
        fixed = load_tables(), evaluator.weights, *self._arrays, scratch, float(evaluator.temperature)
        return Call(kernel.call, *fixed, 0, 0)

    def _fill(self, portion: int, thread: int) -> None:
        call = self._calls.get(thread) or self._calls.setdefault(thread, self._new_call())
        begin = portion * PORTION
        call.bound.words[BEGIN] = begin
        call.bound.words[END] = min(begin + PORTION, self._count)
        call()


def wdl_of(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns `[B, 3]` win, draw and loss of Q and the chance of a draw, `[2 * B]`.

    >>> wdl_of(np.array([0.5, 0.25], np.float32)).tolist()
    [[0.625, 0.25, 0.125]]
    """
    q, draw = values.reshape(-1, 2).T
    return np.stack([np.maximum(1 - draw + q, 0) / 2, draw, np.maximum(1 - draw - q, 0) / 2], axis=1)


def inside(evaluator: Evaluator) -> KernelEvaluator | None:
    """Returns an evaluator whose kernel the search calls itself; None for one that it has to ask."""
    if isinstance(evaluator, KernelEvaluator) and evaluator.kernel_kind != EXTERNAL:
        return evaluator
    return None


def compile_batch_kernel(call: Any) -> None:
    """Compiles a batch kernel, by evaluating no position."""
    arrays = BatchArrays.of(PositionBatch.from_boards([]))
    call(load_tables(), NO_WEIGHTS, *arrays, np.zeros(1, np.uint64), 1.0, 0, 0)
