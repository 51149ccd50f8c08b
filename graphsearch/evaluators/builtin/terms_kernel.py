"""The terms of the built-in evaluator's tapered evaluation: pieces, pawns, kings and threats."""

from __future__ import annotations

from typing import Any

from numpy import int64

from ...jit.compiler import inlined, inner
from ...jit.pointers import ONE, ZERO, U, adv, ctz, popc
from ...position.board_kernel import bishop_attacks, rook_attacks, side_to_move
from ...position.tables import KI, KN
from ...position.words import BISHOPS, BLACK, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE
from .layout import OFFSETS
from .pawns_kernel import both_shelters, both_structures, kept_structures
from .squares_kernel import (
    ALL,
    FILE_A,
    beside,
    distance,
    pawn_attacks,
    pawn_pushes,
    piece_attacks,
    ranks_ahead,
    square_index,
)

DARK = U(0xAA55AA55AA55AA55)
CENTRE_FILES = U(0x3C3C3C3C3C3C3C3C)

MATERIAL = OFFSETS["material"]
MOBILITY = OFFSETS["mobility"]
PASSED = OFFSETS["passed"]
PASSED_FREE = OFFSETS["passed_free"]
PASSED_BLOCKED = OFFSETS["passed_blocked"]
PASSED_OWN_KING = OFFSETS["passed_own_king"]
PASSED_THEIR_KING = OFFSETS["passed_their_king"]
PASSED_RUNNER = OFFSETS["passed_runner"]
DANGER = OFFSETS["danger"]
ZONE_ATTACK = OFFSETS["zone_attack"]
SAFE_CHECK = OFFSETS["safe_check"]
THREAT_BY_PAWN = OFFSETS["threat_by_pawn"]
THREAT_BY_MINOR = OFFSETS["threat_by_minor"]
THREAT_BY_ROOK = OFFSETS["threat_by_rook"]
THREAT_BY_KING = OFFSETS["threat_by_king"]
HANGING = OFFSETS["hanging"]
PUSH_THREAT = OFFSETS["push_threat"]
BISHOP_PAIR = OFFSETS["bishop_pair"]
ROOK_FILE = OFFSETS["rook_file"]
OUTPOST = OFFSETS["outpost"]
BISHOP_PAWNS = OFFSETS["bishop_pawns"]
KNIGHT_PAWNS = OFFSETS["knight_pawns"]
ROOK_PAWNS = OFFSETS["rook_pawns"]
SPACE = OFFSETS["space"]
TEMPO = OFFSETS["tempo"]

# What one side attacks: words 0..5 by piece, then all of it, what is attacked twice, and king attack units.
ATTACKS_ALL, ATTACKS_TWICE, ATTACK_UNITS, INFO_WORDS = 6, 7, 8, 9

PHASE_MAX = 24  # 4 knights and bishops each 1, 4 rooks 2, 2 queens 4
FULL_SCALE = 64  # of a score that keeps its full weight


@inner
def note_attacks(info: Any, piece: Any, attacks: Any) -> Any:
    """Adds attacks of one piece to what its side attacks."""
    info[ATTACKS_TWICE] |= info[ATTACKS_ALL] & attacks
    info[ATTACKS_ALL] |= attacks
    info[piece] |= attacks


@inner
def start_info(T: Any, s: Any, side: Any, info: Any) -> Any:
    """Fills what the king and the pawns of a side attack."""
    for i in range(INFO_WORDS):
        info[i] = ZERO
    own = s[WHITE + side]
    note_attacks(info, int64(5), T[KI + ctz(s[KINGS] & own)])
    note_attacks(info, int64(0), pawn_attacks(s[PAWNS] & own, side))


