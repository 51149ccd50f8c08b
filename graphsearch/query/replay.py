"""Replays stored games together, ply by ply; a position that several games share is replayed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import chess
import numpy as np
from numpy.typing import NDArray

from ..position.board import (
    BLACK_TO_MOVE,
    MAX_MOVES,
    META,
    POSITION_WORDS,
    board_of,
    check,
    decode_move,
    key_texts,
    pack,
    unpack,
)
from ..store.ranking import visits_of
from ..store.reading import Reader
from ..store.store import Store
from ..store.tables.books import book_keys
from .steps import Ints, Mask, Words, legal_codes, positions_after

NO_MOVE = -1
AT_ONCE = 50_000  # positions whose moves are listed together: 33 MB


@dataclass(frozen=True, slots=True)
class Level:
    """The positions of one ply.

    Attributes:
      words: `[M, 10]`. keys: `[M]`. parents, codes: `[M]`, index in the previous level, the move from there.
    """

    words: Words
    keys: Sequence[str]
    parents: Ints
    codes: NDArray[np.uint16]

    @property
    def black_to_move(self) -> NDArray[np.bool_]:
        """Whether Black moves, `[M]`."""
        found: NDArray[np.bool_] = (self.words[:, META] & np.uint64(BLACK_TO_MOVE)) != 0
        return found


class Replay:
    """Games that are replayed in step, each at the same ply.

    Attributes:
      levels: the positions of every ply so far, or only the last ones. ply: that of the last level.
      at: `[G]`, index of each game's position in the last level, -1 for a game that is no longer followed.
      damaged: indexes of games with an illegal move or an invalid first position.
    """

    def __init__(
        self, fens: Sequence[str | None], moves: Sequence[bytes], *, keep_levels: bool = True
    ) -> None:
        """Begins with the first positions of games, None for the start position, and the numbers of moves."""
        self._moves, self._keep, self.ply = moves, keep_levels, 0
        self.damaged: set[int] = set()
        self._lengths = np.array([len(game) for game in moves], np.int64)
        starts: dict[str | None, int] = {}
        self.at = np.array([self._start(g, fen, starts) for g, fen in enumerate(fens)], np.int64)
        words = np.array([pack(start_of(fen)) for fen in starts], np.uint64).reshape(-1, POSITION_WORDS)
        none = np.zeros(len(words), np.int64)
        self.levels = [Level(words, key_texts(words), none, none.astype(np.uint16))]

    def _start(self, game: int, fen: str | None, starts: dict[str | None, int]) -> int:
        """Returns the index of a game's first position in level 0; -1 if its FEN is invalid."""
        if fen not in starts:
            try:
                check(start_of(fen))
            except ValueError:
                self.damaged.add(game)
                return NO_MOVE
            starts[fen] = len(starts)
        return starts[fen]

    def step(self) -> NDArray[np.uint16]:
        """Plays one ply of every followed game; returns the moves, `[G]`, 0 for none.

        It stops following a game that has ended or has an illegal next move.
        """
        level = self.levels[-1]
        codes = np.zeros(len(self.at), np.uint16)
        followed = np.flatnonzero(self.at >= 0)
        goes_on = self._lengths[followed] > self.ply
        self.at[followed[~goes_on]] = NO_MOVE
        followed = followed[goes_on]
        numbers = np.array([self._moves[g][self.ply] for g in followed.tolist()], np.int64)
        pairs, which = np.unique(self.at[followed] << 8 | numbers, return_inverse=True)
        found = _codes_of(level.words, pairs >> 8, pairs & 255)
        wrong = found[which] == 0
        self.damaged.update(followed[wrong].tolist())
        self.at[followed[wrong]] = NO_MOVE
        codes[followed] = found[which]
        sound = found != 0
        parents, moves = (pairs >> 8)[sound], found[sound]
        words, _ = positions_after(level.words, parents, moves)
        self.levels = [*(self.levels if self._keep else ()), Level(words, key_texts(words), parents, moves)]
        self.ply += 1
        self.at[followed[~wrong]] = (np.cumsum(sound) - 1)[which[~wrong]]
        return codes

    def line(self, ply: int, place: int) -> tuple[chess.Board, list[chess.Move]]:
        """Returns the first position of the first game that reached a position, and its moves up to there."""
        moves: list[chess.Move] = []
        for level in reversed(self.levels[1 : ply + 1]):
            moves.append(decode_move(int(level.codes[place])))
            place = int(level.parents[place])
        return unpack(self.levels[0].words[place]), moves[::-1]


def start_of(fen: str | None) -> chess.Board:
    """Returns the first position of a game; None is the start position."""
    return board_of(fen or chess.STARTING_FEN)


def _codes_of(words: Words, places: Ints, numbers: Ints) -> NDArray[np.uint16]:
    """Returns moves by their numbers in canonical order, `[K]`; 0 for an illegal number.

    `places`: `[K]`, row in `words` of each move, ascending.
    """
    codes = np.zeros(len(places), np.uint16)
    for first in range(0, len(places), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        rows, row = np.unique(places[part], return_inverse=True)
        counts, moves, _ = legal_codes(words[rows])
        number = numbers[part]
        codes[part] = np.where(number < counts[row], moves[row, np.minimum(number, MAX_MOVES - 1)], 0)
    return codes


# ------------------------------------------------------------------ positions that a player knows
ASKED_AT_ONCE = 50_000  # positions

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
