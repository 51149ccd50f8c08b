"""Checks whether a packed position from outside, such as a file, is legal."""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U, ctz
from ..jit.types import int64, uint64
from .attacks_kernel import bishop_attacks, is_attacked, rook_attacks
from .board_kernel import en_passant_of, in_check, is_dead, side_to_move
from .castling_kernel import chess960_fields, has_right, rook_square
from .tables import KN, PA
from .words import (
    BISHOPS,
    BLACK,
    CASTLING_BITS,
    CASTLING_SHIFT,
    CHESS960_SHIFT,
    KINGS,
    KNIGHTS,
    META,
    PAWNS,
    QUEENS,
    ROOKS,
    WHITE,
    BoardTable,
    Position,
)

ROOM = 1024  # sixteen men have at most 16 * 28 moves; a damaged position may have more than a legal one


@inner
def _has_castling(s: Position, right: int64) -> bool:
    if not has_right(s, right):
        return True
    own, rook = s[WHITE + (right >> 1)], rook_square(s[META], right)
    king = ctz(s[KINGS] & own)
    if king >> 3 != 7 * (right >> 1) or not ((s[ROOKS] & own) >> U(rook)) & ONE:
        return False
    return (rook > king) == (right & 1 == 0)


@inner
def _has_all_castling(s: Position) -> bool:
    """Returns whether the castling rights fit the men, and the rest of META fits the rights."""
    for right in range(4):
        if not _has_castling(s, int64(right)):
            return False
    rights = int64(s[META] >> U(CASTLING_SHIFT)) & CASTLING_BITS
    return chess960_fields(s, rights) == (s[META] >> U(CHESS960_SHIFT)) << U(CHESS960_SHIFT)


@inner
def has_passed(s: Position, square: int64) -> bool:
    """Returns whether the last move may have been a pawn's double step over `square`."""
    stm = side_to_move(s)
    ahead = int64(8) if stm == 0 else int64(-8)
    if square >> 3 != (5 if stm == 0 else 2):
        return False
    target, passed, origin = ONE << U(square), ONE << U(square - ahead), ONE << U(square + ahead)
    free = (s[WHITE] | s[BLACK]) & (target | origin) == ZERO
    return free and s[PAWNS] & s[BLACK - stm] & passed != ZERO


@inner
def has_taker(T: BoardTable, s: Position, square: int64) -> bool:
    """Returns whether a pawn of the side to move attacks a square."""
    stm = side_to_move(s)
    return T[PA + 64 * (1 - stm) + square] & s[PAWNS] & s[WHITE + stm] != ZERO


@inner
def _has_en_passant(T: BoardTable, s: Position) -> bool:
    """Returns whether the en passant square, if any, fits a double step and a pawn that attacks it."""
    square = en_passant_of(s) - 1
    return square < 0 or (has_passed(s, square) and has_taker(T, s, square))


@inner
def is_legal(T: BoardTable, s: Position) -> bool:
    """Returns whether a position with one king per side is legal.

    Checks that the side not to move is not in check, and that castling rights and the en passant square fit
    the men.
    """
    stm = side_to_move(s)
    if not _has_all_castling(s):
        return False
    king = ctz(s[KINGS] & s[BLACK - stm])
    return _has_en_passant(T, s) and not is_attacked(T, s, king, s[WHITE] | s[BLACK], 1 - stm)


@inner
def kind_of(T: BoardTable, s: Position, moves: int64) -> int64:
    """Returns the terminal kind, as `terminal_kind` of `board.py` does."""
    if is_dead(s):
        return int64(3)
    if moves:
        return int64(0)
    return int64(1) if in_check(T, s) else int64(2)


@inner
def checkers_of(T: BoardTable, s: Position) -> uint64:
    """Returns the men that give check to the side to move."""
    stm = side_to_move(s)
    king, occupied = ctz(s[KINGS] & s[WHITE + stm]), s[WHITE] | s[BLACK]
    leapers = (T[KN + king] & s[KNIGHTS]) | (T[PA + 64 * stm + king] & s[PAWNS])
    straight = rook_attacks(T, king, occupied) & (s[ROOKS] | s[QUEENS])
    diagonal = bishop_attacks(T, king, occupied) & (s[BISHOPS] | s[QUEENS])
    return (leapers | straight | diagonal) & s[BLACK - stm]
