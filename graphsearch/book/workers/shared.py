"""A worker's evaluator: it evaluates what no other worker has, and takes the others' answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import chess
import numpy as np
from numpy.typing import NDArray

from ...errors import EvaluatorError, StoreError
from ...evaluators.kinds import EXTERNAL
from ...evaluators.pool.throughput import Throughput
from ...evaluators.pool.worker import compiled_once
from ...evaluators.protocol import Evaluation, Evaluator, PositionBatch, calls_kernels, checked, close
from ...record.provenance import EvaluatorIdentity
from ...workers import Pipe
from .messages import Answers, Ask, Catchup, GiveBack, News, Publish

PIECE_SECONDS = 2.0  # of evaluations until they are published: what is lost with a worker, and waited for


class SharedEvaluator:
    """An evaluator whose positions several processes share.

    Attributes:
      paid: positions that were evaluated here.
    """

    kernel_kind = EXTERNAL
    temperature = 1.0  # `inner` applies it

    def __init__(self, inner: Evaluator, ledger: Pipe) -> None:
        self.inner = inner
        self.paid = 0
        self._ledger = ledger
        self._throughput = Throughput()
        self._is_compiled = not calls_kernels(inner)
        self._speaking = threading.Lock()

    @property
    def identity(self) -> EvaluatorIdentity:
        """That of the evaluator itself."""
        return self.inner.identity

    def best_moves(self, board: chess.Board) -> list[chess.Move] | None:
        """Returns the moves that tablebases call best, None if there are none or they do not know."""
        best_moves = getattr(self.inner, "best_moves", None)
        found: list[chess.Move] | None = best_moves(board) if best_moves else None
        return found

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position, by whichever worker evaluated it.

        Raises:
          EvaluatorError: if the evaluator fails, or the other processes are gone.
        """
        found = _Found(batch)
        left = np.arange(len(batch))
        waits = False
        while len(left):
            answers = self._ask(batch.words[left], waits)
            found.take(left[answers.known], answers.wdl, answers.priors, answers.bounds)
            self._evaluate(batch, left[answers.mine], found)
            is_open = ~answers.mine
            is_open[answers.known] = False
            left, waits = left[is_open], True
        return found.evaluation()

    def close(self) -> None:
        """Ends the evaluator itself."""
        close(self.inner)

    # ---------------------------------------------------------- the ledger
    def _ask(self, words: NDArray[np.uint64], waits: bool) -> Answers:
        try:
            with self._speaking:
                self._ledger.send(Ask(words, waits))
                answers = self._ledger.recv()
        except (OSError, EOFError) as error:
            raise EvaluatorError("the process that shares out positions is gone") from error
        assert isinstance(answers, Answers)
        return answers

    def catch_up(self) -> News:
        """Returns what others have saved since this was last asked.

        Raises:
          StoreError: if the other process is gone.
        """
        try:
            with self._speaking:
                self._ledger.send(Catchup())
                news = self._ledger.recv()
        except (OSError, EOFError) as error:
            raise StoreError("the process that writes the file is gone") from error
        assert isinstance(news, News)
        return news

    def _tell(self, message: Publish | GiveBack) -> None:
        try:
            with self._speaking:
                self._ledger.send(message)
        except OSError as error:
            raise EvaluatorError("the process that shares out positions is gone") from error

    # ---------------------------------------------------------- evaluating
    def _evaluate(self, batch: PositionBatch, rows: NDArray[np.int64], found: _Found) -> None:
        """Evaluates positions piece by piece, each published at once."""
        size = self._piece(len(rows))
        for first in range(0, len(rows), size):
            piece = rows[first : first + size]
            try:
                part, answer, seconds = self._answer(batch, piece)
            except BaseException:
                self._tell(GiveBack(batch.words[rows[first:]]))
                raise
            self.paid += len(piece)
            self._tell(
                Publish(
                    words=part.words,
                    moves=part.moves,
                    offsets=part.offsets,
                    wdl=answer.wdl,
                    priors=answer.priors,
                    bounds=answer.bounds,
                    seconds=seconds,
                )
            )
            found.take(piece, answer.wdl, answer.priors, answer.bounds)

    def _piece(self, count: int) -> int:
        """Returns how many positions to evaluate at once: all, unless that takes long."""
        if not self._throughput.is_known:
            return max(1, count)
        return max(1, min(count, int(PIECE_SECONDS / self._throughput.per_position)))

    def _answer(
        self, batch: PositionBatch, rows: NDArray[np.int64]
    ) -> tuple[PositionBatch, Evaluation, float]:
        """Returns some positions, what the evaluator itself says of them, checked, and the seconds."""
        chosen = np.zeros(len(batch), bool)
        chosen[rows] = True
        part = batch.rows(chosen)
        with self._compiling_alone():
            begin = time.perf_counter()
            said = self.inner.evaluate(part)
            seconds = time.perf_counter() - begin
        checked(part, said)  # the search checks it again; nothing that is wrong is published
        self._throughput.learn(len(part), seconds, seconds)
        wdl, priors = np.asarray(said.wdl, np.float32), np.asarray(said.priors, np.float32)
        bounds = None if said.bounds is None else np.asarray(said.bounds, np.int8)
        return part, Evaluation(wdl, priors, bounds), seconds

    @contextmanager
    def _compiling_alone(self) -> Iterator[None]:
        """Lets one process at a time into its first evaluation, until kernels are compiled."""
        if self._is_compiled:
            yield
            return
        with compiled_once(f"pool-{self.inner.identity.kind}"):
            yield
        self._is_compiled = True


class _Found:
    """A batch's evaluation as it comes together."""

    def __init__(self, batch: PositionBatch) -> None:
        self._offsets = batch.offsets
        self._wdl = np.zeros((len(batch), 3), np.float32)
        self._priors = np.zeros(len(batch.moves), np.float32)
        self._bounds = np.tile(np.array([-1, 1], np.int8), (len(batch), 1))
        self._is_proven = False

    def take(
        self,
        rows: NDArray[np.int64],
        wdl: NDArray[np.float32],
        priors: NDArray[np.float32],
        bounds: NDArray[np.int8] | None,
    ) -> None:
        """Enters the answers of some rows, in ascending order."""
        if not len(rows):
            return
        chosen = np.zeros(len(self._wdl), bool)
        chosen[rows] = True
        self._wdl[rows] = wdl
        self._priors[np.repeat(chosen, np.diff(self._offsets))] = priors
        if bounds is not None:
            self._bounds[rows] = bounds
            self._is_proven = True

    def evaluation(self) -> Evaluation:
        return Evaluation(self._wdl, self._priors, self._bounds if self._is_proven else None)
