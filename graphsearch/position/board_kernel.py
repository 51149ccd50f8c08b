"""Legal moves, making moves, keys and terminal verdicts on packed positions.

A position is 10 `uint64` words (`position/board.py`), a move 16 bits; `T` is the table of
`tables.py`. The generator's order is the canonical order of moves that every record relies on.
"""

from __future__ import annotations

from typing import Any

from numba import int64, uint16

from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U, ctz, mum, popc
from .tables import BE, BM, BT, CR, CT, KI, KN, LN, PA, RE, RM, ZC, ZO

PW = 10  # words of a packed position
FILE_A, FILE_H = U(0x0101010101010101), U(0x8080808080808080)
RANK_3, RANK_6 = U(0xFF0000), U(0xFF0000000000)
DARK = U(0xAA55AA55AA55AA55)


@inner
def rook_attacks(T: Any, square: Any, occupied: Any) -> Any:
    """Returns the squares a rook attacks."""
    i = RM + square * 4
    return T[T[i + 3] + (((occupied & T[i]) * T[i + 1]) >> T[i + 2])]


@inner
def bishop_attacks(T: Any, square: Any, occupied: Any) -> Any:
    """Returns the squares a bishop attacks."""
    i = BM + square * 4
    return T[T[i + 3] + (((occupied & T[i]) * T[i + 1]) >> T[i + 2])]


@inner
def is_attacked(T: Any, s: Any, square: Any, occupied: Any, stm: Any) -> Any:
    """Returns whether the side not to move attacks a square, given the occupied squares."""
    them = s[7 - stm]
    if T[KN + square] & s[1] & them:
        return True
    if T[PA + 64 * stm + square] & s[0] & them:
        return True
    if T[KI + square] & s[5] & them:
        return True
    straight = (s[3] | s[4]) & them
    if T[RE + square] & straight and rook_attacks(T, square, occupied) & straight:
        return True
    diagonal = (s[2] | s[4]) & them
    if T[BE + square] & diagonal and bishop_attacks(T, square, occupied) & diagonal:
        return True
    return False


@inner
def in_check(T: Any, s: Any) -> Any:
    """Returns whether the side to move is in check."""
    stm = int64(s[8] & ONE)
    return is_attacked(T, s, ctz(s[5] & s[6 + stm]), s[6] | s[7], stm)


@inner
def _emit(out: Any, n: Any, f: Any, targets: Any) -> Any:
    while targets:
        out[n] = uint16(f | (ctz(targets) << 6))
        n += 1
        targets &= targets - ONE
    return n


@inner
def _emit_pawns(T: Any, out: Any, n: Any, targets: Any, back: Any, pinned: Any, king: Any) -> Any:
    """Appends pawn moves; a pawn comes from `target + back`."""
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
def _emit_castling(T: Any, s: Any, out: Any, n: Any, occupied: Any, stm: Any) -> Any:
    """Appends castling moves; the caller knows that the king is not in check."""
    rights = int64((s[8] >> U(1 + 2 * stm)) & U(3))
    home = 4 + 56 * stm
    if rights & 1 and not (occupied >> U(home)) & U(0x6):
        if not is_attacked(T, s, home + 1, occupied, stm) and not is_attacked(T, s, home + 2, occupied, stm):
            out[n] = uint16(home | ((home + 2) << 6))
            n += 1
    if rights & 2 and not (occupied >> U(home - 3)) & U(0x7):
        if not is_attacked(T, s, home - 1, occupied, stm) and not is_attacked(T, s, home - 2, occupied, stm):
            out[n] = uint16(home | ((home - 2) << 6))
            n += 1
    return n


@inner
def _emit_pieces(T: Any, s: Any, out: Any, n: Any, targets: Any, pinned: Any, king: Any, us: Any) -> Any:
    """Appends knight moves, then diagonal, then straight moves of bishops, rooks and queens."""
    occupied = s[6] | s[7]
    pieces = s[1] & us & ~pinned
    while pieces:
        f = ctz(pieces)
        n = _emit(out, n, f, T[KN + f] & targets)
        pieces &= pieces - ONE
    pieces = (s[2] | s[4]) & us
    while pieces:
        f = ctz(pieces)
        a = bishop_attacks(T, f, occupied) & targets
        if (pinned >> U(f)) & ONE:
            a &= T[LN + king * 64 + f]
        n = _emit(out, n, f, a)
        pieces &= pieces - ONE
    pieces = (s[3] | s[4]) & us
    while pieces:
        f = ctz(pieces)
        a = rook_attacks(T, f, occupied) & targets
        if (pinned >> U(f)) & ONE:
            a &= T[LN + king * 64 + f]
        n = _emit(out, n, f, a)
        pieces &= pieces - ONE
    return n


