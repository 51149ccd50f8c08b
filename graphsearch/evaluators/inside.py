"""Evaluators inside the kernels: each names one batch kernel, which the search calls by address.

A batch kernel is `evaluate_batch` of a module of its own, so that only what is in use is compiled.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..position.tables import load_tables
from .kinds import EXTERNAL
from .protocol import NO_WEIGHTS, Evaluation, Evaluator, PositionBatch


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
      scratch_words: its working memory. Two threads must not share it.
    """

    call: Any
    scratch_words: int

    def new_scratch(self) -> NDArray[np.uint64]:
        """Returns working memory for one thread."""
        return np.zeros(self.scratch_words, np.uint64)


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
    """

    @property
    def purpose(self) -> str:
        """What compiling its kernel is announced as, and marked done as."""
        return f"{self.identity.kind} evaluation"

    @property
    @abstractmethod
    def batch_kernel(self) -> BatchKernel:
        """Its kernel, imported when it is asked for."""

    def arguments(self, arrays: BatchArrays, scratch: NDArray[np.uint64]) -> tuple[Any, ...]:
        """Returns what `batch_kernel.call` takes before `begin` and `end`."""
        return load_tables(), self.weights, *arrays, scratch, float(self.temperature)

    def fill(self, arrays: BatchArrays, count: int) -> None:
        """Evaluates the first positions of some arrays."""
        kernel = self.batch_kernel
        kernel.call(*self.arguments(arrays, kernel.new_scratch()), 0, count)

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors, computed by its kernel: the same as in a search, bit for bit."""
        arrays = BatchArrays.of(batch)
        self.fill(arrays, len(batch))
        return Evaluation(wdl_of(arrays.values), arrays.priors)


def wdl_of(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns `[B, 3]` win, draw and loss of Q and the chance of a draw, `[2 * B]`.

    >>> wdl_of(np.array([0.5, 0.25], np.float32)).tolist()
    [[0.625, 0.25, 0.125]]
    """
    q, draw = values.reshape(-1, 2).T
    return np.stack([(1 - draw + q) / 2, draw, (1 - draw - q) / 2], axis=1)


def inside(evaluator: Evaluator) -> KernelEvaluator | None:
    """Returns an evaluator whose kernel the search calls itself; None for one that it has to ask."""
    if isinstance(evaluator, KernelEvaluator) and evaluator.kernel_kind != EXTERNAL:
        return evaluator
    return None


def compile_batch_kernel(call: Any) -> None:
    """Compiles a batch kernel, by evaluating no position."""
    arrays = BatchArrays.of(PositionBatch.from_boards([]))
    call(load_tables(), NO_WEIGHTS, *arrays, np.zeros(1, np.uint64), 1.0, 0, 0)
