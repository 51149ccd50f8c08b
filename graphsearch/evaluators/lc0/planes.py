"""A network's input from packed positions: lc0's INPUT_CLASSICAL_112_PLANE, for positions without history.

A record is shared by every path to its position, so what came before cannot enter its value. The planes
of earlier plies are therefore filled from the position itself, as lc0 does for a FEN without moves
(`--history-fill=fen_only`): each repeats the position, before the double pawn push where an en-passant
square names one; before the start position there is nothing.

Everything is seen by the side to move: with Black to move the ranks are mirrored, files stay. Planes:
0-103 eight plies of 13 (our P N B R Q K, their P N B R Q K, repetition), 104 our O-O-O, 105 our O-O,
106 their O-O-O, 107 their O-O, 108 ones if Black moves, 109 the halfmove clock, 110 zeros, 111 ones.
"""

from __future__ import annotations

from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ...position.board import pack

HISTORY_FILL = "fen_only"  # lc0's name for what these planes say of the past

PLIES, PLY_PLANES = 8, 13  # 6 kinds of our pieces, 6 of theirs, repetition
AUXILIARY = PLIES * PLY_PLANES  # 104, where castling, side, clock and constants begin
PLANES = AUXILIARY + 8
THEIR_PAWNS = 6  # the plane of a ply in which a double push is undone

_BLACK_BIT, _PLACE_BITS = np.uint64(1), np.uint64(0xFFF)  # of the meta word: side; side, castling, en passant
_CASTLING_BITS = np.array([[2, 1, 4, 3], [4, 3, 2, 1]], np.uint64)  # meta bits of planes 104-107; by side
_START = pack(chess.Board())
_SQUARES_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")

Words = NDArray[np.uint64]


def input_planes(words: Words, dtype: Any = np.float32) -> NDArray[Any]:
    """Returns the planes of packed positions, `[B, 112, 8, 8]` of `dtype`: rank, then file; a1 comes first.

    Every plane but the clock's holds 0 and 1.

    Args:
      words: `[B, 10]` uint64 packed positions.
      dtype: the network's own, float32 or float16.
    """
    black = black_moves(words)
    planes = np.empty((len(words), PLANES, 8, 8), dtype)
    plies = planes[:, :AUXILIARY].reshape(len(words), PLIES, PLY_PLANES, 8, 8)
    plies[:, :, :12] = _boards(words, black, dtype)[:, None]
    plies[:, :, 12] = 0  # a position without history has not been repeated
    _undo_double_pushes(plies, words[:, 8])
    plies[_are_start(words), 1:] = 0
    planes[:, AUXILIARY:] = _auxiliary(words[:, 8], black)[:, :, None, None]
    return planes


def black_moves(words: Words) -> NDArray[np.bool_]:
    """Returns which packed positions have Black to move, `[B]`."""
    return (words[:, 8] & _BLACK_BIT).astype(np.bool_)


def _boards(words: Words, black: NDArray[np.bool_], dtype: Any) -> NDArray[Any]:
    """Returns the twelve piece planes of the positions, `[B, 12, 8, 8]`."""
    ours = np.where(black, words[:, 7], words[:, 6])
    kinds = words[:, :6]
    pieces = np.concatenate([kinds & ours[:, None], kinds & ~ours[:, None]], axis=1)
    pieces[black] = pieces[black].byteswap()  # a rank is a byte
    ranks = pieces.astype("<u8", copy=False).view(np.uint8).reshape(len(words), 12, 8)
    squares: NDArray[Any] = _SQUARES_OF_BYTE.astype(dtype)[ranks]
    return squares


def _undo_double_pushes(plies: NDArray[Any], meta: Words) -> None:
    """Puts the pawn that may be captured en passant back to its home square, in the plies before this one."""
    squares = (meta >> np.uint64(5)).astype(np.int64) & 127  # en-passant square + 1, 0 for none
    rows = np.nonzero(squares)[0]
    files = (squares[rows] - 1) & 7
    for ply in range(1, PLIES):
        plies[rows, ply, THEIR_PAWNS, 4, files] = 0  # seen from here it went from the 7th rank to the 5th
        plies[rows, ply, THEIR_PAWNS, 6, files] = 1


def _are_start(words: Words) -> NDArray[np.bool_]:
    """Returns which positions are the start position, whatever the clock says, `[B]`."""
    pieces = (words[:, :8] == _START[:8]).all(axis=1)
    same: NDArray[np.bool_] = pieces & ((words[:, 8] & _PLACE_BITS) == (_START[8] & _PLACE_BITS))
    return same


def _auxiliary(meta: Words, black: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Returns the values of planes 104 to 111, `[B, 8]`."""
    values = np.zeros((len(meta), 8), np.float32)
    values[:, :4] = (meta[:, None] >> _CASTLING_BITS[black.astype(np.int64)]) & np.uint64(1)
    values[:, 4] = black
    values[:, 5] = (meta >> np.uint64(12)) & np.uint64(255)
    values[:, 7] = 1
    return values
