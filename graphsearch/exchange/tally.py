"""Accumulates counts of games by position and move, and adds them to the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..position.fens import castling_of, fens, key_texts
from ..query.steps import names_of, uci_names
from ..store.store import Store
from ..store.tables import games as tables
from ..store.tables.games import MoveRow, PositionRow
from .pgn_blocks import PlayedBlock

# limits of one transaction; it is full when it reaches any of them
GAMES_AT_ONCE = 5000
ROWS_AT_ONCE = 400_000  # positions: some 50 MB

WHITE, DRAWS, BLACK, UNKNOWN, VARIATIONS, COLUMNS = range(6)  # columns of a count


class Tally:
    """Counts of the games of one transaction."""

    def __init__(self, games_at_once: int = GAMES_AT_ONCE) -> None:
        self._games_at_once = games_at_once
        self._blocks: list[_Rows] = []
        self._games = self._rows = self._numbers = 0

    @property
    def is_full(self) -> bool:
        """Whether a limit is reached, so that the caller must write the counts."""
        return self._games >= self._games_at_once or self._rows >= ROWS_AT_ONCE

    def add(self, block: PlayedBlock, results: Sequence[int]) -> None:
        """Counts games, each (position, move) of a game once; results: each game's column."""
        if not block.games:
            return
        rows = _rows_of(block, np.array(results, np.int64), self._numbers)
        self._blocks.append(rows)
        self._numbers += len(block.games)
        self._rows += len(rows.keys)
        self._games += sum(result != VARIATIONS for result in results)

    def write(self, store: Store) -> None:
        """Adds the counts to the tables of the file, sorted by key."""
        if self._blocks:
            tables.add_games(store, *_table_rows(self._blocks))


class _Rows(NamedTuple):
    """Concatenated positions of games, `[P]` each.

    Attributes:
      words: `[P, 10]`. games: number of the game. ends: whether the game ends there, without a move.
    """

    keys: NDArray[np.uint64]
    words: NDArray[np.uint64]
    codes: NDArray[np.uint16]
    plies: NDArray[np.int64]
    games: NDArray[np.int64]
    results: NDArray[np.int64]
    ends: NDArray[np.bool_]


def _rows_of(block: PlayedBlock, results: NDArray[np.int64], number: int) -> _Rows:
    """Returns the positions of the games of a block; number: of the first game."""
    sizes = block.counts + 1
    step = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    at = np.repeat(block.firsts, sizes) + step
    return _Rows(
        block.keys[at],
        block.positions[at],
        block.codes[at],
        np.repeat(block.plies, sizes) + step,
        np.repeat(np.arange(number, number + len(sizes)), sizes),
        np.repeat(results, sizes),
        step == np.repeat(block.counts, sizes),
    )


def _table_rows(blocks: Sequence[_Rows]) -> tuple[Iterator[PositionRow], Iterator[MoveRow]]:
    """Returns the rows of positions and of moves, both sorted by key.

    The FEN of a position comes from its first occurrence with the fewest half-moves.
    """
    rows = _Rows(*(np.concatenate(column) for column in zip(*blocks, strict=True)))
    castling = castling_of(rows.words)
    order = np.lexsort((rows.plies, castling, rows.keys))
    keys, castling = rows.keys[order], castling[order]
    first = np.concatenate(([True], (keys[1:] != keys[:-1]) | (castling[1:] != castling[:-1])))
    of = np.empty(len(keys), np.int64)
    of[order] = np.cumsum(first) - 1
    chosen = order[first]
    words, plies = rows.words[chosen], rows.plies[chosen]
    texts = key_texts(words)
    positions = zip(texts, fens(words, plies.tolist()), plies.tolist(), strict=True)
    places, codes, counts = _count_moves(rows, of)
    uci, (sans, _) = uci_names(), names_of(words, places, codes)
    moves = zip(
        [texts[place] for place in places.tolist()],
        [uci[code] for code in codes.tolist()],
        sans.astype(str).tolist(),
        *counts.T.tolist(),
        strict=True,
    )
    return positions, moves


def _count_moves(
    rows: _Rows, of: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint16], NDArray[np.int64]]:
    """Returns the distinct moves: position and code, `[M]` each, and games by column, `[M, COLUMNS]`.

    A game counts once for a move that it repeats.
    """
    at = np.flatnonzero(~rows.ends)
    steps = of[at] << 16 | rows.codes[at].astype(np.int64)
    order = np.lexsort((rows.games[at], steps))
    steps, games, results = steps[order], rows.games[at][order], rows.results[at][order]
    new = np.concatenate(([True], steps[1:] != steps[:-1]))[: len(steps)]
    once = new | np.concatenate(([True], games[1:] != games[:-1]))[: len(steps)]
    group = np.cumsum(new) - 1
    size = int(new.sum())
    counts = np.bincount(group[once] * COLUMNS + results[once], minlength=size * COLUMNS)
    found = steps[new]
    return found >> 16, (found & 0xFFFF).astype(np.uint16), counts.reshape(size, COLUMNS)
