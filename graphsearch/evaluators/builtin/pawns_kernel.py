"""The terms of the built-in evaluator that depend on pawns and kings alone, and an exact table of them."""

from __future__ import annotations

from typing import Any

from numpy import int64

from ...jit.compiler import inner
from ...jit.pointers import ONE, ZERO, U, adv, ctz
from ...position.words import BLACK, KINGS, PAWNS, WHITE
from .layout import OFFSETS
from .squares_kernel import FILE_A, beside, pawn_attacks, pawn_pushes, ranks_ahead, square_index

MATERIAL = OFFSETS["material"]
CONNECTED = OFFSETS["connected"]
ISOLATED = OFFSETS["isolated"]
DOUBLED = OFFSETS["doubled"]
BACKWARD = OFFSETS["backward"]
SHIELD = OFFSETS["shield"]
STORM = OFFSETS["storm"]

PAWN_PLACES_LOG = 9
PLACE = 8  # words of a place; the last is free
WHITE_PAWNS, BLACK_PAWNS, TERMS, PASSED, WHITE_KING, BLACK_KING, SHELTERS = range(7)
PAWN_WORDS = PLACE << PAWN_PLACES_LOG
PAWN_SHIFT = U(64 - PAWN_PLACES_LOG)
PAWN_MIX, OTHER_MIX = U(0x9E3779B97F4A7C15), U(0xC2B2AE3D27D4EB4F)


@inner
def one_pawn(weights: Any, own_pawns: Any, their_pawns: Any, side: Any, sq: Any) -> Any:
    """Returns the terms of one pawn among pawns."""
    rank = (sq >> 3) ^ (7 * side)
    file = FILE_A << U(sq & 7)
    near = beside(file)
    ahead = ranks_ahead(sq, side)
    opposed = 1 if file & ahead & their_pawns else 0
    bit = ONE << U(sq)
    score = weights[MATERIAL] + weights[square_index(int64(0), sq, side)]
    if file & ahead & own_pawns:
        score += weights[DOUBLED + opposed]
    if not (near & own_pawns):
        return score + weights[ISOLATED + opposed]
    if beside(bit) & own_pawns:
        score += weights[CONNECTED + rank]
    if pawn_attacks(own_pawns, side) & bit:
        score += weights[CONNECTED + 8 + rank]
    elif not (near & own_pawns & ~ahead):
        if pawn_attacks(their_pawns, 1 - side) & pawn_pushes(bit, side):
            score += weights[BACKWARD + opposed]
    return score


@inner
def pawn_structure(weights: Any, own_pawns: Any, their_pawns: Any, side: Any) -> Any:
    """Returns the terms of a side's pawns that depend on pawns alone, and which of them are passed."""
    score, passed = int64(0), ZERO
    left = own_pawns
    while left:
        sq = ctz(left)
        bit = left & ~(left - ONE)
        left ^= bit
        score += one_pawn(weights, own_pawns, their_pawns, side, sq)
        file = FILE_A << U(sq & 7)
        if not ((file | beside(file)) & ranks_ahead(sq, side) & their_pawns):
            passed |= bit
    return score, passed


@inner
def nearest_rank(pawns: Any, side: Any) -> Any:
    """Returns the rank, seen by a side, of the pawn nearest to that side; 0 if there is none."""
    if pawns == ZERO:
        return int64(0)
    if side == 0:
        return ctz(pawns) >> 3
    high = pawns
    while high & (high - ONE):
        high &= high - ONE
    return 7 - (ctz(high) >> 3)


@inner
def shelter_terms(weights: Any, s: Any, side: Any) -> Any:
    """Returns the terms of the pawns around a side's king."""
    own, them = s[WHITE + side], s[BLACK - side]
    sq = ctz(s[KINGS] & own)
    score = weights[MATERIAL + 5] + weights[square_index(int64(5), sq, side)]
    ahead = ranks_ahead(sq, side) if (sq >> 3) != 7 * (1 - side) else ZERO
    ahead |= U(0xFF) << U(sq & 56)
    centre = min(max(sq & 7, 1), 6)
    for file in range(centre - 1, centre + 2):
        pawns = s[PAWNS] & ahead & (FILE_A << U(file))
        row = 0 if file == (sq & 7) else 8
        score += weights[SHIELD + row + nearest_rank(pawns & own, side)]
        score += weights[STORM + row + nearest_rank(pawns & them, side)]
    return score


@inner
def both_structures(weights: Any, s: Any) -> Any:
    """Returns the terms of pawns among pawns, seen by White, and the passed pawns of both sides."""
    white, black = s[PAWNS] & s[WHITE], s[PAWNS] & s[BLACK]
    score, passed = pawn_structure(weights, white, black, int64(0))
    other, more = pawn_structure(weights, black, white, int64(1))
    return score - other, passed | more


@inner
def both_shelters(weights: Any, s: Any) -> Any:
    """Returns the terms of the pawns around both kings, seen by White."""
    return shelter_terms(weights, s, int64(0)) - shelter_terms(weights, s, int64(1))


@inner
def kept_structures(weights: Any, s: Any, kept: Any) -> Any:
    """Returns the terms of pawns and shelters, seen by White, and the passed pawns, from the table `kept`.

    A place holds the pawns of both sides, their terms, the passed pawns, both kings, and their shelters'
    terms. No two sides share a square and there are kings, so that a table of zeros or of one repeated word
    holds nothing untrue.
    """
    white, black = s[PAWNS] & s[WHITE], s[PAWNS] & s[BLACK]
    king, other_king = s[KINGS] & s[WHITE], s[KINGS] & s[BLACK]
    place = ((white * PAWN_MIX) ^ (black * OTHER_MIX)) >> PAWN_SHIFT
    at = adv(kept, int64(place) * PLACE)
    if at[WHITE_PAWNS] != white or at[BLACK_PAWNS] != black:
        score, passed = both_structures(weights, s)
        at[WHITE_PAWNS], at[BLACK_PAWNS], at[TERMS], at[PASSED], at[WHITE_KING] = (
            white,
            black,
            U(score),
            passed,
            ZERO,
        )
    if at[WHITE_KING] != king or at[BLACK_KING] != other_king:
        at[WHITE_KING], at[BLACK_KING], at[SHELTERS] = king, other_king, U(both_shelters(weights, s))
    return int64(at[TERMS]) + int64(at[SHELTERS]), at[PASSED]