@inner
def piece_setting(weights: Any, s: Any, side: Any, piece: Any, sq: Any, theirs_ahead: Any) -> Any:
    """Returns the terms of one piece that depend on the pawns."""
    pawns = s[PAWNS] & s[WHITE + side]
    if piece == 3:
        score = weights[ROOK_PAWNS + popc(pawns)]
        file = FILE_A << U(sq & 7)
        if not (file & pawns):
            score += weights[ROOK_FILE + (1 if file & s[PAWNS] else 0)]
        return score
    if piece == 4:
        return int64(0)
    if piece == 1:
        score = weights[KNIGHT_PAWNS + popc(pawns)]
    else:
        colour = DARK if (DARK >> U(sq)) & ONE else ~DARK
        score = weights[BISHOP_PAWNS + popc(pawns & colour)]
    bit = ONE << U(sq)
    rank = (sq >> 3) ^ (7 * side)
    if rank >= 3 and rank <= 5 and (pawn_attacks(pawns, side) & bit):
        if not (beside(FILE_A << U(sq & 7)) & theirs_ahead & ranks_ahead(sq, side)):
            score += weights[OUTPOST + piece - 1]
    return score


@inlined
def kind_terms(T: Any, weights: Any, s: Any, side: Any, piece: Any, info: Any, theirs: Any) -> Any:
    """Returns the terms of a side's knights, bishops, rooks or queens; fills what they attack.

    What is added up stays in registers: through `info`, each piece waited for the stores of the one before.
    """
    own, them = s[WHITE + side], s[BLACK - side]
    occupied = (own | them) ^ (s[QUEENS] & own)
    unsafe = theirs[PAWNS] | own & (s[PAWNS] | s[KINGS])
    zone, their_pawns = theirs[KINGS], s[PAWNS] & them
    reached, twice, of_kind = info[ATTACKS_ALL], info[ATTACKS_TWICE], ZERO
    score, all_hits, attackers = int64(0), int64(0), int64(0)
    left = s[piece] & own
    while left:
        sq = ctz(left)
        left &= left - ONE
        attacks = piece_attacks(T, piece, sq, occupied)
        twice |= reached & attacks
        reached |= attacks
        of_kind |= attacks
        score += weights[MATERIAL + piece] + weights[square_index(piece, sq, side)]
        score += weights[MOBILITY + (piece - 1) * 28 + popc(attacks & ~unsafe)]
        score += piece_setting(weights, s, side, piece, sq, their_pawns)
        hits = popc(attacks & zone)
        all_hits += hits
        attackers += 1 if hits else 0
    info[piece], info[ATTACKS_ALL], info[ATTACKS_TWICE] = of_kind, reached, twice
    info[ATTACK_UNITS] += U(all_hits + attackers * (1 + (piece >> 1) + (piece >> 2)))
    return score + weights[ZONE_ATTACK + piece - 1] * all_hits


@inner
def piece_terms(T: Any, weights: Any, s: Any, side: Any, info: Any, theirs: Any) -> Any:
    """Returns the terms of a side's knights, bishops, rooks and queens; fills what they attack."""
    score = kind_terms(T, weights, s, side, int64(1), info, theirs)
    score += kind_terms(T, weights, s, side, int64(2), info, theirs)
    score += kind_terms(T, weights, s, side, int64(3), info, theirs)
    score += kind_terms(T, weights, s, side, int64(4), info, theirs)
    bishops = s[BISHOPS] & s[WHITE + side]
    if (bishops & DARK) and (bishops & ~DARK):
        score += weights[BISHOP_PAIR]
    return score


@inner
def passed_terms(T: Any, weights: Any, s: Any, side: Any, sq: Any, info: Any, theirs: Any) -> Any:
    """Returns the terms of one passed pawn."""
    own, them = s[WHITE + side], s[BLACK - side]
    rank = (sq >> 3) ^ (7 * side)
    stop = sq + 8 - 16 * side
    bit = ONE << U(stop)
    score = weights[PASSED + rank]
    if bit & them:
        score += weights[PASSED_BLOCKED + rank]
    elif not (bit & (own | theirs[ATTACKS_ALL])):
        score += weights[PASSED_FREE + rank]
    late = 8 if rank >= 4 else 0
    their_king = ctz(s[KINGS] & them)
    score += weights[PASSED_OWN_KING + late + distance(ctz(s[KINGS] & own), stop)]
    score += weights[PASSED_THEIR_KING + late + distance(their_king, stop)]
    if not ((s[KNIGHTS] | s[BISHOPS] | s[ROOKS] | s[QUEENS]) & them):
        steps = min(7 - rank, 5) + (1 if side_to_move(s) != side else 0)
        goal = (sq & 7) + 56 * (1 - side)
        if steps < distance(their_king, goal) and not ((FILE_A << U(sq & 7)) & ranks_ahead(sq, side) & own):
            score += weights[PASSED_RUNNER]
    return score


