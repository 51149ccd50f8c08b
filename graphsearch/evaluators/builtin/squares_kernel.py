"""Squares as the evaluation sees them: pawn spans, attacks, distances, where a square's weight lies."""

from __future__ import annotations

from typing import Any

from ...jit.compiler import inner
from ...jit.pointers import ONE, ZERO, U
from ...position.board_kernel import bishop_attacks, rook_attacks
from ...position.tables import KN
from .layout import OFFSETS

ALL = U(0xFFFFFFFFFFFFFFFF)
FILE_A, FILE_H = U(0x0101010101010101), U(0x8080808080808080)
PIECE_SQUARE = OFFSETS["piece_square"]


@inner
def pawn_attacks(pawns: Any, side: Any) -> Any:
    """Returns the squares that pawns of a side attack."""
    if side == 0:
        return ((pawns & ~FILE_A) << U(7)) | ((pawns & ~FILE_H) << U(9))
    return ((pawns & ~FILE_A) >> U(9)) | ((pawns & ~FILE_H) >> U(7))


@inner
def pawn_pushes(pawns: Any, side: Any) -> Any:
    """Returns the squares one step ahead of pawns of a side."""
    if side == 0:
        return pawns << U(8)
    return pawns >> U(8)


@inner
def ranks_ahead(sq: Any, side: Any) -> Any:
    """Returns all squares on the ranks ahead of a square (not on rank 8 of the side)."""
    if side == 0:
        return ALL << U((sq & 56) + 8)
    return (ONE << U(sq & 56)) - ONE


@inner
def beside(files: Any) -> Any:
    """Returns the squares one file to the left and right."""
    return ((files & ~FILE_A) >> U(1)) | ((files & ~FILE_H) << U(1))


@inner
def distance(a: Any, b: Any) -> Any:
    """Returns the number of king steps between two squares."""
    files = abs((a & 7) - (b & 7))
    ranks = abs((a >> 3) - (b >> 3))
    return max(files, ranks)


@inner
def piece_attacks(T: Any, piece: Any, sq: Any, occupied: Any) -> Any:
    """Returns the squares that a knight, bishop, rook or queen (1..4) attacks."""
    if piece == 1:
        return T[KN + sq]
    out = ZERO
    if piece != 3:
        out |= bishop_attacks(T, sq, occupied)
    if piece != 2:
        out |= rook_attacks(T, sq, occupied)
    return out


@inner
def square_index(piece: Any, sq: Any, side: Any) -> Any:
    """Returns where the weight of a piece on a square lies: ranks seen by its side, files folded."""
    rank = (sq >> 3) ^ (7 * side)
    file = sq & 7
    return PIECE_SQUARE + piece * 32 + rank * 4 + min(file, 7 - file)
