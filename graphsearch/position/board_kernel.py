"""The rules on packed positions: moves, keys, checks and mates, legality; also for arrays of positions.

A position is 10 `uint64` words (`board.py`); `T` is the table of `tables.py`. A move is 16 bits:

    from (6 bits) | to << 6 (6) | promotion << 12: the kind that a pawn becomes, 0 for none

The generator's order is the canonical order of moves; every record relies on it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import ONE, ZERO, U, adv, ctz, mum, popc, ptr, zeros
from ..jit.types import Pointer, int16, int64, uint8, uint16, uint64
from .board import (
    BISHOPS,
    BLACK,
    BLACK_TO_MOVE,
    CASTLING_BITS,
    CASTLING_SHIFT,
    CHESS960,
    CHESS960_SHIFT,
    CLOCK_BITS,
    CLOCK_SHIFT,
    EN_PASSANT_BITS,
    EN_PASSANT_SHIFT,
    FILE_BITS,
    FREE_CLOCK,
    KEY,
    KING_FILE,
    KINGS,
    KNIGHTS,
    MAX_CLOCK,
    MAX_MOVES,
    META,
    PAWNS,
    POSITION_WORDS,
    QUEENS,
    ROOK_FILES_SHIFT,
    ROOKS,
    STANDARD_ROOK_FILES,
    WHITE,
    WITHOUT_CLOCK,
    BoardTable,
    Position,
)
from .tables import BE, BM, BT, CR, CT, KI, KN, LN, PA, RE, RM, ZC, ZO, load_tables

PW = POSITION_WORDS
PLACE = U(WITHOUT_CLOCK)  # bits of META but for the clock
RANK_3, RANK_6 = U(0xFF0000), U(0xFF0000000000)
LAST_RANKS = U(0xFF000000000000FF)
DARK = U(0xAA55AA55AA55AA55)


# ------------------------------------------------------------------ fields
@inner
def side_to_move(s: Position) -> int64:
    """Returns 0 if White is to move, 1 if Black is."""
    return int64(s[META] & ONE)


@inner
def en_passant_of(s: Position) -> int64:
    """Returns the en passant square plus 1; 0 if there is none."""
    return int64((s[META] >> U(EN_PASSANT_SHIFT)) & U(EN_PASSANT_BITS))


@inner
def clock_of(s: Position) -> int64:
    """Returns the halfmove clock."""
    return int64((s[META] >> U(CLOCK_SHIFT)) & U(CLOCK_BITS))


@inner
def with_clock(meta: uint64, clock: int64) -> uint64:
    """Returns a META word with another halfmove clock."""
    return (meta & ~U(CLOCK_BITS << CLOCK_SHIFT)) | (U(clock) << U(CLOCK_SHIFT))


@inner
def from_square(m: uint16 | int64) -> int64:
    """Returns the square that a move leaves."""
    return int64(m) & 63


@inner
def to_square(m: uint16 | int64) -> int64:
    """Returns the square that a move enters."""
    return (int64(m) >> 6) & 63


@inner
def landing_of(s: Position, m: int64 | uint16) -> int64:
    """Returns the final square of the moving man; in king-takes-rook castling, the king's."""
    t = to_square(m)
    if (s[WHITE + side_to_move(s)] >> U(t)) & ONE:
        return (t & 56) | (KING_TO[0] if t > from_square(m) else KING_TO[1])
    return t


@inner
def promotion_of(m: uint16 | int64) -> int64:
    """Returns the kind that a pawn becomes by a move, 0 if it is no promotion."""
    return int64(m) >> 12


# ------------------------------------------------------------------ men and attacks
FILE_A, FILE_H = U(0x0101010101010101), U(0x8080808080808080)


@inner
def rook_attacks(T: BoardTable, square: int64, occupied: uint64) -> uint64:
    """Returns the squares a rook attacks."""
    i = RM + square * 4
    return T[T[i + 3] + (((occupied & T[i]) * T[i + 1]) >> T[i + 2])]


