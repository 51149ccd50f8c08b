"""What the networks see of a position: men on squares, where the own king stands, what is attacked or hangs.

A feature is the index of a row. Each side has a view of the board: Black's mirrors the ranks, and both mirror
the files so that the own king stands on a to d.

    man    64 * (kind, 6 more for the other side's) + square
    every man has the row 768 * (bucket of the own king) + man
    and the row THREATS_AT + 768 * state + man if it has a state

    state  0 undefended; 1, 2 attacked; 3, 4 attacked by what is worth less: undefended, defended
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...jit.compiler import inlined, inner
from ...jit.pointers import ONE, ZERO, U, ctz
from ...jit.types import Pointer, int64, uint64
from ...position.attacks_kernel import FILE_A, FILE_H, bishop_attacks, rook_attacks
from ...position.board_kernel import side_to_move
from ...position.tables import KI, KN
from ...position.words import (
    BISHOPS,
    BLACK,
    KINGS,
    KNIGHTS,
    PAWNS,
    QUEENS,
    ROOKS,
    WHITE,
    BoardTable,
    Position,
)
from .layout import BOARD_FEATURES, BUCKET_OF_KING, THREATS_AT

MOST_FEATURES = 128  # of a view: two of each of 64 men. Legal positions have 32; what is let in may have more
BUCKETS = np.array(BUCKET_OF_KING, np.int64)


@inner
def pawn_attacks(pawns: uint64, side: int64) -> uint64:
    """Returns the squares that pawns of a side attack."""
    if side == 0:
        return ((pawns & ~FILE_A) << U(7)) | ((pawns & ~FILE_H) << U(9))
    return ((pawns & ~FILE_A) >> U(9)) | ((pawns & ~FILE_H) >> U(7))


class Attacks(NamedTuple):
    """Squares that a side attacks: with pawns, with minor pieces or pawns, with rooks too, with all men."""

    pawns: uint64
    minors: uint64
    rooks: uint64
    every: uint64


@inner
def attacks_of(T: BoardTable, s: Position, side: int64) -> Attacks:
    """Returns the `Attacks` of a side."""
    us, occupied = s[WHITE + side], s[WHITE] | s[BLACK]
    pawns = pawn_attacks(s[PAWNS] & us, side)
    minors = pawns
    men = s[KNIGHTS] & us
    while men:
        minors |= T[KN + ctz(men)]
        men &= men - ONE
    men = s[BISHOPS] & us
    while men:
        minors |= bishop_attacks(T, ctz(men), occupied)
        men &= men - ONE
    rooks = minors
    men = s[ROOKS] & us
    while men:
        rooks |= rook_attacks(T, ctz(men), occupied)
        men &= men - ONE
    every = rooks | T[KI + ctz(s[KINGS] & us)]
    men = s[QUEENS] & us
    while men:
        every |= bishop_attacks(T, ctz(men), occupied) | rook_attacks(T, ctz(men), occupied)
        men &= men - ONE
    return Attacks(pawns, minors, rooks, every)


@inner
def threats_to(attacks: Attacks, kind: int64) -> uint64:
    """Returns where a man of a kind is attacked by something that is worth less; a king by anything."""
    if kind == PAWNS:
        return ZERO
    if kind <= BISHOPS:
        return attacks.pawns
    if kind == ROOKS:
        return attacks.minors
    return attacks.rooks if kind == QUEENS else attacks.every


@inlined
def turn_of(s: Position, side: int64) -> int64:
    """Returns what a side XORs squares with to see them in its view."""
    return 56 * side ^ (7 if ctz(s[KINGS] & s[WHITE + side]) & 4 else 0)


@inlined
def king_rows(s: Position, side: int64, turn: int64) -> int64:
    """Returns the first row of the bucket of a side's king; `turn`: of its view."""
    square = ctz(s[KINGS] & s[WHITE + side]) ^ turn
    return int64(BOARD_FEATURES * BUCKETS[(square >> 3) * 4 + (square & 3)])


@inner
def list_features(
    s: Position, ours: Attacks, theirs: Attacks, own: Pointer[int64], other: Pointer[int64]
) -> int64:
    """Writes the features of both views; returns how many each has.

    Args:
      ours, theirs: `Attacks` of the side to move, and of the other side.
      own, other: int64[MOST_FEATURES] out: the view of the side to move, and the other.
    """
    stm = side_to_move(s)
    turn, turn2 = turn_of(s, stm), turn_of(s, 1 - stm)
    first, first2 = king_rows(s, stm, turn), king_rows(s, 1 - stm, turn2)
    n = int64(0)
    for whose in range(2):  # the men of the side to move, then the other's
        attacks, defended = (theirs, ours.every) if whose == 0 else (ours, theirs.every)
        men_of = s[WHITE + (stm ^ whose)]
        for kind in range(6):
            men = s[kind] & men_of
            threats = threats_to(attacks, kind)
            while men:
                square = ctz(men)
                men &= men - ONE
                man = 64 * kind + 384 * whose + (square ^ turn)
                man2 = 64 * kind + 384 * (1 - whose) + (square ^ turn2)
                own[n] = first + man
                other[n] = first2 + man2
                n += 1
                attacked = (attacks.every >> U(square) & ONE) + (threats >> U(square) & ONE)
                state = int64(attacked << ONE | (defended >> U(square) & ONE))
                if state != 1:
                    row = THREATS_AT + BOARD_FEATURES * (state - 1 if state else state)
                    own[n] = row + man
                    other[n] = row + man2
                    n += 1
    return n
