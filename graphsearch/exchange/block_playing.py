"""Replays blocks of games with a kernel; leaves games that the kernel cannot replay to `Player`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..position.board import POSITION_WORDS, pack_checked
from ..position.pgn_text import PgnGame
from ..store.codec.bulk import board_tables
from .movetext_layout import FIRST, MOVES
from .pgn_blocks import GameBlock
from .playing import MAX_STARTS, BrokenGameError, VariantError, start_board, start_fen
from .san_kernel import play_games

Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class PlayedBlock:
    """Replayed games of a block, in concatenated arrays.

    Attributes:
      places: index of each game in the block. games: their headers.
      firsts, counts: `[G]`: index of each game's first position in the arrays, and number of its moves.
      plies: `[G]`: half-moves before each game's first position, by its move number.
      positions: `[P, 10]`, before every move and at the end of each game. keys: `[P]`.
      codes, numbers: `[P]`: the move from each position, and its number in canonical order; 0 at the end of
        a game.
    """

    places: Sequence[int]
    games: Sequence[PgnGame]
    firsts: NDArray[np.int64]
    counts: NDArray[np.int64]
    plies: NDArray[np.int64]
    positions: Words
    keys: NDArray[np.uint64]
    codes: NDArray[np.uint16]
    numbers: NDArray[np.uint8]

    def part(self, games: Sequence[int]) -> PlayedBlock:
        """Returns some of the games, by index; the position arrays are shared."""
        if len(games) == len(self.games):
            return self
        at = np.array(games, np.int64)
        return replace(
            self,
            places=[self.places[i] for i in games],
            games=[self.games[i] for i in games],
            firsts=self.firsts[at],
            counts=self.counts[at],
            plies=self.plies[at],
        )

    def moves(self, game: int) -> bytes:
        """Returns the canonical numbers of a game's moves, one byte each."""
        first = int(self.firsts[game])
        return self.numbers[first : first + int(self.counts[game])].tobytes()


class BlockPlayer:
    """Replays the games of blocks.

    Args:
      max_ply: skip moves from positions of this ply on; None: skip none.
    """

    def __init__(self, max_ply: int | None = None) -> None:
        self._max_ply = max_ply
        self._starts: dict[str, tuple[Words, int] | None] = {}

    def play(self, block: GameBlock, least: int) -> tuple[PlayedBlock, list[int]]:
        """Returns the replayed games of a block, and the indices of the games that `Player` must replay.

        Args:
          least: number of games to skip at the beginning of the block.
        """
        rows = block.games.tolist()
        games = [block.game(row) for row in rows[least:]]
        found = [(least + i, game, start) for i, game in enumerate(games) if (start := self._start_of(game))]
        places = [place for place, _, _ in found]
        others = sorted(set(range(least, len(rows))) - set(places))
        counts = self._counts([rows[place][MOVES] for place in places], [start[1] for _, _, start in found])
        firsts = np.cumsum(counts + 1) - counts - 1
        size = int(np.sum(counts + 1))
        positions = np.zeros((size, POSITION_WORDS), np.uint64)
        if found:
            positions[firsts] = np.array([start[0] for _, _, start in found], np.uint64)
        keys, codes, numbers = np.zeros(size, np.uint64), np.zeros(size, np.uint16), np.zeros(size, np.uint8)
        played = np.zeros(len(found), np.int64)
        words = np.array([rows[place][FIRST] for place in places], np.int64)
        flat = (block.words.reshape(-1), words, counts, positions.reshape(-1))
        play_games(board_tables(), *flat, keys, codes, numbers, played)
        fitting = played == counts
        others = sorted([*others, *(place for place, fits in zip(places, fitting, strict=True) if not fits)])
        plies = np.array([start[1] for _, _, start in found], np.int64)
        headers = [game for _, game, _ in found]
        whole = PlayedBlock(places, headers, firsts, counts, plies, positions, keys, codes, numbers)
        return whole.part(np.flatnonzero(fitting).tolist()), others

    def _counts(self, moves: Sequence[int], plies: Sequence[int]) -> NDArray[np.int64]:
        counts = np.array(moves, np.int64)
        if self._max_ply is not None:
            counts = np.minimum(counts, np.maximum(0, self._max_ply - np.array(plies, np.int64)))
        return counts

    def _start_of(self, game: PgnGame) -> tuple[Words, int] | None:
        """Returns the first position of a game and its ply; None if `Player` must replay the game."""
        try:
            fen = start_fen(game)
        except (BrokenGameError, VariantError):
            return None
        if fen not in self._starts:
            if len(self._starts) >= MAX_STARTS:
                self._starts.clear()
            self._starts[fen] = _packed_start(game, fen)
        return self._starts[fen]


def _packed_start(game: PgnGame, fen: str) -> tuple[Words, int] | None:
    try:
        board = start_board(game, fen)
    except BrokenGameError:
        return None
    return None if board.chess960 else (pack_checked(board), board.ply())
