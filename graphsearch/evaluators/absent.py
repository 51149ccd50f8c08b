"""The evaluator of a graph that is opened without one: it has the file's name for it, and answers nothing."""

from __future__ import annotations

from ..errors import EvaluatorError
from ..record.provenance import EvaluatorIdentity
from .kinds import EXTERNAL
from .protocol import Evaluation, PositionBatch


class AbsentEvaluator:
    """Stands for the evaluator that a file is bound to, where nothing is to be evaluated."""

    kernel_kind = EXTERNAL
    temperature = 1.0

    def __init__(self, identity: EvaluatorIdentity) -> None:
        self.identity = identity

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Raises EvaluatorError: there is nobody to ask."""
        raise EvaluatorError(
            f"the graph was opened without its evaluator ({self.identity.describe()}), which {len(batch)} new"
            " positions need; open it with that one"
        )
