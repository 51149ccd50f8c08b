"""What moves give away, by the scores that Stockfish gives all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import chess

# Stockfish 15.1's model of wins (uci.cpp, `win_rate_model`): its centipawns are hundredths of 3.61 units
UNITS_PER_CENTIPAWN, MOST_UNITS = 3.61, 4000.0
AS = (-0.58270499, 2.68512549, 15.24638015, 344.49745382)
BS = (-2.65734562, 15.96509799, -20.69040836, 73.61029937)
LATEST_PLY, PLIES_PER_STEP = 240, 64


def expected_result(score: Mapping[str, Any], ply: int) -> float:
    """Returns the expected result in [-1, 1] of a score for the side to move, at a ply of the game.

    Args:
      score: `{"cp": N}` or `{"mate": N}`, negative where the side to move loses.

    >>> expected_result({"cp": 0}, 0), expected_result({"mate": -3}, 0)
    (0.0, -1.0)
    >>> round(expected_result({"cp": 100}, 62), 2)
    0.5
    """
    if "mate" in score:
        return 1.0 if score["mate"] > 0 else -1.0
    step = min(LATEST_PLY, ply) / PLIES_PER_STEP
    a, b = (((c[0] * step + c[1]) * step + c[2]) * step + c[3] for c in (AS, BS))
    units = max(-MOST_UNITS, min(MOST_UNITS, UNITS_PER_CENTIPAWN * score["cp"]))
    return _won(units, a, b) - _won(-units, a, b)


def _won(units: float, a: float, b: float) -> float:
    return 1.0 / (1.0 + math.exp((a - units) / b))


def losses(board: chess.Board, scores: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Returns the expected result that each scored move (UCI) gives away against the best one, 0 to 2."""
    results = {move: expected_result(score, board.ply()) for move, score in scores.items()}
    best = max(results.values(), default=0.0)
    return {move: best - result for move, result in results.items()}
