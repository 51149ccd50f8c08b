"""An evaluator that remembers what it was asked, to show that nothing is paid for twice."""

from __future__ import annotations

from pathlib import Path

from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch
from graphsearch.store.provenance import EvaluatorIdentity

from .reference import evaluation_of, hashed_answers


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

    @property
    def paid_once(self) -> bool:
        """Whether it was asked about some positions, and about none of them twice."""
        return 0 < len(self.asked) == len(set(self.asked))

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        answers = []
        for answer in hashed_answers(self.name, batch):
            if self.fail_after is not None and len(self.asked) >= self.fail_after:
                raise RuntimeError("out of order")
            self.asked.append(answer.epd)
            answers.append(answer)
        if self.log:
            with self.log.open("a") as file:
                file.writelines(f"{answer.epd}\n" for answer in answers)
        return evaluation_of(answers)
