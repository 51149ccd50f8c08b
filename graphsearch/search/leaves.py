"""Evaluates the leaves of waves: by threads if the evaluator is a kernel, else by one thread that calls it.

One wave at a time is being evaluated. Meanwhile only the evaluator writes the wave's values and priors, and
no thread writes the arena.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from ..evaluators.inside import BatchArrays, BatchTask, Filler, inside
from ..evaluators.lines import Lines
from ..evaluators.protocol import UNIFORM, Evaluator, PositionBatch
from ..evaluators.protocol import answer as ask
from ..store.record.node import flags_of
from . import lines_kernel
from . import wave_kernel as wave

THREAD_FROM = 16  # leaves of the smallest batch that is worth a thread
OVERLAP_FROM = 64  # the same if the evaluator is inside the kernels
Answer = Future[None] | BatchTask


class LeafEvaluation:
    """Evaluates the leaves of one search's waves.

    Attributes:
      kernel: the evaluator if it is inside the kernels, else None.
      answered: leaves last evaluated at once, or by a slice of waves, and their seconds.
    """

    def __init__(self, evaluator: Evaluator, game: Sequence[NDArray[np.uint64]]) -> None:
        """Begins without a wave.

        Args:
          game: packed positions before the root, the latest first, for an evaluator that needs lines.
        """
        self.kernel = inside(evaluator)
        self.answered = (0, 0.0)
        self._evaluator = evaluator
        self._game = np.concatenate([*game, np.zeros(1, np.uint64)])  # never empty: kernels point to it
        self._game_length = len(game)
        self._fillers: dict[int, Filler] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._sent = (0, 0.0)

    @property
    def is_uniform(self) -> bool:
        """Whether the evaluator is `uniform`, so that there is nothing to wait for."""
        return self._evaluator.kernel_kind == UNIFORM

    def may_overlap(self, batch: int) -> bool:
        """Returns whether the next wave is worth gathering while one of `batch` leaves is being evaluated."""
        if self.kernel is None:
            return batch >= THREAD_FROM
        return batch >= OVERLAP_FROM and not self.is_uniform

    @property
    def has_helpers(self) -> bool:
        """Whether other threads evaluate inside the kernels, too; a batch of `uniform` is too little work."""
        return self.kernel is not None and not self.is_uniform and self.kernel.team.count > 1

    def filler(self, w: wave.WaveArrays) -> Filler:
        """Returns the kernel that evaluates the leaves of a wave; the caller must keep the wave alive."""
        assert self.kernel is not None
        found = self._fillers.get(id(w.values))
        return found or self._fillers.setdefault(id(w.values), Filler(self.kernel, leaves_of(w)))

    def begin(self, w: wave.WaveArrays, leaves: int) -> Answer:
        """Starts evaluating the leaves of a wave in other threads; `receive` waits for them."""
        self._sent = leaves, time.monotonic()
        if self.kernel:
            return self.filler(w).begin(leaves)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "graphsearch-evaluator")
        return self._thread.submit(self._ask, w, leaves)

    def receive(self, answer: Answer) -> None:
        """Waits until all leaves are evaluated; helps if it can.

        Raises:
          EvaluatorError: if the evaluator fails.
        """
        answer.result()
        if self.kernel:
            leaves, sent = self._sent
            self.answered = leaves, time.monotonic() - sent

    def evaluate(self, w: wave.WaveArrays, leaves: int) -> None:
        """Evaluates the leaves of a wave at once; raises `EvaluatorError` if that fails."""
        if self.kernel:
            self.receive(self.begin(w, leaves))
        else:
            self._ask(w, leaves)

    def close(self, answer: Answer | None) -> None:
        """Ends the evaluator's thread; cancels the pending evaluation."""
        if isinstance(answer, BatchTask):
            answer.cancel()
        if self._thread:
            self._thread.shutdown(wait=True, cancel_futures=True)  # an evaluator has one caller at a time

    def _ask(self, w: wave.WaveArrays, leaves: int) -> None:
        offsets = w.offsets[: leaves + 1]
        count = int(offsets[-1])
        batch = PositionBatch(
            w.leaf_words[: 10 * leaves].reshape(leaves, 10).copy(),
            w.moves[:count].copy(),
            offsets.copy(),
            self._lines(w, leaves) if self._evaluator.wants_lines else None,
        )
        begin = time.monotonic()
        answer = ask(self._evaluator, batch)
        self.answered = leaves, time.monotonic() - begin
        w.priors[:count] = answer.priors
        w.values[0 : 2 * leaves : 2] = answer.wdl[:, 0] - answer.wdl[:, 2]
        w.values[1 : 2 * leaves : 2] = answer.wdl[:, 1]
        w.leaf_flags[:leaves] = wave.UNPROVEN_FLAGS if answer.bounds is None else flags_of(answer.bounds)

    def _lines(self, w: wave.WaveArrays, leaves: int) -> Lines:
        lines = Lines.unknown(leaves)
        words, repeated = lines.words.reshape(-1), lines.repeated.reshape(-1)
        lines_kernel.trace_lines(
            w.entries, w.leaf_entry, leaves, self._game, self._game_length, words, repeated
        )
        return lines


def leaves_of(w: wave.WaveArrays) -> BatchArrays:
    """Returns the leaves of a wave as the arrays of a batch kernel."""
    return BatchArrays(w.leaf_words, w.moves, w.offsets, w.values, w.priors)