@inner
def bishop_attacks(T: BoardTable, square: int64, occupied: uint64) -> uint64:
    """Returns the squares a bishop attacks."""
    i = BM + square * 4
    return T[T[i + 3] + (((occupied & T[i]) * T[i + 1]) >> T[i + 2])]


@inner
def is_attacked(T: BoardTable, s: Position, square: int64, occupied: uint64, stm: int64) -> bool:
    """Returns whether the side not to move attacks a square, given the occupied squares."""
    them = s[BLACK - stm]
    leapers = T[KN + square] & s[KNIGHTS] | T[PA + 64 * stm + square] & s[PAWNS] | T[KI + square] & s[KINGS]
    if leapers & them:
        return True
    straight = (s[ROOKS] | s[QUEENS]) & them
    if T[RE + square] & straight and rook_attacks(T, square, occupied) & straight:
        return True
    diagonal = (s[BISHOPS] | s[QUEENS]) & them
    return T[BE + square] & diagonal != ZERO and bishop_attacks(T, square, occupied) & diagonal != ZERO


@inner
def victim_at(s: Position, square: int64) -> int64:
    """Returns the kind of the man on an occupied square, not a king's; without branches."""
    bit = U(square)
    odd = ((s[KNIGHTS] | s[ROOKS]) >> bit) & ONE
    return int64(odd | (((s[BISHOPS] | s[ROOKS]) >> bit) & ONE) << ONE | ((s[QUEENS] >> bit) & ONE) << U(2))


@inner
def man_at(s: Position, square: int64) -> int64:
    """Returns the kind of the man on an occupied square; without branches."""
    return victim_at(s, square) + 5 * int64((s[KINGS] >> U(square)) & ONE)


# ------------------------------------------------------------------ castling
# A position is Chess960 here if a king or rook that may castle is not on its standard square. Its META has
# the CHESS960 bit and the files of the rooks (`board.py`). All castling in it is written as king takes rook,
# also for a side with king and rook on their standard squares.
KING_TO, ROOK_TO = (6, 2), (5, 3)  # files on which castling ends, on the king's and on the queen's side


@inner
def has_right(s: Position, right: int64) -> bool:
    """Returns whether a position has a castling right; 0..3 are K Q k q."""
    return (s[META] >> U(CASTLING_SHIFT + right)) & ONE != ZERO


@inner
def rook_square(meta: uint64, right: int64) -> int64:
    """Returns the square of the rook of a castling right that `meta` has."""
    files = int64(meta >> U(ROOK_FILES_SHIFT)) ^ STANDARD_ROOK_FILES
    return ((files >> (FILE_BITS * right)) & 7) + 56 * (right >> 1)


@inner
def chess960_fields(s: Position, rights: int64) -> uint64:
    """Returns META's Chess960 bit and rook files for these castling rights; 0 if they are standard."""
    found, other = int64(0), False
    for right in range(4):
        if (rights >> right) & 1:
            file = int64(s[META] >> U(ROOK_FILES_SHIFT + FILE_BITS * right)) & 7
            home = ONE << U(KING_FILE + 56 * (right >> 1))
            found |= file << (1 + FILE_BITS * right)
            other = other or file != 0 or s[KINGS] & s[WHITE + (right >> 1)] & home == ZERO
    return U(found | 1) << U(CHESS960_SHIFT) if other else ZERO


@inner
def castle(
    T: BoardTable, c: Position, key: uint64, us: int64, ours: int64, king: int64, rook: int64
) -> uint64:
    """Moves a king that stands on its rook's square, and the rook, to their castled squares; returns the key.

    The caller has removed both from their side's men.
    """
    wing = int64(0) if rook > king else int64(1)
    king_to, rook_to = (rook & 56) + KING_TO[wing], (rook & 56) + ROOK_TO[wing]
    c[us] |= (ONE << U(king_to)) | (ONE << U(rook_to))
    c[KINGS] ^= (ONE << U(rook)) ^ (ONE << U(king_to))
    c[ROOKS] ^= (ONE << U(rook)) ^ (ONE << U(rook_to))
    key ^= T[ours + 128 * KINGS + rook] ^ T[ours + 128 * KINGS + king_to]
    return key ^ T[ours + 128 * ROOKS + rook] ^ T[ours + 128 * ROOKS + rook_to]


