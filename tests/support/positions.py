"""Many positions for tests, always the same."""

from __future__ import annotations

import itertools
import random
from functools import cache

import numpy as np
from numpy.typing import NDArray

from graphsearch.position.board import POSITION_WORDS, chess960_start, pack
from graphsearch.position.rules_kernel import list_moves, play
from graphsearch.position.tables import load_tables


@cache
def random_words(count: int = 2000) -> list[NDArray[np.uint64]]:
    """Returns packed, unfinished positions of random games, in check and out of it, of all phases.

    Every fourth game is one of Chess960.
    """
    rng, out = random.Random(7), list[NDArray[np.uint64]]()
    moves = np.zeros(256, np.uint16)
    for game in itertools.count():
        if len(out) == count:
            break
        words = np.array(pack(chess960_start(518 if game % 4 else 7 * game % 960)), np.uint64)
        for _ in range(300):
            n = int(list_moves(load_tables(), words, moves))
            if n == 0 or len(out) == count:
                break
            if rng.random() < 0.15:
                out.append(words)
            child = np.zeros(POSITION_WORDS, np.uint64)
            play(load_tables(), words, moves[rng.randrange(n)], child)
            words = child
    return out
