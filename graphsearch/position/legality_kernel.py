"""Whether a position that comes from outside is one of chess."""

from __future__ import annotations

from typing import Any

from numpy import int64

from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U, ctz
from .board_kernel import en_passant_of, in_check, is_attacked, is_dead, side_to_move
from .tables import PA
from .words import BLACK, CASTLING_SHIFT, KINGS, META, PAWNS, ROOKS, WHITE

ROOM = 1024  # sixteen men have at most 16 * 28 moves; a damaged position may have more than a legal one
CORNERS = (7, 0, 63, 56)  # of the rooks of castling rights K Q k q
HOMES = (4, 60)  # of the kings


@inner
def _has_castling(s: Any, right: Any, side: Any, home: Any, corner: Any) -> Any:
    """Returns False if there is a castling right without its king and rook."""
    if not (s[META] >> U(CASTLING_SHIFT + right)) & ONE:
        return True
    kings = s[KINGS] & s[WHITE + side] & (ONE << U(home))
    rooks = s[ROOKS] & s[WHITE + side] & (ONE << U(corner))
    return kings != ZERO and rooks != ZERO


@inner
def has_passed(s: Any, square: Any) -> Any:
    """Returns whether a pawn of the side that has moved may have passed a square by a double step."""
    stm = side_to_move(s)
    ahead = int64(8) if stm == 0 else int64(-8)
    if square >> 3 != (5 if stm == 0 else 2):
        return False
    target, passed, origin = ONE << U(square), ONE << U(square - ahead), ONE << U(square + ahead)
    free = (s[WHITE] | s[BLACK]) & (target | origin) == ZERO
    return free and s[PAWNS] & s[BLACK - stm] & passed != ZERO


@inner
def has_taker(T: Any, s: Any, square: Any) -> Any:
    """Returns whether a pawn of the side to move attacks a square."""
    stm = side_to_move(s)
    return T[PA + 64 * (1 - stm) + square] & s[PAWNS] & s[WHITE + stm] != ZERO


@inner
def _has_en_passant(T: Any, s: Any) -> Any:
    """Returns False if no pawn has passed the en-passant square, or none stands ready to take."""
    square = en_passant_of(s) - 1
    return square < 0 or (has_passed(s, square) and has_taker(T, s, square))


@inner
def is_legal(T: Any, s: Any) -> Any:
    """Returns whether a position with one king a side can be: the side that has moved is not in check, and
    castling rights and the en-passant square fit the men."""
    stm = side_to_move(s)
    for right in range(4):
        side = right >> 1
        if not _has_castling(s, int64(right), side, int64(HOMES[side]), int64(CORNERS[right])):
            return False
    king = ctz(s[KINGS] & s[BLACK - stm])
    return _has_en_passant(T, s) and not is_attacked(T, s, king, s[WHITE] | s[BLACK], 1 - stm)


@inner
def kind_of(T: Any, s: Any, moves: Any) -> Any:
    """Returns the terminal kind, as `position.terminal_kind`."""
    if is_dead(s):
        return int64(3)
    if moves:
        return int64(0)
    return int64(1) if in_check(T, s) else int64(2)