@inner
def all_passed_terms(T: Any, weights: Any, s: Any, passed: Any, side: Any, info: Any, theirs: Any) -> Any:
    """Returns the terms of a side's passed pawns."""
    score = int64(0)
    left = passed & s[WHITE + side]
    while left:
        score += passed_terms(T, weights, s, side, ctz(left), info, theirs)
        left &= left - ONE
    return score


@inner
def danger_terms(T: Any, weights: Any, s: Any, side: Any, info: Any, theirs: Any) -> Any:
    """Returns what a side's attack on the other king is worth."""
    own, them = s[WHITE + side], s[BLACK - side]
    king = ctz(s[KINGS] & them)
    weak = info[ATTACKS_ALL] & ~theirs[ATTACKS_TWICE]
    soft = ~theirs[ATTACKS_ALL] | (weak & info[ATTACKS_TWICE] & (theirs[QUEENS] | theirs[KINGS]))
    safe = soft & ~own
    occupied = own | them
    straight = rook_attacks(T, king, occupied ^ (s[QUEENS] & them))
    diagonal = bishop_attacks(T, king, occupied ^ (s[QUEENS] & them))
    score = int64(0)
    units: Any = int64(info[ATTACK_UNITS]) + popc(theirs[KINGS] & weak)
    for piece in range(1, 5):
        line = T[KN + king]
        if piece > 1:
            line = (diagonal if piece != 3 else ZERO) | (straight if piece != 2 else ZERO)
        checks = info[piece] & line & safe
        if checks:
            score += weights[SAFE_CHECK + piece - 1]
            units += 3
    row = 0 if s[QUEENS] & own else 48
    return score + weights[DANGER + row + min(units, 47)]


@inner
def threat_terms(weights: Any, s: Any, side: Any, info: Any, theirs: Any) -> Any:
    """Returns the terms of enemy pieces that a side attacks."""
    own, them = s[WHITE + side], s[BLACK - side]
    loose = ~theirs[PAWNS] & ~theirs[ATTACKS_TWICE] | ~theirs[ATTACKS_ALL]
    minors = info[KNIGHTS] | info[BISHOPS]
    score = int64(0)
    for piece in range(5):
        targets = s[piece] & them & info[ATTACKS_ALL]
        if targets == ZERO:
            continue
        score += weights[THREAT_BY_PAWN + piece] * popc(targets & info[PAWNS])
        score += weights[THREAT_BY_MINOR + piece] * popc(targets & minors & (loose if piece < 3 else ALL))
        score += weights[THREAT_BY_ROOK + piece] * popc(targets & info[ROOKS] & (loose if piece < 4 else ALL))
        score += weights[THREAT_BY_KING + piece] * popc(targets & info[KINGS] & loose)
        score += weights[HANGING + piece] * popc(targets & ~theirs[ATTACKS_ALL])
    steps = pawn_pushes(s[PAWNS] & own, side) & ~(own | them) & ~theirs[PAWNS]
    steps &= info[ATTACKS_ALL] | ~theirs[ATTACKS_ALL]
    score += weights[PUSH_THREAT] * popc(pawn_attacks(steps, side) & them & ~s[PAWNS])
    home = U(0xFFFFFF00) if side == 0 else U(0x00FFFFFF00000000)
    score += weights[SPACE] * popc(home & CENTRE_FILES & ~s[PAWNS] & ~theirs[ATTACKS_ALL])
    return score


