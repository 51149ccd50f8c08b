"""`builtin`: this program's own networks; nothing to install or download."""

from __future__ import annotations

from ...store.provenance import EvaluatorIdentity, Option
from ..inside import BatchKernel, KernelEvaluator
from ..protocol import BUILTIN
from .weights import Networks, load_networks

# SHA-256 of the packaged weights; computing it would add 14 ms to every start
DIGEST = "ce84a45059291aa9202cd47ee974fd3188bc1c5ef297f1cd088c8667f8670b94"
# raise when the code's results change for the same weights
REVISION = 4
MAPPING = "networks-wdl"


class BuiltinEvaluator(KernelEvaluator):
    """Computes V by quiescence over a value network, and P with a policy network.

    Attributes:
      temperature: of the policy.
      threads: number of evaluating threads, 0 for all cores.
    """

    kernel_kind = BUILTIN

    def __init__(
        self, temperature: float = 1.0, *, threads: int = 0, networks: Networks | None = None
    ) -> None:
        digest = networks.digest() if networks else DIGEST
        self.threads = threads
        networks = networks or load_networks()
        self.weights = networks.words
        self.temperature = temperature
        options: dict[str, Option] = {} if temperature == 1.0 else {"PolicyTemperature": temperature}
        self.identity = EvaluatorIdentity("builtin", f"{digest}-{REVISION}", options, MAPPING)

    @property
    def batch_kernel(self) -> BatchKernel:
        """The kernel of both networks."""
        from .evaluation_kernel import SCRATCH_WORDS, evaluate_batch

        return BatchKernel(evaluate_batch, SCRATCH_WORDS)
