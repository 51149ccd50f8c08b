"""A worker's evaluator: evaluates its leased positions, and gets the results of the other workers."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TypeVar

import chess
import numpy as np
from numpy.typing import NDArray

from ...base.errors import EvaluatorError
from ...evaluators.pool import Throughput, timed
from ...evaluators.protocol import Evaluation, Evaluator, PositionBatch, checked
from ...workers.messages import ask
from ...workers.process import Pipe
from .messages import GetUpdates, LeaseReply, LeaseRequest, Publish, ReleaseLeases, Updates

PIECE_SECONDS = 2.0  # of evaluations per publication: the loss with a worker, and the wait of others
GONE = "the process that shares out positions is gone"
T = TypeVar("T")


class SharedEvaluator(Evaluator):
    """An evaluator that shares its positions with other processes.

    Attributes:
      paid: number of positions evaluated here.
    """

    def __init__(self, inner: Evaluator, ledger: Pipe) -> None:
        self.inner = inner
        self.identity = inner.identity
        self.notes = inner.notes
        self.wants_lines = inner.wants_lines
        self.paid = 0
        self._ledger = ledger
        self._throughput = Throughput()
        self._speaking = threading.Lock()

    @property
    def calls_kernels(self) -> bool:
        """Whether the inner evaluator calls kernels."""
        return self.inner.calls_kernels

    def best_moves(self, board: chess.Board) -> list[chess.Move] | None:
        """Returns the best moves by tablebases, None without tablebases or an entry."""
        return self.inner.best_moves(board)

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position, from the worker that evaluated it.

        Raises:
          EvaluatorError: if the evaluator fails, or the other process has ended.
        """
        found = _Found(batch)
        left = np.arange(len(batch))
        waits = False
        while len(left):
            answers = self._ask(LeaseRequest(batch.words[left], waits), LeaseReply)
            found.take(left[answers.known], answers.evaluation)
            self._evaluate(batch, left[answers.mine], found)
            is_open = ~answers.mine
            is_open[answers.known] = False
            left, waits = left[is_open], True
        return found.evaluation()

    def close(self) -> None:
        """Closes the inner evaluator."""
        self.inner.close()

    # ---------------------------------------------------------- the ledger
    def catch_up(self) -> Updates:
        """Returns the records that others have saved since the last call.

        Raises:
          EvaluatorError: if the other process has ended.
        """
        return self._ask(GetUpdates(), Updates)

    def _ask(self, message: LeaseRequest | GetUpdates, kind: type[T]) -> T:
        with self._speaking:
            return ask(self._ledger, message, kind, EvaluatorError(GONE))

    def _send(self, message: Publish | ReleaseLeases) -> None:
        try:
            with self._speaking:
                self._ledger.send(message)
        except OSError as error:
            raise EvaluatorError(GONE) from error

    # ---------------------------------------------------------- evaluating
    def _evaluate(self, batch: PositionBatch, rows: NDArray[np.int64], found: _Found) -> None:
        """Evaluates positions in pieces, and publishes each piece when it is done."""
        size = self._piece(len(rows))
        for first in range(0, len(rows), size):
            piece = rows[first : first + size]
            try:
                evaluated = self._evaluated(batch, piece)
            except BaseException:
                self._send(ReleaseLeases(batch.words[rows[first:]]))
                raise
            self.paid += len(piece)
            self._send(evaluated)
            found.take(piece, evaluated.evaluation)

    def _piece(self, count: int) -> int:
        """Returns the number of positions per piece: all, unless that takes too long."""
        if not self._throughput.is_known:
            return max(1, count)
        return max(1, min(count, int(PIECE_SECONDS / self._throughput.per_position)))

    def _evaluated(self, batch: PositionBatch, rows: NDArray[np.int64]) -> Publish:
        """Returns the checked evaluation of some positions by the inner evaluator."""
        chosen = np.zeros(len(batch), bool)
        chosen[rows] = True
        part = batch.rows(chosen)
        found, seconds = timed(self.inner, part)
        checked(part, found)  # the search checks it again, but a wrong result must not be published
        self._throughput.learn(len(part), seconds, seconds)
        bounds = None if found.bounds is None else np.asarray(found.bounds, np.int8)
        return Publish(replace(part, lines=None), replace(found, bounds=bounds), seconds)


class _Found:
    """The evaluation of a batch, filled row by row."""

    def __init__(self, batch: PositionBatch) -> None:
        self._offsets = batch.offsets
        self._wdl = np.zeros((len(batch), 3), np.float32)
        self._priors = np.zeros(len(batch.moves), np.float32)
        self._bounds = np.tile(np.array([-1, 1], np.int8), (len(batch), 1))
        self._is_proven = False

    def take(self, rows: NDArray[np.int64], found: Evaluation) -> None:
        """Sets the evaluation of some rows, in ascending order."""
        if not len(rows):
            return
        chosen = np.zeros(len(self._wdl), bool)
        chosen[rows] = True
        self._wdl[rows] = found.wdl
        self._priors[np.repeat(chosen, np.diff(self._offsets))] = found.priors
        if found.bounds is not None:
            self._bounds[rows] = found.bounds
            self._is_proven = True

    def evaluation(self) -> Evaluation:
        return Evaluation(self._wdl, self._priors, self._bounds if self._is_proven else None)
