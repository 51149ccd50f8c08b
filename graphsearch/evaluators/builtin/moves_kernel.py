"""What the built-in evaluator sees of a move without searching it: squares, exchange, checks, threats."""

from __future__ import annotations

from typing import Any

from numpy import int64

from ...jit.compiler import inner
from ...jit.pointers import ONE, ZERO, U, adv, ctz
from ...position.board_kernel import from_square, piece_at, promotion_of, side_to_move, to_square
from ...position.tables import KI
from ...position.words import BLACK, KINGS, PAWNS, WHITE
from ..quiescence.captures_kernel import capture_gain, exchange
from .layout import OFFSETS
from .squares_kernel import (
    FILE_A,
    PIECE_SQUARE,
    beside,
    pawn_attacks,
    piece_attacks,
    ranks_ahead,
    square_index,
)
from .terms_kernel import ATTACKS_ALL, INFO_WORDS

MOVE_FROM = OFFSETS["move_from"]
MOVE_TO = OFFSETS["move_to"]
MOVE_CAPTURE = OFFSETS["move_capture"]
MOVE_CHECK = OFFSETS["move_check"]
MOVE_PROMOTION = OFFSETS["move_promotion"]
MOVE_CASTLE = OFFSETS["move_castle"]
MOVE_LEAVES_ATTACK = OFFSETS["move_leaves_attack"]
MOVE_ENTERS_ATTACK = OFFSETS["move_enters_attack"]
MOVE_THREAT = OFFSETS["move_threat"]
MOVE_ZONE = OFFSETS["move_zone"]
MOVE_PASSED = OFFSETS["move_passed"]
MOVE_EVADES = OFFSETS["move_evades"]


@inner
def exchange_class(T: Any, s: Any, m: Any, theirs: Any, gains: Any) -> Any:
    """Returns 0 if the exchange on the target square loses, 1 if it is even, 2 if it wins."""
    gain = capture_gain(s, m)
    target = ONE << U(to_square(m))
    if gain == 0 and not (theirs[ATTACKS_ALL] & target):
        return int64(1)
    result = exchange(T, s, m, gains)
    return int64(0) if result < 0 else (int64(2) if result > 0 else int64(1))


@inner
def lesser_attacks(theirs: Any, kind: Any) -> Any:
    """Returns the squares that enemies worth less than a kind attack (knight and bishop count the same)."""
    out = ZERO
    for piece in range(kind if kind < 5 else 0):
        if not (kind == 2 and piece == 1):
            out |= theirs[piece]
    return out


@inner
def threats_of(T: Any, weights: Any, s: Any, kind: Any, target: Any, occupied: Any, stm: Any) -> Any:
    """Returns the terms of what a moved piece attacks from its target square."""
    bit = ONE << U(target)
    them = s[BLACK - stm] & ~bit
    if kind == 0:
        attacks = pawn_attacks(bit, stm)
    elif kind == 5:
        attacks = T[KI + target]
    else:
        attacks = piece_attacks(T, kind, target, occupied)
    score = int64(0)
    for piece in range(5):
        if attacks & s[piece] & them:
            score += weights[MOVE_THREAT + kind * 6 + piece]
    if attacks & s[KINGS] & them:
        score += weights[MOVE_THREAT + kind * 6 + 5]
    if attacks & T[KI + ctz(s[KINGS] & them)]:
        score += weights[MOVE_ZONE + kind]
    return score


@inner
def pawn_move_terms(weights: Any, s: Any, start: Any, target: Any, stm: Any) -> Any:
    """Returns the terms of a move of a passed pawn."""
    files = FILE_A << U(start & 7)
    if (files | beside(files)) & ranks_ahead(start, stm) & s[PAWNS] & s[BLACK - stm]:
        return int64(0)
    return weights[MOVE_PASSED + ((target >> 3) ^ (7 * stm))]


@inner
def move_terms(T: Any, weights: Any, s: Any, m: Any, infos: Any, checks: Any, evades: Any) -> Any:
    """Returns the packed sum of what is seen of a move unsearched; `infos` ends with room for gains."""
    start, target, promotion = from_square(m), to_square(m), promotion_of(m)
    stm = side_to_move(s)
    kind = piece_at(s, start)
    info, theirs = adv(infos, stm * INFO_WORDS), adv(infos, (1 - stm) * INFO_WORDS)
    start_bit, bit = ONE << U(start), ONE << U(target)
    score = weights[square_index(kind, start, stm) - PIECE_SQUARE + MOVE_FROM]
    score += weights[square_index(kind, target, stm) - PIECE_SQUARE + MOVE_TO]
    outcome = exchange_class(T, s, m, theirs, adv(infos, 2 * INFO_WORDS))
    victim = piece_at(s, target)
    score += weights[MOVE_CAPTURE + outcome * 6 + min(victim, 5)]
    if checks:
        score += weights[MOVE_CHECK + min(outcome, 1)]
    if evades:
        score += weights[MOVE_EVADES + kind]
    if promotion:
        score += weights[MOVE_PROMOTION + promotion - 1]
    elif kind == 0:
        score += pawn_move_terms(weights, s, start, target, stm)
    elif kind == 5 and abs(start - target) == 2:
        score += weights[MOVE_CASTLE]
    if lesser_attacks(theirs, kind) & start_bit:
        score += weights[MOVE_LEAVES_ATTACK + kind]
    elif theirs[ATTACKS_ALL] & ~info[ATTACKS_ALL] & start_bit:
        score += weights[MOVE_LEAVES_ATTACK + 6 + kind]
    if theirs[PAWNS] & bit:
        score += weights[MOVE_ENTERS_ATTACK + kind]
    elif theirs[ATTACKS_ALL] & bit:
        score += weights[MOVE_ENTERS_ATTACK + 6 + kind]
    occupied = (s[WHITE] | s[BLACK]) & ~start_bit | bit
    return score + threats_of(T, weights, s, promotion if promotion else kind, target, occupied, stm)