@inner
def _emit_en_passant(T: Any, s: Any, out: Any, n: Any, ep: Any, checkers: Any, king: Any, stm: Any) -> Any:
    """Appends en-passant captures, each tested on the board after it (both pawns leave their rank)."""
    us = s[6 + stm]
    them = s[7 - stm]
    captured = ONE << U(ep - 8 + 16 * stm)
    pawns = T[PA + 64 * (1 - stm) + ep] & s[0] & us
    while pawns:
        f = ctz(pawns)
        pawns &= pawns - ONE
        after = ((s[6] | s[7]) ^ (ONE << U(f)) ^ captured) | (ONE << U(ep))
        if rook_attacks(T, king, after) & (s[3] | s[4]) & them:
            continue
        if bishop_attacks(T, king, after) & (s[2] | s[4]) & them:
            continue
        if not (checkers & (s[1] | s[0]) & ~captured):
            out[n] = uint16(f | (ep << 6))
            n += 1
    return n


@inner
def _emit_pawn_moves(T: Any, s: Any, out: Any, n: Any, targets: Any, pinned: Any, king: Any, stm: Any) -> Any:
    """Appends pawn captures towards the a-file, towards the h-file, single and double pushes."""
    pawns = s[0] & s[6 + stm]
    them = s[7 - stm]
    free = ~(s[6] | s[7])
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
def generate_moves(T: Any, s: Any, out: Any) -> Any:
    """Writes the legal moves of a position to `out` (uint16, room for 256) in canonical order.

    Returns their number.
    """
    stm = int64(s[8] & ONE)
    us = s[6 + stm]
    them = s[7 - stm]
    occupied = us | them
    king = ctz(s[5] & us)
    checkers = ((T[KN + king] & s[1]) | (T[PA + 64 * stm + king] & s[0])) & them
    pinned = ZERO
    snipers = ((T[RE + king] & (s[3] | s[4])) | (T[BE + king] & (s[2] | s[4]))) & them
    while snipers:
        q = ctz(snipers)
        between = T[BT + king * 64 + q] & occupied
        if between == ZERO:
            checkers |= ONE << U(q)
        elif (between & (between - ONE)) == ZERO:
            pinned |= between & us
        snipers &= snipers - ONE
    n = 0
    steps = T[KI + king] & ~us
    without_king = occupied ^ (ONE << U(king))
    while steps:
        t = ctz(steps)
        if not is_attacked(T, s, t, without_king, stm):
            out[n] = uint16(king | (t << 6))
            n += 1
        steps &= steps - ONE
    targets = ~us
    if checkers:
        if checkers & (checkers - ONE):
            return n
        targets = checkers | T[BT + king * 64 + ctz(checkers)]
    else:
        n = _emit_castling(T, s, out, n, occupied, stm)
    n = _emit_pieces(T, s, out, n, targets, pinned, king, us)
    n = _emit_pawn_moves(T, s, out, n, targets, pinned, king, stm)
    ep = int64((s[8] >> U(5)) & U(127))
    if ep:
        n = _emit_en_passant(T, s, out, n, ep - 1, checkers, king, stm)
    return n


@inner
def piece_at(s: Any, square: Any) -> Any:
    """Returns the kind of piece on a square: 0 pawn to 5 king, 6 none."""
    bit = U(square)
    for kind in range(6):
        if (s[kind] >> bit) & ONE:
            return kind
    return 6


@inner
def victim_at(s: Any, square: Any) -> Any:
    """Returns the kind of the man, not a king, on a square that is not empty; without branches."""
    bit = U(square)
    odd = ((s[1] | s[3]) >> bit) & ONE
    return int64(odd | (((s[2] | s[3]) >> bit) & ONE) << ONE | ((s[4] >> bit) & ONE) << U(2))


