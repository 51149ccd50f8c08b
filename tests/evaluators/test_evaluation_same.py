"""The built-in evaluation's numbers stay what they are: digests over many positions, whatever is made faster.

A change of one of them is a change of the evaluator: raise `REVISION` in `evaluators/builtin.py` with it.
"""

from __future__ import annotations

import hashlib

import numpy as np

from graphsearch.evaluators.builtin.evaluation_kernel import (
    EVALUATION_SCRATCH_WORDS,
    SCORES,
    SUMS,
)
from graphsearch.evaluators.builtin.quiescence_kernel import SEARCH_WORDS, quiescent_score
from graphsearch.evaluators.builtin.weights import load_weights
from graphsearch.evaluators.quiescence.quiescence_kernel import NODES
from graphsearch.position.scores import FAR
from graphsearch.position.tables import load_tables
from tests.support.evaluating import evaluated
from tests.support.positions import random_words


def digest(numbers: list[int]) -> str:
    return hashlib.sha256(np.array(numbers, np.int64).tobytes()).hexdigest()[:16]


def quiescent(alpha: int, beta: int) -> list[int]:
    """Returns score and number of nodes of every position."""
    stack = np.zeros(SEARCH_WORDS, np.uint64)
    out = []
    for words in random_words():
        score = quiescent_score(load_tables(), load_weights(), words, alpha, beta, stack)
        out += [int(score), int(stack[NODES])]
    return out


def test_static_scores_are_what_they_were() -> None:
    # below such a beta every position out of check stands
    assert digest(quiescent(-FAR, 1 - FAR)) == "3389a6a88a31b179"


def test_quiescence_scores_and_nodes_are_what_they_were() -> None:
    assert digest(quiescent(-FAR, FAR)) == "e7fe8418eab51da6"
    assert digest(quiescent(0, 1)) == "98861f8d6b1769e9"


def test_scores_and_sums_of_moves_are_what_they_were() -> None:
    scratch = np.zeros(EVALUATION_SCRATCH_WORDS, np.uint64)
    numbers = list[int]()
    for words in random_words()[::5]:
        n = len(evaluated(words, scratch)[2])
        numbers += scratch[SCORES : SCORES + n].tolist() + scratch[SUMS : SUMS + n].tolist()
    assert digest(numbers) == "886b5d3b0518069b"
