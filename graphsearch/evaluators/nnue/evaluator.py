"""`nnue:FILE|PROGRAM`: a network of Stockfish, searched by this program's kernels; no engine runs."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...record.provenance import EvaluatorIdentity, Option
from ..builtin.weights import load_weights
from ..protocol import Evaluation, Evaluator, PositionBatch, tempered
from . import layout
from .file import Network, aligned_zeros
from .program import network_of

REVISION = 1  # raise when the code changes what it answers with the same network and numbers
MAPPING = "nnue-wdl"
FITTED = Path(__file__).with_name("fitted.json")


class NnueEvaluator(Evaluator):
    """V and P of a network of Stockfish, by quiescence and a look at the best moves and replies.

    Attributes:
      identity: the network's hash, and that of what turns its scores into V and P.
      network: the network.
      temperature: of the policy.
    """

    def __init__(self, source: str, *, temperature: float = 1.0) -> None:
        """Reads a network.

        Args:
          source: a `.nnue` file, or a program that has a network and knows `export_net`.
          temperature: PolicyTemperature; above 1 flattens the priors, below 1 sharpens them.

        Raises:
          EvaluatorError: if there is no such file or program, it has no network, or not one of a known form.
        """
        self.network = network_of(source)
        self.weights = prepared(self.network)
        self.temperature = temperature
        behind = self.weights[layout.HEADER_WORDS - 8 : layout.HEADER_WORDS].tobytes()
        behind += self.weights[int(self.weights[layout.FITTED_AT]) :].tobytes() + bytes([REVISION])
        options: dict[str, Option] = {"numbers": hashlib.sha256(behind).hexdigest()[:16]}
        if temperature != 1.0:
            options["PolicyTemperature"] = temperature
        self.identity = EvaluatorIdentity("nnue", self.network.sha256, options, MAPPING)
        self.notes = (f"network of {self.network.architecture.engines}, {self.network.sha256[:12]}",)
        self._rooms = threading.local()

    @property
    def calls_kernels(self) -> bool:
        """Whether kernels evaluate for it: they do, beside the search."""
        return True

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors, computed by kernels on this thread."""
        from ...position.tables import load_tables
        from .evaluation_kernel import evaluate_batch, scratch_words

        if not hasattr(self._rooms, "scratch"):
            self._rooms.scratch = aligned_zeros(scratch_words(self.network.architecture.width), np.uint64)
        wdl = np.zeros((len(batch), 3), np.float32)
        priors: NDArray[np.float32] = np.zeros(len(batch.moves), np.float32)
        words = np.ascontiguousarray(batch.words).reshape(-1)
        scratch = self._rooms.scratch
        evaluate_batch(load_tables(), self.weights, words, batch.moves, batch.offsets, wdl, priors, scratch)
        return Evaluation(wdl, tempered(batch, priors, self.temperature))


def prepared(network: Network) -> NDArray[np.int64]:
    """Returns a network's weights with what the kernels need besides: `fitted.json`, and terms of moves."""
    weights = network.weights
    fitted = json.loads(FITTED.read_text(encoding="utf-8"))
    weights[layout.EFFORT_AT : layout.EFFORT_AT + len(fitted["effort"])] = fitted["effort"]
    for at, numbers in ((layout.FITTED_AT, fitted["numbers"]), (layout.MOVES_AT, load_weights())):
        weights[int(weights[at]) :][: len(numbers)] = numbers
    return weights