@inner
def man_at(s: Any, square: Any) -> Any:
    """Returns the kind of the man on a square that is not empty; without branches."""
    return victim_at(s, square) + 5 * int64((s[5] >> U(square)) & ONE)


@inner
def make_move(T: Any, s: Any, c: Any, m: Any) -> Any:
    """Writes the position after move `m` in `s` to `c`, key included; returns nothing."""
    mm = int64(m)
    f = mm & 63
    t = (mm >> 6) & 63
    promotion = mm >> 12
    for i in range(8):
        c[i] = s[i]
    meta = s[8]
    key = s[9]
    stm = int64(meta & ONE)
    us = 6 + stm
    them = 7 - stm
    ours = ZO + 64 * (1 - stm)  # Polyglot puts Black before White
    from_bit = ONE << U(f)
    to_bit = ONE << U(t)
    kind = man_at(s, f)
    clock = ((meta >> U(12)) & U(255)) + ONE
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
    ep = int64((meta >> U(5)) & U(127))
    if ep:
        key ^= T[ZO + 772 + ((ep - 1) & 7)]
    new_ep = ZERO
    if kind == 0:
        clock = ZERO
        d = t - f
        if d == 16 or d == -16:
            skipped = (f + t) >> 1
            if T[PA + 64 * stm + skipped] & c[0] & c[them]:
                new_ep = U(skipped + 1)
                key ^= T[ZO + 772 + (skipped & 7)]
        elif ep and t == ep - 1:
            square = t - 8 + 16 * stm
            c[0] ^= ONE << U(square)
            c[them] ^= ONE << U(square)
            key ^= T[ZO + 64 * stm + square]
    elif kind == 5:
        d = t - f
        if d == 2 or d == -2:
            rook_from = t + 1 if d == 2 else t - 2
            rook_to = t - 1 if d == 2 else t + 1
            rook = (ONE << U(rook_from)) | (ONE << U(rook_to))
            c[3] ^= rook
            c[us] ^= rook
            key ^= T[ours + 384 + rook_from] ^ T[ours + 384 + rook_to]
    rights = (meta >> U(1)) & U(15)
    kept = rights & T[CR + f] & T[CR + t]
    if kept != rights:
        key ^= T[ZC + int64(rights)] ^ T[ZC + int64(kept)]
    key ^= T[ZO + 780]
    if clock > U(255):
        clock = U(255)
    c[8] = U(1 - stm) | (kept << U(1)) | (new_ep << U(5)) | (clock << U(12))
    c[9] = key


@inner
def clock_of(s: Any) -> Any:
    """Returns the halfmove clock."""
    return int64((s[8] >> U(12)) & U(255))


@inner
def check_hash(s: Any) -> Any:
    """Returns 32 bits of a second hash over the whole position, clock left out up to 75.

    It tells two positions with one key apart; folded products of 64-bit words as in wyhash.
    """
    meta = s[8] & U(0xFFF)
    clock = (s[8] >> U(12)) & U(255)
    if clock > U(75):
        meta |= clock << U(12)
    h = mum(s[0] ^ U(0xA0761D6478BD642F), s[1] ^ U(0xE7037ED1A0B428DB))
    h ^= mum(s[2] ^ U(0x8EBC6AF09C88C6E3), s[3] ^ U(0x589965CC75374CC3))
    h ^= mum(s[4] ^ U(0x1D8E4E27C47D124F), s[5] ^ U(0xEB44ACCAB455D165))
    h ^= mum(s[6] ^ U(0x2545F4914F6CDD1D), meta ^ U(0x9FB21C651E98DF25))
    return h >> U(32)


@inner
def is_dead(s: Any) -> Any:
    """Returns whether no sequence of moves can mate: bare kings, one minor piece, bishops of one colour."""
    if s[0] | s[3] | s[4]:
        return False
    if s[1]:
        return popc(s[6] | s[7]) == 3
    return not (s[2] & DARK) or not (s[2] & ~DARK)


@inner
def position_key(T: Any, s: Any) -> Any:
    """Returns the graph's key of a position: Polyglot's, XOR the clock term."""
    return s[9] ^ T[CT + clock_of(s)]
