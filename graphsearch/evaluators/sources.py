"""Where positions to evaluate come from: Boards, or the lines of a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import chess
import numpy as np
from numpy.typing import NDArray

from ..limits import TextLines
from ..position.board import POSITION_WORDS, pack_checked
from ..position.fen_lines import OnBadLine, read_lines
from .lines import Lines


@dataclass(frozen=True, slots=True)
class Positions:
    """Positions that `check` has let pass.

    Attributes:
      words: `[B, 10]` uint64 packed positions.
      numbers: `[B]` int64 fullmove numbers.
      boards: the same with the games that led to them; None if that is not known.
    """

    words: NDArray[np.uint64]
    numbers: NDArray[np.int64]
    boards: list[chess.Board] | None = None

    def __len__(self) -> int:
        return len(self.words)

    def lines(self) -> Lines:
        """Returns how they were reached."""
        return Lines.from_boards(self.boards) if self.boards else Lines.alone(self.words)


class Source(Protocol):
    """Positions in their order."""

    def take(self, most: int) -> Positions | None:
        """Returns the next ones, at most so many and perhaps none; None at the end."""

    def is_waiting(self) -> bool:
        """Returns whether nothing is there now and more may come later."""


class BoardSource(Source):
    """Boards that `check` has let pass."""

    def __init__(self, boards: Iterable[chess.Board]) -> None:
        """Takes the Boards as they are needed."""
        self._boards: Iterator[chess.Board] = iter(boards)

    def take(self, most: int) -> Positions | None:
        """Returns the next ones."""
        boards = list(islice(self._boards, most))
        words = np.array([pack_checked(board) for board in boards], np.uint64).reshape(-1, POSITION_WORDS)
        numbers = np.array([board.fullmove_number for board in boards], np.int64)
        return Positions(words, numbers, boards) if boards else None

    def is_waiting(self) -> bool:
        """Returns False."""
        return False


class LineSource(Source):
    """The positions of lines of FEN and EPD."""

    def __init__(self, lines: TextLines, on_bad: OnBadLine) -> None:
        """Takes the lines as they are needed.

        Args:
          on_bad: called with the number of a line that holds no legal position, and the reason.
        """
        self._lines, self._on_bad = lines, on_bad

    def take(self, most: int) -> Positions | None:
        """Returns the positions of the next lines, at most so many.

        Raises:
          InputFileError: if a line is too long to be text.
        """
        first, lines = self._lines.take(most)
        return Positions(*read_lines(lines, first, self._on_bad)) if lines else None

    def is_waiting(self) -> bool:
        """Returns whether the text comes through a pipe, and there is no line now."""
        return self._lines.is_waiting()
