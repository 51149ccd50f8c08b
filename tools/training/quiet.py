"""Quiet positions of a set with the quiescence score of a network, as the value network learns them.

The value network is asked at positions where quiescence stands pat. There a label without moves tried is a
function of the position, and not of what its captures lead to.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from graphsearch.evaluators.nnue.layout import WIDTH
from graphsearch.evaluators.nnue.quiescence_kernel import area_words, scores
from graphsearch.evaluators.quiescence.quiescence_kernel import STACK_WORDS
from graphsearch.position.board import POSITION_WORDS
from graphsearch.position.scores import FAR
from graphsearch.position.tables import load_tables
from tools.training.records import IN_CHECK, MOST_SCORE, PAWN, Records

MOST_GAIN = 30  # thousandths of a pawn that captures bring where it is quiet
CHUNK = 100_000  # positions asked at once
STATIC, QUIESCENCE = (0, 0), (-FAR, FAR)  # windows, as `scores` takes them


def scores_of(
    words: NDArray[np.uint64], weights: NDArray[np.int64], window: tuple[int, int]
) -> NDArray[np.int64]:
    """Returns what a network says of positions, in thousandths of a pawn; `words`: uint64[B, 10]."""
    scratch = np.zeros(STACK_WORDS + area_words(int(weights[WIDTH])), np.uint64)
    out = np.zeros(len(words), np.int64)
    scores(load_tables(), weights, words.reshape(-1), np.array(window, np.int64), out, scratch)
    return out


def quiet_part(records: Records, weights: NDArray[np.int64]) -> Records:
    """Returns what `quiet_of` does, of records that are asked at once."""
    words = np.zeros((len(records), POSITION_WORDS), np.uint64)
    words[:, : records["words"].shape[1]] = records["words"]
    found = scores_of(words, weights, QUIESCENCE)
    gained = found - scores_of(words, weights, STATIC)
    labels = found * PAWN // 1000
    chosen = (gained < MOST_GAIN) & (records["kind"] & IN_CHECK == 0) & (np.abs(labels) < MOST_SCORE)
    quiet: Records = records[chosen]
    quiet["score"] = labels[chosen]
    return quiet


def quiet_of(records: Records, weights: NDArray[np.int64], threads: int) -> Records:
    """Returns the records of quiet positions, not in check, labelled by quiescence over a network."""
    parts = (records[begin : begin + CHUNK] for begin in range(0, len(records), CHUNK))
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(partial(quiet_part, weights=weights), parts)))
