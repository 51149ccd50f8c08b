"""Positions of many lines of FEN and EPD: a kernel reads the plain ones, python-chess the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidPositionError
from ..limits import FEN
from .board import POSITION_WORDS, pack_checked
from .fen_kernel import READ, UNCERTAIN, read_fens
from .notation import read_fen_lines
from .tables import load_tables

OnBadLine = Callable[[int, InvalidPositionError], object]


def read_lines(
    lines: Sequence[bytes], first: int, on_bad: OnBadLine
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Returns the positions of lines, `[R, 10]` packed, and their fullmove numbers, `[R]`.

    Lines are read as by `read_fen_lines`: blank ones and comments have no position.

    Args:
      lines: without the newlines at their ends.
      first: the number of the first one.
      on_bad: called with the number of a line that holds no legal position, and the reason.

    >>> words, numbers = read_lines([b"# two", b"8/8/8/8/8/8/8/K1k5 w - - 7 30", b"e4"], 1, print)
    3 a FEN needs at least four fields (pieces, side to move, castling, en passant), not 'e4'
    >>> words.shape, numbers.tolist()
    ((1, 10), [30])
    """
    words = np.zeros((len(lines), POSITION_WORDS), np.uint64)
    numbers, verdicts = np.zeros(len(lines), np.int64), np.zeros(len(lines), np.uint8)
    text = np.frombuffer(b"\n".join([*lines, b""]), np.uint8)
    read_fens(load_tables(), text, FEN.most, words.reshape(-1), numbers, verdicts)
    for row in np.flatnonzero(verdicts == UNCERTAIN).tolist():
        for _, item in read_fen_lines([lines[row].decode("utf-8", "replace")]):
            if isinstance(item, InvalidPositionError):
                on_bad(first + row, item)
                continue
            words[row], numbers[row], verdicts[row] = pack_checked(item), item.fullmove_number, READ
    return words[verdicts == READ], numbers[verdicts == READ]
