"""Which moves may give check, and mates in one: what ends most lines of a mate search."""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import int64

from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U, ctz
from ..position.board_kernel import bishop_attacks, generate_moves, in_check, make_move, rook_attacks
from ..position.tables import BE, BT, KN, PA, RE


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
    stm = int64(s[8] & ONE)
    us = s[6 + stm]
    occupied = s[6] | s[7]
    king = ctz(s[5] & s[7 - stm])
    snipers = ((T[RE + king] & (s[3] | s[4])) | (T[BE + king] & (s[2] | s[4]))) & us
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
    mm = int64(m)
    start, target = mm & 63, (mm >> 6) & 63
    bit, to = ONE << U(start), ONE << U(target)
    if M.screens & bit or mm >> 12:
        return True
    if s[0] & bit:
        return bool(M.pawn & to) or ((start ^ target) & 7 != 0 and not ((s[6] | s[7]) & to))
    if s[1] & bit:
        return bool(M.knight & to)
    if s[5] & bit:
        return target - start == 2 or start - target == 2
    reach = ZERO
    if (s[2] | s[4]) & bit:
        reach |= M.diagonal
    if (s[3] | s[4]) & bit:
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
