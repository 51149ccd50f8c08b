"""Finds moves that may give check, and mates in one; searches do so at every new position."""

from __future__ import annotations

from typing import NamedTuple

from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U, ctz
from ..jit.types import Pointer, int64, uint16, uint64
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
from .words import BISHOPS, BLACK, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE, BoardTable, Position

LAST_RANKS = U(0xFF000000000000FF)


class CheckMasks(NamedTuple):
    """Bitboards of the squares that a checking move must enter or leave.

    Attributes:
      pawn, knight, diagonal, straight: squares from which such a piece attacks the opponent's king; `pawn`
        also has the squares of promotions and of en passant, which may check in other ways.
      screens: own men that stand alone between that king and an own slider.
    """

    pawn: uint64
    knight: uint64
    diagonal: uint64
    straight: uint64
    screens: uint64


@inner
def check_masks(T: BoardTable, s: Position) -> CheckMasks:
    """Returns the check masks of the side to move."""
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
def checking_squares(s: Position, M: CheckMasks, start: int64) -> uint64:
    """Returns the squares to which a move from `start` may give check; moves elsewhere certainly do not."""
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
def may_check(s: Position, M: CheckMasks, m: uint16) -> bool:
    """Returns whether a move may give check; False is certain."""
    return (checking_squares(s, M, from_square(m)) >> U(to_square(m))) & ONE != ZERO


@inner
def king_can_move(T: BoardTable, s: Position) -> bool:
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
def is_mated(T: BoardTable, s: Position, replies: Pointer[uint16]) -> bool:
    """Returns whether the side to move is mated; `replies`: room for its moves."""
    return in_check(T, s) and not king_can_move(T, s) and generate_moves(T, s, replies) == 0


@inner
def mate_in_one(
    T: BoardTable, s: Position, moves: Pointer[uint16], n: int64, c: Position, replies: Pointer[uint16]
) -> int64:
    """Returns the index of the first of `n` legal moves that mates, -1 if none does.

    Args:
      moves: the legal moves in canonical order.
      c, replies: scratch buffers for a child and its moves.
    """
    M = check_masks(T, s)
    start, squares = int64(-1), ZERO
    for i in range(n):
        if from_square(moves[i]) != start:  # the moves of one piece are mostly adjacent
            start = from_square(moves[i])
            squares = checking_squares(s, M, start)
        if (squares >> U(to_square(moves[i]))) & ONE:
            make_move(T, s, c, moves[i])
            if is_mated(T, c, replies):
                return int64(i)
    return int64(-1)
