"""Which moves may give check, and mates in one: what ends most lines of a mate search."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import int64

from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U, ctz
from ..position.board_kernel import (
    bishop_attacks,
    from_square,
    generate_moves,
    in_check,
    make_move,
    promotion_of,
    rook_attacks,
    side_to_move,
    to_square,
)
from ..position.tables import BE, BT, KN, PA, RE
from ..position.words import BISHOPS, BLACK, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE


class CheckMasks(NamedTuple):
    """Squares that a move must come to, or leave, to give check.

    Attributes:
      pawn, knight, diagonal, straight: where such a piece attacks the opponent's king.
      screens: own pieces that stand between it and an own slider.
    """

    pawn: Any
    knight: Any
    diagonal: Any
    straight: Any
    screens: Any


@inner
def check_masks(T: Any, s: Any) -> Any:
    """Returns the masks for the side to move."""
    stm = side_to_move(s)
    us = s[WHITE + stm]
    occupied = s[WHITE] | s[BLACK]
    king = ctz(s[KINGS] & s[BLACK - stm])
    snipers = ((T[RE + king] & (s[ROOKS] | s[QUEENS])) | (T[BE + king] & (s[BISHOPS] | s[QUEENS]))) & us
    screens = ZERO
    while snipers:
        between = T[BT + king * 64 + ctz(snipers)] & occupied
        if between != ZERO and (between & (between - ONE)) == ZERO:
            screens |= between & us
        snipers &= snipers - ONE
    return CheckMasks(
        T[PA + 64 * (1 - stm) + king],
        T[KN + king],
        bishop_attacks(T, king, occupied),
        rook_attacks(T, king, occupied),
        screens,
    )


@inner
def may_check(s: Any, M: Any, m: Any) -> Any:
    """Returns whether a move may give check; False is certain.

    Promotions, castling and pawns that change the file onto an empty square (en passant) are let through.
    """
    start, target = from_square(m), to_square(m)
    bit, to = ONE << U(start), ONE << U(target)
    if M.screens & bit or promotion_of(m):
        return True
    if s[PAWNS] & bit:
        return bool(M.pawn & to) or ((start ^ target) & 7 != 0 and not ((s[WHITE] | s[BLACK]) & to))
    if s[KNIGHTS] & bit:
        return bool(M.knight & to)
    if s[KINGS] & bit:
        return target - start == 2 or start - target == 2
    reach = ZERO
    if (s[BISHOPS] | s[QUEENS]) & bit:
        reach |= M.diagonal
    if (s[ROOKS] | s[QUEENS]) & bit:
        reach |= M.straight
    return bool(reach & to)


@inner
def mate_in_one(T: Any, s: Any, moves: Any, n: Any, c: Any, replies: Any) -> Any:
    """Returns the first of `n` legal moves that mates, 0 if none does; `c`, `replies`: room for a child's."""
    M = check_masks(T, s)
    for i in range(n):
        if may_check(s, M, moves[i]):
            make_move(T, s, c, moves[i])
            if in_check(T, c) and generate_moves(T, c, replies) == 0:
                return int64(moves[i])
    return int64(0)
