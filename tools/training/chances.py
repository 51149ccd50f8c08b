"""Converts scores to chances of winning and losing, by the model of Stockfish 15.1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

SEARCHED = 1.4  # ratio of Stockfish's score at 300,000 nodes to a label's score, in open positions
OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": True}


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def sigmoid(x: Any) -> Any:
    """Returns the logistic function."""
    return 1.0 / (1.0 + np.exp(-min(max(x, -40.0), 40.0)))


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def engine_chances(score: Any, ply: Any) -> Any:
    """Returns Stockfish 15.1's chances of winning and losing for a score in 1/361 of a pawn at a ply."""
    m = min(240, ply) / 64.0
    a = ((-0.58270499 * m + 2.68512549) * m + 15.24638015) * m + 344.49745382
    b = ((-2.65734562 * m + 15.96509799) * m - 20.69040836) * m + 73.61029937
    return sigmoid((score - a) / b), sigmoid((-score - a) / b)


@njit(**OPTIONS)  # type: ignore[untyped-decorator]
def chances_of_label(score: Any, ply: Any) -> Any:
    """Returns the chances of a label: those of SEARCHED times its score."""
    return engine_chances(SEARCHED * score, ply)