@inner
def kept_rights(meta: uint64, kind: int64, f: int64, t: int64) -> int64:
    """Returns the castling rights left after a move, in a Chess960 position."""
    rights = int64(meta >> U(CASTLING_SHIFT)) & CASTLING_BITS
    kept = rights & ~(3 << (2 * int64(meta & ONE))) if kind == KINGS else rights
    for right in range(4):
        square = rook_square(meta, int64(right))
        if f == square or t == square:
            kept &= ~(1 << right)
    return kept


@inner
def _may_castle(T: BoardTable, s: Position, king: int64, rook: int64, wing: int64, stm: int64) -> bool:
    """Returns whether a king, not in check, may castle with a rook: no man between, no square attacked."""
    occupied = s[WHITE] | s[BLACK]
    king_to, rook_to = (king & 56) + KING_TO[wing], (king & 56) + ROOK_TO[wing]
    targets = (ONE << U(king_to)) | (ONE << U(rook_to))
    others = occupied & ~((ONE << U(king)) | (ONE << U(rook)))
    if others & (T[BT + king * 64 + king_to] | T[BT + rook * 64 + rook_to] | targets):
        return False
    steps, without_king = T[BT + king * 64 + king_to], occupied & ~(ONE << U(king))
    while steps:
        if is_attacked(T, s, ctz(steps), without_king, stm):
            return False
        steps &= steps - ONE
    return not is_attacked(T, s, king_to, others | (ONE << U(rook_to)), stm)


@inner
def emit_castling(
    T: BoardTable, s: Position, out: Pointer[uint16], n: int64, king: int64, stm: int64
) -> int64:
    """Appends the castling moves of a king that is not in check to `out`; returns the new count."""
    for wing in range(2):
        right = 2 * stm + wing
        if has_right(s, right):
            rook = rook_square(s[META], right)
            if _may_castle(T, s, king, rook, wing, stm):
                target = rook if s[META] & U(CHESS960) else (king & 56) + KING_TO[wing]
                out[n] = uint16(king | (target << 6))
                n += 1
    return n


# ------------------------------------------------------------------ moves
@inner
def in_check(T: BoardTable, s: Position) -> bool:
    """Returns whether the side to move is in check."""
    stm = side_to_move(s)
    return is_attacked(T, s, ctz(s[KINGS] & s[WHITE + stm]), s[WHITE] | s[BLACK], stm)


@inner
def _emit(out: Pointer[uint16], n: int64, f: int64, targets: uint64) -> int64:
    while targets:
        out[n] = uint16(f | (ctz(targets) << 6))
        n += 1
        targets &= targets - ONE
    return n


@inner
def _emit_pawns(
    T: BoardTable, out: Pointer[uint16], n: int64, targets: uint64, back: int64, pinned: uint64, king: int64
) -> int64:
    """Appends pawn moves to `targets`, each from the square `target + back`; returns the new count."""
    while targets:
        t = ctz(targets)
        targets &= targets - ONE
        f = t + back
        if (pinned >> U(f)) & ONE and not ((T[LN + king * 64 + f] >> U(t)) & ONE):
            continue
        m = f | (t << 6)
        if t < 8 or t >= 56:
            out[n] = uint16(m | (4 << 12))
            out[n + 1] = uint16(m | (1 << 12))
            out[n + 2] = uint16(m | (3 << 12))
            out[n + 3] = uint16(m | (2 << 12))
            n += 4
        else:
            out[n] = uint16(m)
            n += 1
    return n


@inner
def _emit_pieces(
    T: BoardTable,
    s: Position,
    out: Pointer[uint16],
    n: int64,
    targets: uint64,
    pinned: uint64,
    king: int64,
    us: uint64,
) -> int64:
    occupied = s[WHITE] | s[BLACK]
    pieces = s[KNIGHTS] & us & ~pinned
    while pieces:
        f = ctz(pieces)
        n = _emit(out, n, f, T[KN + f] & targets)
        pieces &= pieces - ONE
    for straight in range(2):
        pieces = (s[ROOKS if straight else BISHOPS] | s[QUEENS]) & us
        while pieces:
            f = ctz(pieces)
            a = (rook_attacks(T, f, occupied) if straight else bishop_attacks(T, f, occupied)) & targets
            if (pinned >> U(f)) & ONE:
                a &= T[LN + king * 64 + f]
            n = _emit(out, n, f, a)
            pieces &= pieces - ONE
    return n


