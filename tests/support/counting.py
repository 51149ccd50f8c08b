"""An evaluator that remembers what it was asked, to show that nothing is paid for twice."""

from __future__ import annotations

import hashlib
from pathlib import Path

import chess
import numpy as np

from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch
from graphsearch.record.provenance import EvaluatorIdentity

from .reference import hashed_answer


class CountingEvaluator(Evaluator):
    """Arbitrary but fixed answers for each name; `hash` answers as `HashEvaluator`.

    Attributes:
      asked: EPD of every position, as often as it was asked about.
      fail_after: positions after which it fails, None for never.
      log: a file that gets them too, for a process that is killed.
    """

    def __init__(self, name: str = "hash", *, fail_after: int | None = None, log: Path | None = None) -> None:
        self.identity = EvaluatorIdentity(name)
        self.name = name
        self.asked: list[str] = []
        self.fail_after = fail_after
        self.log = log

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        wdl, priors = [], []
        for board, moves in batch.boards():
            if self.fail_after is not None and len(self.asked) >= self.fail_after:
                raise RuntimeError("out of order")
            epd = board.epd()
            self.asked.append(epd)
            values, p = self._answer(epd, moves)
            wdl.append(values)
            priors += p
        if self.log:
            with self.log.open("a") as file:
                file.writelines(f"{epd}\n" for epd in self.asked[-len(batch) :])
        return Evaluation(np.array(wdl, np.float32).reshape(-1, 3), np.array(priors, np.float32))

    def _answer(self, epd: str, moves: list[chess.Move]) -> tuple[list[float], list[float]]:
        if self.name == "hash":
            return hashed_answer(epd, moves)
        digest = hashlib.sha512((self.name + epd).encode()).digest()
        raw = [1 + digest[i] for i in range(3)]
        weights = [(1 + digest[3 + (m.to_square * 5 + m.from_square) % 61]) ** 2 for m in moves]
        return [x / sum(raw) for x in raw], [w / sum(weights) for w in weights]
