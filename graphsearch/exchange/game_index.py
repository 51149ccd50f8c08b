"""Index rows for the list of games: each game's opening, and 16 bits of the key of each position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..position.openings import DEEPEST, opening_names, opening_places
from ..position.words import KEY
from ..query.reaching import key_parts
from ..store.tables.game_list import IndexRow
from .block_playing import PlayedBlock

Words = NDArray[np.uint64]


def index_of_block(played: PlayedBlock, numbers: Sequence[tuple[int, int]]) -> Iterator[IndexRow]:
    """Yields the index rows of games of a block; numbers: (index in the block, number in the file) pairs."""
    parts = key_parts(played.keys)
    places = opening_places(played.positions[:, KEY])
    for i, number in numbers:
        first = int(played.firsts[i])
        end = first + int(played.counts[i]) + 1
        opening = _last_name(places[first : min(end, first + DEEPEST + 1)])
        yield IndexRow(number, opening, parts[first:end].tobytes())


def _last_name(places: NDArray[np.int64]) -> str | None:
    named = np.flatnonzero(places >= 0)
    return opening_names()[places[named[-1]]] if len(named) else None


class GameIndex:
    """Collects the index rows of games that are replayed in parallel."""

    def __init__(self, games: int) -> None:
        self._parts = [bytearray() for _ in range(games)]
        self._openings: list[str | None] = [None] * games

    def add(self, ply: int, on: Sequence[int], words: Words, keys: Words) -> None:
        """Adds the positions of some games at a ply: `[R, 10]` and their keys, `[R]`."""
        places = opening_places(words[:, KEY]).tolist()
        parts = key_parts(keys)
        for row, game in enumerate(on):
            self._parts[game] += parts[row].tobytes()
            if places[row] >= 0 and ply <= DEEPEST:
                self._openings[game] = opening_names()[places[row]]

    def rows(self, numbers: Sequence[int]) -> list[IndexRow]:
        """Returns the index rows; numbers: the games' numbers in their file."""
        return [
            IndexRow(number, opening, bytes(parts))
            for number, opening, parts in zip(numbers, self._openings, self._parts, strict=True)
        ]