@inner
def _emit_en_passant(
    T: BoardTable, s: Position, out: Pointer[uint16], n: int64, checkers: uint64, king: int64, stm: int64
) -> int64:
    """Appends the captures en passant, of which there may be none; returns the new count.

    Checks the king's safety on the board after the capture: two pawns leave the same rank at once. A check by
    a knight or another pawn remains in any case.
    """
    ep = en_passant_of(s) - 1
    if ep < 0:
        return n
    us, them = s[WHITE + stm], s[BLACK - stm]
    captured = ONE << U(ep - 8 + 16 * stm)
    if checkers & (s[KNIGHTS] | s[PAWNS]) & ~captured:
        return n
    pawns = T[PA + 64 * (1 - stm) + ep] & s[PAWNS] & us
    while pawns:
        f = ctz(pawns)
        pawns &= pawns - ONE
        after = ((us | them) ^ (ONE << U(f)) ^ captured) | (ONE << U(ep))
        exposed = rook_attacks(T, king, after) & (s[ROOKS] | s[QUEENS])
        exposed |= bishop_attacks(T, king, after) & (s[BISHOPS] | s[QUEENS])
        if exposed & them == ZERO:
            out[n] = uint16(f | (ep << 6))
            n += 1
    return n


@inner
def _emit_pawn_moves(
    T: BoardTable,
    s: Position,
    out: Pointer[uint16],
    n: int64,
    targets: uint64,
    pinned: uint64,
    king: int64,
    stm: int64,
) -> int64:
    pawns = s[PAWNS] & s[WHITE + stm]
    them = s[BLACK - stm]
    free = ~(s[WHITE] | s[BLACK])
    if stm == 0:
        single = (pawns << U(8)) & free
        double = ((single & RANK_3) << U(8)) & free
        to_a = ((pawns & ~FILE_A) << U(7)) & them
        to_h = ((pawns & ~FILE_H) << U(9)) & them
        back, back_a, back_h = -8, -7, -9
    else:
        single = (pawns >> U(8)) & free
        double = ((single & RANK_6) >> U(8)) & free
        to_a = ((pawns & ~FILE_A) >> U(9)) & them
        to_h = ((pawns & ~FILE_H) >> U(7)) & them
        back, back_a, back_h = 8, 9, 7
    n = _emit_pawns(T, out, n, to_a & targets, back_a, pinned, king)
    n = _emit_pawns(T, out, n, to_h & targets, back_h, pinned, king)
    n = _emit_pawns(T, out, n, single & targets, back, pinned, king)
    return _emit_pawns(T, out, n, double & targets, 2 * back, pinned, king)


@inner
def sliders_of(T: BoardTable, s: Position, king: int64, them: uint64, us: uint64) -> tuple[uint64, uint64]:
    """Returns the sliders of `them` that attack a king's square, and the men of `us` that alone screen it."""
    checkers, screens, occupied = ZERO, ZERO, s[WHITE] | s[BLACK]
    snipers = ((T[RE + king] & (s[ROOKS] | s[QUEENS])) | (T[BE + king] & (s[BISHOPS] | s[QUEENS]))) & them
    while snipers:
        q = ctz(snipers)
        between = T[BT + king * 64 + q] & occupied
        if between == ZERO:
            checkers |= ONE << U(q)
        elif (between & (between - ONE)) == ZERO:
            screens |= between & us
        snipers &= snipers - ONE
    return checkers, screens