@inner
def phase_of(s: Any) -> Any:
    """Returns the phase, from 0 (kings and pawns) to 24 (all pieces)."""
    return min(PHASE_MAX, popc(s[KNIGHTS] | s[BISHOPS]) + 2 * popc(s[ROOKS]) + 4 * popc(s[QUEENS]))


@inner
def plain_material(s: Any, side: Any) -> Any:
    """Returns the pieces of a side in plain points (3, 3, 5, 9), without pawns."""
    own = s[WHITE + side]
    return 3 * popc((s[KNIGHTS] | s[BISHOPS]) & own) + 5 * popc(s[ROOKS] & own) + 9 * popc(s[QUEENS] & own)


@inner
def opposite_bishops(s: Any) -> Any:
    """Returns whether the only bishops are one of each side, on different colours."""
    bishops = s[BISHOPS]
    return popc(bishops) == 2 and popc(bishops & s[WHITE]) == 1 and popc(bishops & DARK) == 1


@inner
def winning_scale(s: Any, strong: Any) -> Any:
    """Returns how much of its score the better side keeps, in 64ths."""
    own = s[WHITE + strong]
    if not (s[PAWNS] & own):
        mine, theirs = plain_material(s, strong), plain_material(s, 1 - strong)
        if mine < 5 or (mine == 6 and not (s[BISHOPS] & own) and not (s[PAWNS] & ~own)):
            return int64(0)
        if mine - theirs <= 3:
            return int64(10)
    if opposite_bishops(s):
        if not (s[KNIGHTS] | s[ROOKS] | s[QUEENS]):
            return int64(32)
        return int64(54)
    return int64(FULL_SCALE)


@inner
def tapered(s: Any, packed: Any) -> Any:
    """Returns the middlegame and endgame halves of a packed score, mixed by phase, seen by White."""
    middle = (packed << 32) >> 32
    end = (packed - middle) >> 32
    phase = phase_of(s)
    return middle * phase + end * (PHASE_MAX - phase)


@inner
def pieces_and_threats(T: Any, weights: Any, s: Any, passed: Any, area: Any) -> Any:
    """Returns the packed sum of all terms but those of pawns and shelters, seen by White."""
    score = int64(0)
    for side in range(2):
        start_info(T, s, side, adv(area, side * INFO_WORDS))
    for side in range(2):
        info, theirs = adv(area, side * INFO_WORDS), adv(area, (1 - side) * INFO_WORDS)
        part = piece_terms(T, weights, s, side, info, theirs)
        score += part * (1 - 2 * side)
    for side in range(2):
        info, theirs = adv(area, side * INFO_WORDS), adv(area, (1 - side) * INFO_WORDS)
        part = all_passed_terms(T, weights, s, passed, side, info, theirs) + threat_terms(
            weights, s, side, info, theirs
        )
        part += danger_terms(T, weights, s, side, info, theirs)
        if side_to_move(s) == side:
            part += weights[TEMPO]
        score += part * (1 - 2 * side)
    return score


@inner
def static_packed(T: Any, weights: Any, s: Any, area: Any) -> Any:
    """Returns the packed sum of all terms, seen by White; `area` holds two sides' attacks."""
    score, passed = both_structures(weights, s)
    return score + both_shelters(weights, s) + pieces_and_threats(T, weights, s, passed, area)


@inner
def static_kept(T: Any, weights: Any, s: Any, area: Any, kept: Any) -> Any:
    """Returns `static_packed` with the help of pawn structures kept from earlier positions.

    `kept` is uint64[PAWN_WORDS], zeros at first, always used with the same weights.
    """
    score, passed = kept_structures(weights, s, kept)
    return score + pieces_and_threats(T, weights, s, passed, area)


@inner
def scaled(s: Any, packed: Any) -> Any:
    """Returns the evaluation of a packed sum in thousandths of a pawn, seen by the side to move."""
    score = tapered(s, packed)
    stm = side_to_move(s)
    size = abs(score) * winning_scale(s, int64(0) if score > 0 else int64(1)) // (FULL_SCALE * PHASE_MAX)
    white = size if score > 0 else -size
    return white * (1 - 2 * stm)
