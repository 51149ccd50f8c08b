"""`uniform`: no knowledge but the rules; for measuring the search alone."""

from __future__ import annotations

import numpy as np

from ..record.provenance import EvaluatorIdentity
from .kinds import UNIFORM
from .protocol import Evaluation, Evaluator, PositionBatch


class UniformEvaluator(Evaluator):
    """Calls every position win, draw or loss with 1/3 each, and every move equally good."""

    kernel_kind = UNIFORM
    identity = EvaluatorIdentity("uniform")

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns equal probabilities."""
        lengths = np.diff(batch.offsets)
        wdl = np.full((len(batch), 3), 1 / 3, np.float32)
        return Evaluation(wdl, np.repeat(1 / lengths, lengths).astype(np.float32))