@inner
def _emit_steps(
    T: BoardTable, s: Position, out: Pointer[uint16], steps: uint64, king: int64, stm: int64
) -> int64:
    """Writes the king's moves to those of some squares that are not attacked; returns their number."""
    n = int64(0)
    without_king = (s[WHITE] | s[BLACK]) ^ (ONE << U(king))
    while steps:
        t = ctz(steps)
        if not is_attacked(T, s, t, without_king, stm):
            out[n] = uint16(king | (t << 6))
            n += 1
        steps &= steps - ONE
    return n


@inner
def generate_moves(T: BoardTable, s: Position, out: Pointer[uint16]) -> int64:
    """Writes the legal moves to `out` (uint16, room for 256) in canonical order; returns their number."""
    stm = side_to_move(s)
    us, them = s[WHITE + stm], s[BLACK - stm]
    king = ctz(s[KINGS] & us)
    checkers, pinned = sliders_of(T, s, king, them, us)
    checkers |= ((T[KN + king] & s[KNIGHTS]) | (T[PA + 64 * stm + king] & s[PAWNS])) & them
    n = _emit_steps(T, s, out, T[KI + king] & ~us, king, stm)
    targets = ~us
    if checkers:
        if checkers & (checkers - ONE):
            return n
        targets = checkers | T[BT + king * 64 + ctz(checkers)]
    else:
        n = emit_castling(T, s, out, n, king, stm)
    n = _emit_pieces(T, s, out, n, targets, pinned, king, us)
    n = _emit_pawn_moves(T, s, out, n, targets, pinned, king, stm)
    return _emit_en_passant(T, s, out, n, checkers, king, stm)


@inner
def generate_captures(
    T: BoardTable, s: Position, victims: uint64, pinned: uint64, out: Pointer[uint16]
) -> int64:
    """Writes the legal captures of some men, en passant and all promotions; returns their number.

    Args:
      s: a position that is not in check. pinned: own screens of `sliders_of`. out: uint16, room for 256.
    """
    stm = side_to_move(s)
    us = s[WHITE + stm]
    king = ctz(s[KINGS] & us)
    n = _emit_steps(T, s, out, T[KI + king] & victims, king, stm)
    n = _emit_pieces(T, s, out, n, victims, pinned, king, us)
    n = _emit_pawn_moves(T, s, out, n, victims | LAST_RANKS, pinned, king, stm)
    return _emit_en_passant(T, s, out, n, ZERO, king, stm)


@inner
def make_move(T: BoardTable, s: Position, c: Position, m: uint16 | int64) -> None:
    """Writes the position after move `m` in `s` to `c`, including its key."""
    f, t, promotion = from_square(m), to_square(m), promotion_of(m)
    for i in range(META):
        c[i] = s[i]
    meta = s[META]  # once: the compiler must assume that a store in between changed it
    key = s[KEY]
    stm = int64(meta & U(BLACK_TO_MOVE))
    us = WHITE + stm
    them = BLACK - stm
    ours = ZO + 64 * (1 - stm)  # Polyglot puts Black before White
    from_bit = ONE << U(f)
    to_bit = ONE << U(t)
    kind = man_at(s, f)
    clock = ((meta >> U(CLOCK_SHIFT)) & U(CLOCK_BITS)) + ONE
    key ^= T[ours + 128 * kind + f]
    if c[them] & to_bit:
        captured = man_at(s, t)
        c[captured] ^= to_bit
        c[them] ^= to_bit
        key ^= T[ZO + 64 * stm + 128 * captured + t]
        clock = ZERO
    c[us] ^= from_bit | to_bit
    c[kind] ^= from_bit
    becomes = promotion if promotion else kind
    c[becomes] ^= to_bit
    key ^= T[ours + 128 * becomes + t]
    ep = int64((meta >> U(EN_PASSANT_SHIFT)) & U(EN_PASSANT_BITS))
    if ep:
        key ^= T[ZO + 772 + ((ep - 1) & 7)]
    new_ep = ZERO
    if kind == PAWNS:
        clock = ZERO
        d = t - f
        if d == 16 or d == -16:
            skipped = (f + t) >> 1
            if T[PA + 64 * stm + skipped] & c[PAWNS] & c[them]:
                new_ep = U(skipped + 1)
                key ^= T[ZO + 772 + (skipped & 7)]
        elif ep and t == ep - 1:
            square = t - 8 + 16 * stm
            c[PAWNS] ^= ONE << U(square)
            c[them] ^= ONE << U(square)
            key ^= T[ZO + 64 * stm + square]
    elif kind == KINGS:
        d = t - f
        if s[us] & to_bit:
            key = castle(T, c, key, us, ours, f, t)
        elif d == 2 or d == -2:
            rook_from = t + 1 if d == 2 else t - 2
            rook_to = t - 1 if d == 2 else t + 1
            rook = (ONE << U(rook_from)) | (ONE << U(rook_to))
            c[ROOKS] ^= rook
            c[us] ^= rook
            key ^= T[ours + 384 + rook_from] ^ T[ours + 384 + rook_to]
    rights = (meta >> U(CASTLING_SHIFT)) & U(CASTLING_BITS)
    kept, fields = rights & T[CR + f] & T[CR + t], ZERO
    if meta & U(CHESS960):
        kept = U(kept_rights(meta, kind, f, t))
        fields = chess960_fields(s, int64(kept))
    if kept != rights:
        key ^= T[ZC + int64(rights)] ^ T[ZC + int64(kept)]
    key ^= T[ZO + 780]
    if clock > U(MAX_CLOCK):
        clock = U(MAX_CLOCK)
    c[META] = (
        U(1 - stm) | (kept << U(CASTLING_SHIFT)) | (new_ep << U(EN_PASSANT_SHIFT)) | (clock << U(CLOCK_SHIFT))
    ) | fields
    c[KEY] = key


