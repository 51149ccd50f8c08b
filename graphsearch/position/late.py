"""Positions late in the halfmove clock: from 100 on a draw may be claimed, and at 150 the game is over."""

from __future__ import annotations

import chess
import numpy as np
from numpy.typing import NDArray

from .board import CLOCK_DRAW, CLOCK_END, NOT_TERMINAL, pack, terminal_kind


def may_claim(board: chess.Board) -> bool:
    """Returns whether the side to move may claim a draw by the 50-move rule.

    >>> [may_claim(chess.Board(f"7k/8/8/8/8/8/8/K5R1 w - - {clock} 90")) for clock in (99, 100, 150)]
    [False, True, False]
    """
    return CLOCK_DRAW <= board.halfmove_clock < CLOCK_END and terminal_kind(board) == NOT_TERMINAL


def is_over_by_clock(board: chess.Board) -> bool:
    """Returns whether the 75-move rule ends the game; a checkmate or stalemate on the board comes first.

    >>> is_over_by_clock(chess.Board("7k/8/8/8/8/8/8/K5R1 w - - 150 90"))
    True
    """
    return board.halfmove_clock >= CLOCK_END and terminal_kind(board) == NOT_TERMINAL


def pack_root(board: chess.Board) -> NDArray[np.uint64]:
    """Returns the packed words of a position in which the side to move plays on instead of claiming a draw.

    Solvers take a clock of 100 for a draw. With 99, moves that mate or reset the clock count, and all others
    draw.
    """
    if board.halfmove_clock < CLOCK_DRAW:
        return pack(board)
    root = board.copy(stack=False)
    root.halfmove_clock = CLOCK_DRAW - 1
    return pack(root)
