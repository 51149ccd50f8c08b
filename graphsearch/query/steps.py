"""Legal moves and the positions after them, for a batch of packed positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import chess
import numpy as np
from numpy.typing import NDArray

from ..position.board import MAX_MOVES, POSITION_WORDS, encode_move
from ..position.rules_kernel import list_moves as _list_moves
from ..position.rules_kernel import make_steps as _make_steps
from ..store.codec.bulk import board_tables, owned

Words = NDArray[np.uint64]  # `[10]` or `[R, 10]`: packed positions; or their keys
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

CASTLING_STEP = 2  # files that a king moves in castling only


def legal_codes(words: Words) -> tuple[NDArray[np.int16], NDArray[np.uint16], NDArray[np.uint8]]:
    """Returns the legal moves of packed positions, `[R, 10]`, as arrays.

    Returns:
      counts: `[R]`. codes: `[R, MAX_MOVES]`, by `encode_move`, in canonical order, 0 after the last.
        marks: likewise, CHECK or CHECK | MATE for a move that gives it, else 0.
    """
    rows = len(words)
    counts = np.zeros(rows, np.int16)
    moves = np.zeros((rows, MAX_MOVES), np.uint16)
    marks = np.zeros((rows, MAX_MOVES), np.uint8)
    flat = owned(words, np.uint64).reshape(-1)
    _list_moves(board_tables(), flat, counts, moves.reshape(-1), marks.reshape(-1))
    return counts, moves, marks


def positions_after(
    words: Words, of: Sequence[int] | Ints, codes: Sequence[int] | NDArray[np.uint16]
) -> tuple[Words, NDArray[np.uint64]]:
    """Returns the positions after legal moves, `[K, 10]`, and their keys, `[K]`.

    Args:
      words: `[R, 10]`. of: `[K]`, row of the position of each move. codes: `[K]`, the moves.
    """
    children = np.zeros((len(of), POSITION_WORDS), np.uint64)
    keys = np.zeros(len(of), np.uint64)
    flat = owned(words, np.uint64).reshape(-1)
    where, moves = np.array(of, np.int64), np.array(codes, np.uint16)
    _make_steps(board_tables(), flat, where, moves, children.reshape(-1), keys)
    return children, keys


def uci_of(code: int) -> str:
    """Returns a move code as UCI.

    >>> uci_of(20016)
    'a7a8q'
    """
    squares = chess.SQUARE_NAMES
    return f"{squares[code & 63]}{squares[code >> 6 & 63]}{' nbrq'[code >> 12].strip()}"


@cache
def code_of(uci: str) -> int:
    """Returns the code of a move in UCI; 0, no move, for `0000`.

    >>> code_of("e2e4"), code_of("0000")
    (1804, 0)
    """
    return encode_move(chess.Move.from_uci(uci)) if uci != "0000" else 0
