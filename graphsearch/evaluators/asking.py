"""Asking an evaluator: whatever it does or answers wrong is an EvaluatorError."""

from __future__ import annotations

from ..errors import EvaluatorDefectError, GraphSearchError
from .protocol import Evaluation, Evaluator, PositionBatch, checked


def answer(evaluator: Evaluator, batch: PositionBatch) -> Evaluation:
    """Returns the evaluator's checked answer.

    Raises:
      EvaluatorError: if it fails, or answers what is no evaluation.
    """
    try:
        return checked(batch, evaluator.evaluate(batch))
    except GraphSearchError:
        raise
    except Exception as error:
        raise EvaluatorDefectError(f"the evaluator failed: {type(error).__name__}: {error}") from error