@inner
def check_hash(s: Position) -> uint64:
    """Returns 32 bits of a second hash, for positions with the same key; ignores a clock up to 75.

    It folds products of 64-bit words, as wyhash does.
    """
    meta = s[META] & PLACE
    clock = (s[META] >> U(CLOCK_SHIFT)) & U(CLOCK_BITS)
    if clock > U(FREE_CLOCK):
        meta |= clock << U(CLOCK_SHIFT)
    h = mum(s[PAWNS] ^ U(0xA0761D6478BD642F), s[KNIGHTS] ^ U(0xE7037ED1A0B428DB))
    h ^= mum(s[BISHOPS] ^ U(0x8EBC6AF09C88C6E3), s[ROOKS] ^ U(0x589965CC75374CC3))
    h ^= mum(s[QUEENS] ^ U(0x1D8E4E27C47D124F), s[KINGS] ^ U(0xEB44ACCAB455D165))
    h ^= mum(s[WHITE] ^ U(0x2545F4914F6CDD1D), meta ^ U(0x9FB21C651E98DF25))
    return h >> U(32)


@inner
def is_dead(s: Position) -> bool:
    """Returns whether the material can never mate: bare kings, one minor piece, bishops on one colour."""
    if s[PAWNS] | s[ROOKS] | s[QUEENS]:
        return False
    if s[KNIGHTS]:
        return popc(s[WHITE] | s[BLACK]) == 3
    return not (s[BISHOPS] & DARK) or not (s[BISHOPS] & ~DARK)


@inner
def position_key(T: BoardTable, s: Position) -> uint64:
    """Returns the graph's key of a position: Polyglot's, XOR the clock term."""
    return s[KEY] ^ T[CT + clock_of(s)]


@inner
def hashes_of(T: BoardTable, s: Position) -> tuple[uint64, uint64]:
    """Returns the key and check hash of a position; together they identify it everywhere."""
    return position_key(T, s), check_hash(s)


@inner
def make_child(T: BoardTable, s: Position, c: Position, m: uint16) -> tuple[uint64, uint64]:
    """Writes the position after move `m` in `s` to `c`; returns its (key, check hash)."""
    make_move(T, s, c, m)
    return hashes_of(T, c)


# ------------------------------------------------------------------ checks and mates in one
class CheckMasks(NamedTuple):
    """Squares from which pieces attack the opponent's king; own men that alone screen it from an own slider.

    `pawn` also has the squares of promotions and of en passant, which may check in other ways.
    """

    pawn: uint64
    knight: uint64
    diagonal: uint64
    straight: uint64
    screens: uint64


