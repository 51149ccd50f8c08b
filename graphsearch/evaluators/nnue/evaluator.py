"""`nnue:FILE|PROGRAM`: a Stockfish network that this program's kernels evaluate; no engine runs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...store.record.provenance import EvaluatorIdentity, Option
from ..inside import BatchKernel, KernelEvaluator
from ..protocol import NNUE
from . import layout
from .file import Network
from .program import network_of

REVISION = 3  # raise when the code's results change for the same network and numbers
MAPPING = "nnue-wdl"
FITTED = Path(__file__).with_name("fitted.json")


class NnueEvaluator(KernelEvaluator):
    """Computes V and P with a Stockfish network: quiescence search plus the best moves and replies.

    Attributes:
      identity: the network's hash, and a hash of the numbers and code that turn scores into V and P.
      network: the network.
      temperature: of the policy.
    """

    kernel_kind = NNUE

    def __init__(self, source: str, *, temperature: float = 1.0, threads: int = 0) -> None:
        """Reads a network.

        Args:
          source: a `.nnue` file, or a program with a network and the command `export_net`.
          temperature: PolicyTemperature; above 1 flattens the priors, below 1 sharpens them.
          threads: number of evaluating threads, 0 for all cores.

        Raises:
          EvaluatorError: if the file or program does not exist, or has no network of a known architecture.
        """
        self.network = network_of(source)
        self.weights = prepared(self.network)
        self.temperature = temperature
        self.threads = threads
        behind = self.weights[layout.HEADER_WORDS - 8 : layout.HEADER_WORDS].tobytes()
        behind += self.weights[int(self.weights[layout.FITTED_AT]) :].tobytes() + bytes([REVISION])
        options: dict[str, Option] = {"numbers": hashlib.sha256(behind).hexdigest()[:16]}
        if temperature != 1.0:
            options["PolicyTemperature"] = temperature
        self.identity = EvaluatorIdentity("nnue", self.network.sha256, options, MAPPING)
        self.notes = (f"network of {self.network.architecture.engines}, {self.network.sha256[:12]}",)

    @property
    def batch_kernel(self) -> BatchKernel:
        """The network's kernel, with the size of its work area."""
        from .evaluation_kernel import evaluate_batch, scratch_words

        return BatchKernel(evaluate_batch, scratch_words(self.network.architecture.width))


def prepared(network: Network) -> NDArray[np.int64]:
    """Writes the numbers of `fitted.json` into a network's weights; returns the weights."""
    weights = network.weights
    fitted = json.loads(FITTED.read_text(encoding="utf-8"))
    weights[layout.EFFORT_AT : layout.EFFORT_AT + len(fitted["effort"])] = fitted["effort"]
    weights[int(weights[layout.FITTED_AT]) :][: len(fitted["numbers"])] = fitted["numbers"]
    return weights
