"""Input features of the networks: men on squares, by the own king's square, and attacked or undefended men.

A feature is the index of a row. Each side has a view of the board: in Black's the ranks are mirrored, in both
the files are, so that the own king is on a to d.

    man    64 * (kind, plus 6 for the other side's) + square
    every man has the row 768 * (bucket of the own king) + man
    and the row THREATS_AT + 768 * state + man if it has a state

    state  0 undefended; 1, 2 attacked; 3, 4 attacked by a lesser man: undefended, defended
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...jit.compiler import inlined, inner
from ...jit.pointers import ONE, ZERO, U, ctz
from ...jit.types import Pointer, int64, uint64
from ...position.attacks_kernel import FILE_A, FILE_H, bishop_attacks, rook_attacks
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

MOST_FEATURES = 128  # of a view: two for each of 64 men; legal positions have at most 32 men
BUCKETS = np.array(BUCKET_OF_KING, np.int64)


@inner
def pawn_attacks(pawns: uint64, side: int64) -> uint64:
    """Returns the squares that pawns of a side attack."""
    if side == 0:
        return ((pawns & ~FILE_A) << U(7)) | ((pawns & ~FILE_H) << U(9))
    return ((pawns & ~FILE_A) >> U(9)) | ((pawns & ~FILE_H) >> U(7))


class Attacks(NamedTuple):
    """Squares that a side attacks: with pawns; with pawns and minor pieces; with rooks, too; with all men."""

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
    """Returns the squares where a lesser man attacks a man of a kind; for a king, all attacked squares."""
    if kind == PAWNS:
        return ZERO
    if kind <= BISHOPS:
        return attacks.pawns
    if kind == ROOKS:
        return attacks.minors
    return attacks.rooks if kind == QUEENS else attacks.every


@inlined
def turn_of(s: Position, side: int64) -> int64:
    """Returns the XOR mask from squares to a side's view."""
    return 56 * side ^ (7 if ctz(s[KINGS] & s[WHITE + side]) & 4 else 0)


@inlined
def king_rows(s: Position, side: int64, turn: int64) -> int64:
    """Returns the first row of the bucket of a side's king; `turn`: `turn_of` the side."""
    square = ctz(s[KINGS] & s[WHITE + side]) ^ turn
    return int64(BOARD_FEATURES * BUCKETS[(square >> 3) * 4 + (square & 3)])


class Seen(NamedTuple):
    """Squares of both sides' men that are attacked, attacked by a lesser man, defended."""

    attacked: uint64
    cheaply: uint64
    defended: uint64


@inner
def seen_of(s: Position, white: Attacks, black: Attacks) -> Seen:
    """Returns the `Seen` of a position from the attacks of both sides."""
    cheaply = ZERO
    for kind in range(6):
        cheaply |= s[kind] & (s[WHITE] & threats_to(black, kind) | s[BLACK] & threats_to(white, kind))
    return Seen(
        s[WHITE] & black.every | s[BLACK] & white.every,
        cheaply,
        s[WHITE] & white.every | s[BLACK] & black.every,
    )


@inlined
def state_of(seen: Seen, square: uint64) -> int64:
    """Returns 2 * (attacked + attacked by a lesser man) + defended, for the man on a square.

    1, defended only, has no row; `list_men` translates the others into the states of rows.
    """
    attacked = (seen.attacked >> square & ONE) + (seen.cheaply >> square & ONE)
    return int64(attacked << ONE | (seen.defended >> square & ONE))


@inner
def list_men(
    s: Position, seen: Seen, other: Position, other_seen: Seen, every: bool, out: Pointer[int64]
) -> int64:
    """Writes the features of a position that `other` lacks, independent of the view; returns their number.

    Args:
      every: write all features, also those that `other` has.
      out: int64[MOST_FEATURES] out: square | colour << 6 | kind << 7 | (1 + state, or 0 for the man) << 10.
    """
    changed = seen.attacked ^ other_seen.attacked
    changed |= (seen.cheaply ^ other_seen.cheaply) | (seen.defended ^ other_seen.defended)
    n = int64(0)
    for kind in range(6):
        for colour in range(2):
            known = ZERO if every else other[kind] & other[WHITE + colour]
            men = s[kind] & s[WHITE + colour] & (~known | changed)
            while men:
                square = ctz(men)
                men &= men - ONE
                man = square | colour << 6 | kind << 7
                if not known >> U(square) & ONE:
                    out[n] = man
                    n += 1
                state = state_of(seen, U(square))
                if state != 1:
                    out[n] = man | (state if state else int64(1)) << 10
                    n += 1
    return n


@inner
def see(s: Position, side: int64, features: Pointer[int64], n: int64, out: Pointer[int64]) -> None:
    """Writes the rows of n features from `list_men` in a side's view; `out` may be `features`."""
    turn = turn_of(s, side)
    first = king_rows(s, side, turn)
    for i in range(n):
        word = features[i]
        theirs = ((word >> 6) & 1) ^ side
        man = 64 * ((word >> 7) & 7) + 384 * theirs + ((word & 63) ^ turn)
        state = word >> 10
        out[i] = man + (THREATS_AT + BOARD_FEATURES * (state - 1) if state else first)


@inner
def list_features(s: Position, seen: Seen, side: int64, out: Pointer[int64]) -> int64:
    """Writes the rows of a side's view, int64[MOST_FEATURES]; returns their number."""
    n = list_men(s, seen, s, seen, True, out)
    see(s, side, out, n, out)
    return n
