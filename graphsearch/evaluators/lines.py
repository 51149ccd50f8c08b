"""The previous positions of a batch's positions, for evaluators that use them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ..position.board import POSITION_WORDS, clock_of_words, game_before, pack
from ..position.words import KEY

LINE_PLIES = 8  # positions of a line that an evaluator gets, including the last one


@dataclass(frozen=True, slots=True)
class Lines:
    """The last eight positions of the lines that led to a batch's positions.

    Attributes:
      words: `[B, 8, 10]` uint64 packed positions: the one to evaluate, then the previous ones, the latest
        first; zeros for unknown ones.
      repeated: `[B, 8]` bool, whether each had occurred before, at any time in the game.
    """

    words: NDArray[np.uint64]
    repeated: NDArray[np.bool_]

    @classmethod
    def unknown(cls, count: int) -> Lines:
        """Returns `count` lines without any known position; the caller fills them."""
        return cls(
            np.zeros((count, LINE_PLIES, POSITION_WORDS), np.uint64), np.zeros((count, LINE_PLIES), bool)
        )

    @classmethod
    def alone(cls, words: NDArray[np.uint64]) -> Lines:
        """Returns the lines of positions `[B, 10]` with unknown previous positions."""
        lines = cls.unknown(len(words))
        lines.words[:, 0] = words
        return lines

    @classmethod
    def from_boards(cls, boards: Sequence[chess.Board]) -> Lines:
        """Returns the lines of Boards, from their move stacks."""
        lines = cls.unknown(len(boards))
        for row, board in enumerate(boards):
            past = [pack(board), *game_before(board, LINE_PLIES - 1)]
            for ply, words in enumerate(past[:LINE_PLIES]):
                lines.words[row, ply] = words
                returns = range(ply + 4, min(ply + clock_of_words(words) + 1, len(past)), 2)
                lines.repeated[row, ply] = any(past[i][KEY] == words[KEY] for i in returns)
        return lines

    def of(self, chosen: Any) -> Lines:
        """Returns the lines selected by a mask or a slice."""
        return Lines(self.words[chosen], self.repeated[chosen])
