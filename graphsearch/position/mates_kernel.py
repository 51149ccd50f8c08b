"""Which moves may give check, and mates in one: what a search sees of every new position."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import int64

from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U, ctz
from .board_kernel import (
    bishop_attacks,
    en_passant_of,
    from_square,
    generate_moves,
    in_check,
    is_attacked,
    make_move,
    rook_attacks,
    side_to_move,
    to_square,
)
from .tables import BE, BT, KI, KN, PA, RE
from .words import BISHOPS, BLACK, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE

LAST_RANKS = U(0xFF000000000000FF)


class CheckMasks(NamedTuple):
    """Squares that a move must come to, or leave, to give check.

    Attributes:
      pawn, knight, diagonal, straight: where such a piece attacks the opponent's king; `pawn` also has the
        squares of promotions and of en passant, which may check in other ways.
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
    ep = en_passant_of(s)
    pawn = T[PA + 64 * (1 - stm) + king] | LAST_RANKS
    return CheckMasks(
        pawn | (ONE << U(ep - 1)) if ep else pawn,
        T[KN + king],
        bishop_attacks(T, king, occupied),
        rook_attacks(T, king, occupied),
        screens,
    )


@inner
def checking_squares(s: Any, M: Any, start: Any) -> Any:
    """Returns the squares to which a move from `start` may give check; to others it certainly gives none."""
    bit = ONE << U(start)
    if M.screens & bit:
        return ~ZERO
    if s[PAWNS] & bit:
        return M.pawn
    if s[KNIGHTS] & bit:
        return M.knight
    if s[KINGS] & bit:
        return (bit << U(2)) | (bit >> U(2)) | (s[ROOKS] & s[WHITE + side_to_move(s)])  # castling
    reach = ZERO
    if (s[BISHOPS] | s[QUEENS]) & bit:
        reach |= M.diagonal
    if (s[ROOKS] | s[QUEENS]) & bit:
        reach |= M.straight
    return reach


@inner
def may_check(s: Any, M: Any, m: Any) -> Any:
    """Returns whether a move may give check; False is certain."""
    return (checking_squares(s, M, from_square(m)) >> U(to_square(m))) & ONE != ZERO


@inner
def king_can_move(T: Any, s: Any) -> Any:
    """Returns whether the king of the side to move has a square to step to."""
    stm = side_to_move(s)
    us = s[WHITE + stm]
    king = ctz(s[KINGS] & us)
    without_king = (s[WHITE] | s[BLACK]) ^ (ONE << U(king))
    steps = T[KI + king] & ~us
    while steps:
        if not is_attacked(T, s, ctz(steps), without_king, stm):
            return True
        steps &= steps - ONE
    return False


@inner
def is_mated(T: Any, s: Any, replies: Any) -> Any:
    """Returns whether the side to move is mated; `replies`: room for its moves."""
    return in_check(T, s) and not king_can_move(T, s) and generate_moves(T, s, replies) == 0


@inner
def mate_in_one(T: Any, s: Any, moves: Any, n: Any, c: Any, replies: Any) -> Any:
    """Returns the place of the first of `n` legal moves that mates, -1 if none does.

    `c`, `replies`: room for a child and its moves.
    """
    M = check_masks(T, s)
    start, squares = int64(-1), ZERO
    for i in range(n):
        if from_square(moves[i]) != start:  # the moves of a piece stand together
            start = from_square(moves[i])
            squares = checking_squares(s, M, start)
        if (squares >> U(to_square(moves[i]))) & ONE:
            make_move(T, s, c, moves[i])
            if is_mated(T, c, replies):
                return int64(i)
    return int64(-1)
