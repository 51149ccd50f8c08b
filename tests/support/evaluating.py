"""The built-in evaluator's kernel, called on positions as tests have them."""

from __future__ import annotations

import numpy as np

from graphsearch.evaluators.builtin.evaluation_kernel import EVALUATION_SCRATCH_WORDS, evaluate_batch
from graphsearch.evaluators.builtin.weights import load_weights
from graphsearch.evaluators.inside import wdl_of
from graphsearch.position.rules_kernel import list_moves
from graphsearch.position.tables import load_tables


def evaluated(
    words: np.ndarray, scratch: np.ndarray | None = None, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns WDL `[3]`, priors and moves of one position."""
    moves = np.zeros(256, np.uint16)
    moves = moves[: int(list_moves(load_tables(), words, moves))].copy()
    wdl, priors = batch_evaluated(words, moves, np.array([0, len(moves)], np.int64), scratch, weights)
    return wdl[0], priors, moves


def batch_evaluated(
    words: np.ndarray,
    moves: np.ndarray,
    offsets: np.ndarray,
    scratch: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns WDL `[B, 3]` and priors `[M]` of some positions."""
    count = len(offsets) - 1
    values, priors = np.zeros(2 * count, np.float32), np.zeros(len(moves), np.float32)
    scratch = np.zeros(EVALUATION_SCRATCH_WORDS, np.uint64) if scratch is None else scratch
    weights = load_weights() if weights is None else weights
    evaluate_batch(load_tables(), weights, words, moves, offsets, values, priors, scratch, 1.0, 0, count)
    return wdl_of(values), priors
