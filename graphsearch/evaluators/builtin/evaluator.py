"""`builtin`: this program's own evaluation with quiescence; nothing to install or download."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from ...record.provenance import EvaluatorIdentity, Option
from ..kinds import BUILTIN
from ..protocol import Evaluation, Evaluator, PositionBatch, tempered
from .layout import FITTED_COUNT, VERIFY_DEPTH
from .weights import load_weights, with_depth

if TYPE_CHECKING:
    from numpy.typing import NDArray

# raise when the evaluation's code changes what it answers with the same weights
REVISION = 1
MAPPING = "builtin-wdl"


class BuiltinEvaluator(Evaluator):
    """V from a fitted tapered evaluation after quiescence, P from a fitted move model.

    Attributes:
      temperature: of the policy.
      verify_depth: how many plies deeper the moves that look best are searched again, 0 to 3.
    """

    kernel_kind = BUILTIN

    def __init__(self, temperature: float = 1.0, *, verify_depth: int = VERIFY_DEPTH) -> None:
        self.weights = with_depth(load_weights(), verify_depth)
        self.temperature = temperature
        digest = hashlib.sha256(self.weights[:FITTED_COUNT].tobytes() + bytes([REVISION])).hexdigest()
        options: dict[str, Option] = {} if temperature == 1.0 else {"PolicyTemperature": temperature}
        if verify_depth != VERIFY_DEPTH:
            options["verify_depth"] = verify_depth
        self.identity = EvaluatorIdentity("builtin", digest, options, MAPPING)

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors, computed by kernels on this thread."""
        from ...position.tables import load_tables
        from .evaluation_kernel import EVALUATION_SCRATCH_WORDS, evaluate_batch

        wdl = np.zeros((len(batch), 3), np.float32)
        priors: NDArray[np.float32] = np.zeros(len(batch.moves), np.float32)
        scratch = np.zeros(EVALUATION_SCRATCH_WORDS, np.uint64)
        words = np.ascontiguousarray(batch.words).reshape(-1)
        evaluate_batch(load_tables(), self.weights, words, batch.moves, batch.offsets, wdl, priors, scratch)
        return Evaluation(wdl, tempered(batch, priors, self.temperature))
