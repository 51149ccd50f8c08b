"""`builtin`: this program's own evaluation with quiescence; nothing to install or download."""

from __future__ import annotations

import hashlib

from ...record.provenance import EvaluatorIdentity, Option
from ..inside import BatchKernel, KernelEvaluator
from ..kinds import BUILTIN
from .layout import FITTED_COUNT, VERIFY_DEPTH
from .weights import load_weights, with_depth

# raise when the evaluation's code changes what it answers with the same weights
REVISION = 1
MAPPING = "builtin-wdl"


class BuiltinEvaluator(KernelEvaluator):
    """V from a fitted tapered evaluation after quiescence, P from a fitted move model.

    Attributes:
      temperature: of the policy.
      verify_depth: how many plies deeper the moves that look best are searched again, 0 to 3.
      threads: how many evaluate at once, 0 for as many as there are cores.
    """

    kernel_kind = BUILTIN

    def __init__(
        self, temperature: float = 1.0, *, verify_depth: int = VERIFY_DEPTH, threads: int = 0
    ) -> None:
        self.threads = threads
        self.weights = with_depth(load_weights(), verify_depth)
        self.temperature = temperature
        digest = hashlib.sha256(self.weights[:FITTED_COUNT].tobytes() + bytes([REVISION])).hexdigest()
        options: dict[str, Option] = {} if temperature == 1.0 else {"PolicyTemperature": temperature}
        if verify_depth != VERIFY_DEPTH:
            options["verify_depth"] = verify_depth
        self.identity = EvaluatorIdentity("builtin", digest, options, MAPPING)

    @property
    def batch_kernel(self) -> BatchKernel:
        """The kernel of the evaluation with quiescence."""
        from .evaluation_kernel import EVALUATION_SCRATCH_WORDS, evaluate_batch

        return BatchKernel(evaluate_batch, EVALUATION_SCRATCH_WORDS)
