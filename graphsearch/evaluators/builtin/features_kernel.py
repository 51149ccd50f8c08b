"""What the networks see of a position: men on squares, attacked or not, defended or not.

A feature is the index of a row. Each side has a view of the board: Black's mirrors the ranks, and both mirror
the files so that the own king stands on a to d.

    768 * (2 * attacked + defended) + 64 * (kind, 6 more for the other side's) + square
"""

from __future__ import annotations

from typing import Any

from numpy import int64

from ...jit.compiler import inlined, inner
from ...jit.pointers import ONE, U, ctz
from ...position.board_kernel import bishop_attacks, rook_attacks, side_to_move
from ...position.tables import KI, KN
from ...position.words import BISHOPS, BLACK, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE
from .layout import BOARD_FEATURES

MOST_MEN = 64  # legal positions have 32; what is let in may have more
FILE_A, FILE_H = U(0x0101010101010101), U(0x8080808080808080)


@inner
def pawn_attacks(pawns: Any, side: Any) -> Any:
    """Returns the squares that pawns of a side attack."""
    if side == 0:
        return ((pawns & ~FILE_A) << U(7)) | ((pawns & ~FILE_H) << U(9))
    return ((pawns & ~FILE_A) >> U(9)) | ((pawns & ~FILE_H) >> U(7))


@inner
def attacks_of(T: Any, s: Any, side: Any) -> Any:
    """Returns all squares that a side attacks."""
    us, occupied = s[WHITE + side], s[WHITE] | s[BLACK]
    out = pawn_attacks(s[PAWNS] & us, side) | T[KI + ctz(s[KINGS] & us)]
    men = s[KNIGHTS] & us
    while men:
        out |= T[KN + ctz(men)]
        men &= men - ONE
    men = (s[BISHOPS] | s[QUEENS]) & us
    while men:
        out |= bishop_attacks(T, ctz(men), occupied)
        men &= men - ONE
    men = (s[ROOKS] | s[QUEENS]) & us
    while men:
        out |= rook_attacks(T, ctz(men), occupied)
        men &= men - ONE
    return out


@inlined
def turn_of(s: Any, side: Any) -> Any:
    """Returns what a side XORs squares with to see them in its view."""
    return 56 * side ^ (7 if ctz(s[KINGS] & s[WHITE + side]) & 4 else 0)


@inner
def list_features(s: Any, ours: Any, theirs: Any, own: Any, other: Any) -> Any:
    """Writes the features of both views; returns how many each has.

    Args:
      ours, theirs: squares that the side to move attacks, and the other side.
      own, other: int64[MOST_MEN] out: the view of the side to move, and the other.
    """
    stm = side_to_move(s)
    turn, turn2 = turn_of(s, stm), turn_of(s, 1 - stm)
    n = int64(0)
    for whose in range(2):  # the men of the side to move, then the other's
        attacked, defended = (theirs, ours) if whose == 0 else (ours, theirs)
        men_of = s[WHITE + (stm ^ whose)]
        for kind in range(6):
            men = s[kind] & men_of
            while men:
                square = ctz(men)
                men &= men - ONE
                state = int64(((attacked >> U(square)) & ONE) << ONE | ((defended >> U(square)) & ONE))
                first = BOARD_FEATURES * state + 64 * kind
                own[n] = first + 384 * whose + (square ^ turn)
                other[n] = first + 384 * (1 - whose) + (square ^ turn2)
                n += 1
    return n
