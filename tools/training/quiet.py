"""Selects the quiet positions of a set and labels them with a network's quiescence, for the value network.

A search evaluates the value network only where quiescence stands pat. There a static label depends on the
position alone, not on the results of captures.
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

MOST_GAIN = 30  # thousandths of a pawn; captures gain less than that in a quiet position
CHUNK = 100_000  # positions per batch
STATIC, QUIESCENCE = (0, 0), (-FAR, FAR)  # windows for `scores`


def scores_of(
    words: NDArray[np.uint64], weights: NDArray[np.int64], window: tuple[int, int]
) -> NDArray[np.int64]:
    """Returns a network's scores of positions, in thousandths of a pawn; `words`: uint64[B, 10]."""
    scratch = np.zeros(STACK_WORDS + area_words(int(weights[WIDTH])), np.uint64)
    out = np.zeros(len(words), np.int64)
    scores(load_tables(), weights, words.reshape(-1), np.array(window, np.int64), out, scratch)
    return out


def quiet_part(records: Records, weights: NDArray[np.int64]) -> Records:
    """Returns the result of `quiet_of` for one batch of records."""
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
    """Returns the records of quiet positions, not in check, labelled by a network's quiescence."""
    parts = (records[begin : begin + CHUNK] for begin in range(0, len(records), CHUNK))
    with ThreadPoolExecutor(threads) as pool:
        return np.concatenate(list(pool.map(partial(quiet_part, weights=weights), parts)))
