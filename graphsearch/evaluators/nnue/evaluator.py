"""`nnue:FILE|PROGRAM`: a network of Stockfish, searched by this program's kernels; no engine runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..builtin.weights import load_weights
from . import layout
from .file import Network, read_network

REVISION = 1  # raise when the code changes what it answers with the same network
MAPPING = "nnue-wdl"
EFFORT = (10, 8, 3, 300)
FITTED = Path(__file__).with_name("fitted.json")


def packed_network(path: str | os.PathLike[str]) -> Network:
    """Returns the network of a file, with the fitted numbers and the terms of moves that kernels need.

    Raises:
      EvaluatorError: if it cannot be read, is damaged, or is no network of a known form.
    """
    network = read_network(path)
    weights = network.weights
    for at, numbers in ((layout.FITTED_AT, fitted_numbers()), (layout.MOVES_AT, load_weights())):
        weights[int(weights[at]) :][: len(numbers)] = numbers
    weights[[layout.SEEN_MOVES, layout.SEEN_REPLIES, layout.VERIFIED_MOVES, layout.LIMIT]] = EFFORT
    return network


def fitted_numbers() -> NDArray[np.int64]:
    """Returns the value map and the weights of the priors, in millionths; zeros before they are fitted."""
    found = json.loads(FITTED.read_text(encoding="utf-8"))["numbers"] if FITTED.exists() else []
    return np.array(found or [0] * layout.FITTED_NUMBERS, np.int64)
