"""Positions known to a player who prepares: those of a book, or those of the stored graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..store.reading import Reader
from ..store.store import Store
from ..store.tables.books import book_keys
from ..store.upkeep.prune import visits_of
from .replay import Level

ASKED_AT_ONCE = 50_000  # positions

Mask = NDArray[np.bool_]
Known = Callable[[Level], Mask]  # mask of the known positions of a level, `[M]`


def book_positions(store: Store, book: int) -> Known:
    """Returns a function that marks the positions of a book; positions apart do not count."""
    keys = frozenset(book_keys(store, book))
    return lambda level: np.array([key in keys for key in level.keys], np.bool_)


def graph_positions(reader: Reader, min_visits: int) -> Known:
    """Returns a function that marks the positions of a graph with N of at least `min_visits`."""

    def known(level: Level) -> Mask:
        mask = np.zeros(len(level.words), np.bool_)
        for first in range(0, len(mask), ASKED_AT_ONCE):
            have, records = reader.find(level.words[first : first + ASKED_AT_ONCE])
            mask[first + np.flatnonzero(have)[visits_of(records) >= min_visits]] = True
        return mask

    return known
