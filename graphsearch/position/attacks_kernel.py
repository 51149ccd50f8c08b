"""Looks up the men on squares and the squares that they attack."""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.pointers import ONE, U
from ..jit.types import int64, uint64
from .tables import BE, BM, KI, KN, PA, RE, RM
from .words import BISHOPS, BLACK, KINGS, KNIGHTS, NO_MAN, PAWNS, QUEENS, ROOKS, BoardTable, Position

FILE_A, FILE_H = U(0x0101010101010101), U(0x8080808080808080)


@inner
def rook_attacks(T: BoardTable, square: int64, occupied: uint64) -> uint64:
    """Returns the squares a rook attacks."""
    i = RM + square * 4
    return T[T[i + 3] + (((occupied & T[i]) * T[i + 1]) >> T[i + 2])]


@inner
def bishop_attacks(T: BoardTable, square: int64, occupied: uint64) -> uint64:
    """Returns the squares a bishop attacks."""
    i = BM + square * 4
    return T[T[i + 3] + (((occupied & T[i]) * T[i + 1]) >> T[i + 2])]


@inner
def is_attacked(T: BoardTable, s: Position, square: int64, occupied: uint64, stm: int64) -> bool:
    """Returns whether the side not to move attacks a square, given the occupied squares."""
    them = s[BLACK - stm]
    if T[KN + square] & s[KNIGHTS] & them:
        return True
    if T[PA + 64 * stm + square] & s[PAWNS] & them:
        return True
    if T[KI + square] & s[KINGS] & them:
        return True
    straight = (s[ROOKS] | s[QUEENS]) & them
    if T[RE + square] & straight and rook_attacks(T, square, occupied) & straight:
        return True
    diagonal = (s[BISHOPS] | s[QUEENS]) & them
    if T[BE + square] & diagonal and bishop_attacks(T, square, occupied) & diagonal:
        return True
    return False


@inner
def piece_at(s: Position, square: int64) -> int64:
    """Returns the kind of piece on a square: 0 pawn to 5 king, 6 none."""
    bit = U(square)
    for kind in range(NO_MAN):
        if (s[kind] >> bit) & ONE:
            return kind
    return NO_MAN


@inner
def victim_at(s: Position, square: int64) -> int64:
    """Returns the kind of the man on an occupied square, not a king's; without branches."""
    bit = U(square)
    odd = ((s[KNIGHTS] | s[ROOKS]) >> bit) & ONE
    return int64(odd | (((s[BISHOPS] | s[ROOKS]) >> bit) & ONE) << ONE | ((s[QUEENS] >> bit) & ONE) << U(2))


@inner
def man_at(s: Position, square: int64) -> int64:
    """Returns the kind of the man on an occupied square; without branches."""
    return victim_at(s, square) + 5 * int64((s[KINGS] >> U(square)) & ONE)
