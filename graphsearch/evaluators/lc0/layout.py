"""Layout of a network's input and output; kernels compile these numbers in."""

from __future__ import annotations

from ...position.board import MOVE_CODES
from ..lines import LINE_PLIES

PLIES, PLY_PLANES = LINE_PLIES, 13  # 6 kinds of our men, 6 of theirs, repetition
THEIRS, REPETITION = 6, 12  # planes of a ply
AUXILIARY = PLIES * PLY_PLANES  # 104, the first plane of castling, side, clock and constants
PLANES = AUXILIARY + 8
PLACE_BITS = 0xFFF  # of META: side, castling, en passant

SQUARES = 64
POLICY_SIZE = 1858
CODES = MOVE_CODES