@inner
def check_masks(T: BoardTable, s: Position) -> CheckMasks:
    """Returns the check masks of the side to move."""
    stm, occupied = side_to_move(s), s[WHITE] | s[BLACK]
    us, king = s[WHITE + stm], ctz(s[KINGS] & s[BLACK - stm])
    _, screens = sliders_of(T, s, king, us, us)
    ep = en_passant_of(s)
    pawn = T[PA + 64 * (1 - stm) + king] | LAST_RANKS
    pawn = pawn | (ONE << U(ep - 1)) if ep else pawn
    diagonal, straight = bishop_attacks(T, king, occupied), rook_attacks(T, king, occupied)
    return CheckMasks(pawn, T[KN + king], diagonal, straight, screens)


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
def is_mated(T: BoardTable, s: Position, replies: Pointer[uint16]) -> bool:
    """Returns whether the side to move is mated; `replies`: room for its moves."""
    stm = side_to_move(s)
    us = s[WHITE + stm]
    king = ctz(s[KINGS] & us)
    if not is_attacked(T, s, king, s[WHITE] | s[BLACK], stm):
        return False
    steps = _emit_steps(T, s, replies, T[KI + king] & ~us, king, stm)
    return steps == 0 and generate_moves(T, s, replies) == 0


@inner
def mate_in_one(
    T: BoardTable, s: Position, moves: Pointer[uint16], n: int64, c: Position, replies: Pointer[uint16]
) -> int64:
    """Returns the index of the first of `n` legal moves, in canonical order, that mates; -1 if none does.

    Args:
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


# ------------------------------------------------------------------ legality
@inner
def _has_castling(s: Position, right: int64) -> bool:
    if not has_right(s, right):
        return True
    own, rook = s[WHITE + (right >> 1)], rook_square(s[META], right)
    king = ctz(s[KINGS] & own)
    if king >> 3 != 7 * (right >> 1) or not ((s[ROOKS] & own) >> U(rook)) & ONE:
        return False
    return (rook > king) == (right & 1 == 0)


@inner
def _has_all_castling(s: Position) -> bool:
    """Returns whether the castling rights fit the men, and the rest of META fits the rights."""
    for right in range(4):
        if not _has_castling(s, int64(right)):
            return False
    rights = int64(s[META] >> U(CASTLING_SHIFT)) & CASTLING_BITS
    return chess960_fields(s, rights) == (s[META] >> U(CHESS960_SHIFT)) << U(CHESS960_SHIFT)


@inner
def _has_en_passant(T: BoardTable, s: Position) -> bool:
    """Returns whether the en passant square, if any, fits a double step and a pawn that attacks it."""
    square, stm = en_passant_of(s) - 1, side_to_move(s)
    if square < 0:
        return True
    if square >> 3 != (5 if stm == 0 else 2):
        return False
    ahead = int64(8) if stm == 0 else int64(-8)
    target, passed, origin = ONE << U(square), ONE << U(square - ahead), ONE << U(square + ahead)
    if (s[WHITE] | s[BLACK]) & (target | origin) or not s[PAWNS] & s[BLACK - stm] & passed:
        return False
    return T[PA + 64 * (1 - stm) + square] & s[PAWNS] & s[WHITE + stm] != ZERO


@inner
def is_legal(T: BoardTable, s: Position) -> bool:
    """Returns whether a position with one king per side is legal: no king to be taken, META fits the men."""
    stm = side_to_move(s)
    if not _has_all_castling(s):
        return False
    king = ctz(s[KINGS] & s[BLACK - stm])
    return _has_en_passant(T, s) and not is_attacked(T, s, king, s[WHITE] | s[BLACK], 1 - stm)


@inner
def kind_of(T: BoardTable, s: Position, moves: int64) -> int64:
    """Returns the terminal kind, as `terminal_kind` of `board.py` does."""
    if is_dead(s):
        return int64(3)
    if moves:
        return int64(0)
    return int64(1) if in_check(T, s) else int64(2)


# ------------------------------------------------------------------ arrays of positions
#   words    position 0 | position 1 | ...
#   moves    moves of 0 ----| moves of 1 --| ...
#   offsets  0              ^              ^
CHECK, MATE = 1, 2  # bits of a move's mark
MAX_LEGAL_MOVES = 256  # room for a move list; no legal position has more than 253
AT_ONCE = 4096  # positions of a step of `perft`
ROOM = 1024  # sixteen men have at most 16 * 28 moves; a damaged position may have more than a legal one


@kernel
def list_all(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    offsets: NDArray[np.int64],
    moves: NDArray[np.uint16],
    kinds: NDArray[np.uint8],
) -> None:
    """Lists the legal moves of every position in canonical order, and its `terminal_kind`.

    Args:
      words: `[10 B]`. offsets: `[B + 1]` out, start of each position's moves. moves: `[256 B]` out.
      kinds: `[B]` out.
    """
    offsets[0] = 0
    for b in range(len(kinds)):
        s, at = ptr(words, int64(b) * PW), offsets[b]
        count = generate_moves(ptr(T, 0), s, ptr(moves, at))
        offsets[b + 1] = at + count
        kinds[b] = kind_of(ptr(T, 0), s, count)


@kernel
def list_moves(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    counts: NDArray[np.int16],
    moves: NDArray[np.uint16],
    marks: NDArray[np.uint8],
) -> None:
    """Lists the legal moves of positions in canonical order, and marks those that give check or mate.

    Args:
      words: `[R * 10]`. counts: `[R]` out, at most MAX_MOVES; further moves are dropped.
      moves: `[R * MAX_MOVES]` out, filled up to each count. marks: likewise, CHECK | MATE.
    """
    out, replies, c = zeros(uint16, ROOM), zeros(uint16, ROOM), zeros(uint64, PW)
    table = ptr(T, 0)
    for i in range(len(counts)):
        s = adv(ptr(words, 0), PW * i)
        n = min(int64(generate_moves(table, s, out)), int64(MAX_MOVES))
        counts[i] = int16(n)
        for k in range(n):
            moves[MAX_MOVES * i + k] = out[k]
            make_move(table, s, c, out[k])
            mark = int64(0)
            if in_check(table, c):
                mark = CHECK
                if generate_moves(table, c, replies) == 0:
                    mark = CHECK | MATE
            marks[MAX_MOVES * i + k] = uint8(mark)


@kernel
def make_steps(
    T: NDArray[np.uint64],
    words: NDArray[np.uint64],
    of: NDArray[np.int64],
    moves: NDArray[np.uint16],
    children: NDArray[np.uint64],
    keys: NDArray[np.uint64],
) -> None:
    """Writes the positions after legal moves, and their keys.

    Args:
      words: `[R * 10]`. of: `[K]`, index of each move's position. moves: `[K]`.
      children: `[K * 10]` out. keys: `[K]` out.
    """
    table = ptr(T, 0)
    for k in range(len(of)):
        c = adv(ptr(children, 0), PW * k)
        make_move(table, adv(ptr(words, 0), PW * int64(of[k])), c, moves[k])
        keys[k] = position_key(table, c)


def perft(words: NDArray[np.uint64], depth: int) -> int:
    """Returns the number of positions `depth` plies below positions, `[R, 10]`; R for depth 0."""
    rows = len(words)
    if depth <= 0:
        return rows
    offsets, moves = np.zeros(rows + 1, np.int64), np.zeros(rows * MAX_LEGAL_MOVES, np.uint16)
    list_all(load_tables(), words.reshape(-1), offsets, moves, np.zeros(rows, np.uint8))
    count, of = int(offsets[-1]), np.repeat(np.arange(rows), np.diff(offsets))
    if depth == 1:
        return count
    children = np.zeros((count, PW), np.uint64)
    keys = np.zeros(count, np.uint64)
    make_steps(load_tables(), words.reshape(-1), of, moves[:count], children.reshape(-1), keys)
    return sum(perft(children[i : i + AT_ONCE], depth - 1) for i in range(0, count, AT_ONCE))
