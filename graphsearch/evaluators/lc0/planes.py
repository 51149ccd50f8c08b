"""A network's input from packed positions: lc0's INPUT_CLASSICAL_112_PLANE, or _112_WITH_CASTLING_PLANE.

Eight plies are shown, the latest first. Where the line by which a position was reached is not known, or not
asked for, the plies before it are filled from the oldest position that is, as lc0 does
(`--history-fill=fen_only`): each repeats that position, before the double pawn push where an en-passant
square names one; before the start position there is nothing.

Everything is seen by the side to move of the latest position: with Black to move the ranks are mirrored,
files stay. Planes:
0-103 eight plies of 13 (our P N B R Q K, their P N B R Q K, repetition), 104 our O-O-O, 105 our O-O,
106 their O-O-O, 107 their O-O, 108 ones if Black moves, 109 the halfmove clock, 110 zeros, 111 ones.
With castling planes, 104 has the rooks of both sides that may castle O-O-O, 105 those that may castle O-O;
106 and 107 are zeros. Such networks see which rook of Chess960 it is, the others only the side.
"""

from __future__ import annotations

from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ...position.board import pack
from ..lines import Lines
from .layout import PLANES, PLIES

HISTORY_FILL = "fen_only"  # lc0's name for what these planes say of the past that is not known

_START = pack(chess.Board())


def input_planes(
    words: NDArray[np.uint64], dtype: Any = np.float32, *, lines: Lines | None = None, rooks: bool = False
) -> NDArray[Any]:
    """Returns the planes of packed positions, `[B, 112, 8, 8]` of `dtype`: rank, then file; a1 comes first.

    Every plane but the clock's holds 0 and 1.

    Args:
      words: `[B, 10]` uint64 packed positions.
      dtype: the network's own, float32 or float16.
      lines: by which they were reached, for a network that is to see them.
      rooks: with castling planes.
    """
    from .network_kernel import fill_planes

    planes = np.zeros((len(words), PLANES, 8, 8), np.float32)
    if lines is None:
        shown, repeated, plies = words, np.zeros(len(words), np.uint8), 1
    else:
        shown, repeated, plies = lines.words, lines.repeated.view(np.uint8), PLIES
    fill_planes(
        np.ascontiguousarray(shown).reshape(-1),
        repeated.reshape(-1),
        plies,
        _START,
        int(rooks),
        planes.reshape(-1),
    )
    return planes.astype(dtype, copy=False)
