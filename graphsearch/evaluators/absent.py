"""The evaluator of a graph that is opened without one: it has the file's name for it, and answers nothing."""

from __future__ import annotations

from ..errors import EvaluatorError
from ..store.record.provenance import EvaluatorIdentity
from .protocol import Evaluation, Evaluator, PositionBatch


class AbsentEvaluator(Evaluator):
    """Stands for the evaluator that a file is bound to, where nothing is to be evaluated."""

    def __init__(self, identity: EvaluatorIdentity) -> None:
        self.identity = identity

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Raises EvaluatorError: there is nobody to ask."""
        raise EvaluatorError(
            f"the graph was opened without its evaluator ({self.identity.describe()}), which {len(batch)} new"
            " positions need; open it with that one"
        )
