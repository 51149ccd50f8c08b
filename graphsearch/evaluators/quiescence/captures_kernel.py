"""Captures of the quiescence search: lists and orders the promising ones, and computes static exchanges."""

from __future__ import annotations

import numpy as np

from ...jit.compiler import inlined, inner
from ...jit.pointers import ONE, ZERO, U, ctz
from ...jit.types import Pointer, int64, uint16, uint64
from ...position.attacks_kernel import (
    FILE_A,
    FILE_H,
    bishop_attacks,
    is_attacked,
    man_at,
    piece_at,
    rook_attacks,
    victim_at,
)
from ...position.board_kernel import (
    en_passant_of,
    en_passant_takers,
    from_square,
    generate_moves,
    promotion_of,
    side_to_move,
    to_square,
)
from ...position.tables import BE, BT, KI, KN, LN, PA, RE
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

BIAS = 1 << 20  # makes scores and keys unsigned
PLAIN_VALUES = np.array([1000, 3200, 3400, 5000, 9500, 50_000, 0], np.int64)  # by kind; thousandths of a pawn
PROMOTION_GAIN = 8500
# a word of a list of moves: bit 0 DOUBTFUL | 16-31 the move, seen by its side | 32-63 the order key
ORDER_AT, LISTED_AT, LISTED_MASK = U(32), U(16), U(0xFFFF)
DOUBTFUL = ONE  # the mover is worth more than the gain: the capture may lose the exchange
LAST_RANKS = U(0xFF000000000000FF)
BYTES_1, BYTES_2 = U(0x00FF00FF00FF00FF), U(0x0000FFFF0000FFFF)  # every second byte, or pair of bytes


@inner
def get(frame: Pointer[uint64], i: int64) -> int64:
    """Reads a signed word of a frame."""
    return int64(frame[i]) - BIAS


@inner
def put(frame: Pointer[uint64], i: int64, value: int64) -> None:
    """Writes a signed word of a frame."""
    frame[i] = U(int64(value) + BIAS)


@inner
def attackers_of(T: BoardTable, s: Position, sq: int64, occupied: uint64) -> uint64:
    """Returns the men of both sides that attack a square, given the occupied squares."""
    out = T[KN + sq] & s[KNIGHTS] | T[KI + sq] & s[KINGS]
    out |= T[PA + 64 + sq] & s[PAWNS] & s[WHITE] | T[PA + sq] & s[PAWNS] & s[BLACK]
    out |= rook_attacks(T, sq, occupied) & (s[ROOKS] | s[QUEENS])
    return out | bishop_attacks(T, sq, occupied) & (s[BISHOPS] | s[QUEENS])


@inner
def least_of(s: Position, pieces: uint64) -> int64:
    """Returns the least valuable kind among `pieces`, 6 if there are none."""
    for kind in range(6):
        if s[kind] & pieces:
            return kind
    return 6


@inlined
def flip_ranks(squares: uint64) -> uint64:
    """Returns a bitboard with the ranks mirrored: reverses the bytes."""
    out = ((squares >> U(8)) & BYTES_1) | ((squares & BYTES_1) << U(8))
    out = ((out >> U(16)) & BYTES_2) | ((out & BYTES_2) << U(16))
    return (out >> U(32)) | (out << U(32))


@inner
def nearest_of(pieces: uint64, side: int64) -> uint64:
    """Returns the first square of a bitboard in a side's order, which starts at its own first rank.

    The choice between two equal men can decide an exchange, because of the sliders behind them. So Black's
    choice is the mirror image of White's, and a position and its colour flip have the same value.
    """
    if side == 0:
        return pieces & ~(pieces - ONE)
    seen = flip_ranks(pieces)
    return flip_ranks(seen & ~(seen - ONE))


@inner
def exchange(T: BoardTable, s: Position, m: int64 | uint16, gains: Pointer[uint64]) -> int64:
    """Returns the static exchange value of a move: its gain by captures on the target square.

    Args:
      gains: scratch, one word for each capture of the exchange.
    """
    start, target = from_square(m), to_square(m)
    side = side_to_move(s)
    if (s[WHITE + side] >> U(target)) & ONE:  # castling: king takes own rook
        return int64(0)
    mover = piece_at(s, start)
    victim = piece_at(s, target)
    if mover == 0 and victim == 6 and (start & 7) != (target & 7):
        victim = 0
    put(gains, int64(0), PLAIN_VALUES[victim] + (PROMOTION_GAIN if promotion_of(m) else 0))
    standing = PLAIN_VALUES[4] if promotion_of(m) else PLAIN_VALUES[mover]
    occupied = (s[WHITE] | s[BLACK]) ^ (ONE << U(start))
    depth = 0
    side = 1 - side
    attackers = attackers_of(T, s, target, occupied)
    while True:
        own = attackers & occupied & s[WHITE + side]
        kind = least_of(s, own)
        if kind == 6 or (kind == 5 and attackers & occupied & s[BLACK - side]):
            break
        depth += 1
        put(gains, depth, standing - get(gains, depth - 1))
        standing = PLAIN_VALUES[kind]
        occupied ^= nearest_of(own & s[kind], side)
        if kind != 1 and kind != 5:
            attackers |= rook_attacks(T, target, occupied) & (s[ROOKS] | s[QUEENS])
            attackers |= bishop_attacks(T, target, occupied) & (s[BISHOPS] | s[QUEENS])
        side = 1 - side
    while depth > 0:
        put(gains, depth - 1, min(get(gains, depth - 1), -get(gains, depth)))
        depth -= 1
    return get(gains, int64(0))


@inner
def capture_loses(T: BoardTable, s: Position, m: int64 | uint16) -> bool:
    """Returns whether `exchange` of a capture (not en passant, no promotion) is below 0; stops early.

    `debt` is the amount by which the side that captures next is behind if it stops.
    """
    start, target = from_square(m), to_square(m)
    debt = PLAIN_VALUES[man_at(s, start)] - PLAIN_VALUES[victim_at(s, target)]
    if debt <= 0:
        return False
    occupied = (s[WHITE] | s[BLACK]) ^ (ONE << U(start))
    side = 1 - side_to_move(s)
    attackers = attackers_of(T, s, target, occupied)
    loses = False
    while True:
        own = attackers & occupied & s[WHITE + side]
        kind = least_of(s, own)
        if kind == 6 or (kind == 5 and attackers & occupied & s[BLACK - side]):
            return loses
        loses = not loses
        debt = PLAIN_VALUES[kind] - debt
        if debt < (0 if loses else 1):
            return loses
        occupied ^= nearest_of(own & s[kind], side)
        if kind != 1 and kind != 5:
            attackers |= rook_attacks(T, target, occupied) & (s[ROOKS] | s[QUEENS])
            attackers |= bishop_attacks(T, target, occupied) & (s[BISHOPS] | s[QUEENS])
        side = 1 - side


@inner
def capture_gain(s: Position, m: uint16 | int64) -> int64:
    """Returns the value of a move's capture and promotion, for move order; 0 for a quiet move."""
    target = to_square(m)
    gain = int64(0)
    if (s[BLACK - side_to_move(s)] >> U(target)) & ONE:
        gain = PLAIN_VALUES[victim_at(s, target)]
    elif target + 1 == en_passant_of(s) and (s[PAWNS] >> U(from_square(m))) & ONE:
        gain = PLAIN_VALUES[0]
    if promotion_of(m):
        gain += PROMOTION_GAIN if promotion_of(m) == 4 else -PLAIN_VALUES[5]
    return gain


@inner
def flip_move(m: int64 | uint16, stm: int64) -> uint16:
    """Returns a move in the view of the side to move: mirrors the ranks for Black; its own inverse."""
    return uint16(m ^ (stm * (56 | 56 << 6)))


@inner
def key_of(m: int64 | uint16, stm: int64, kind: int64, gain: int64) -> uint64:
    """Returns the word that orders a move: by gain, then by lesser piece, then by squares.

    The squares are in the side to move's view, so a position and its colour flip are searched alike.
    """
    return (U(gain * 8 - kind + BIAS) << ORDER_AT) | (U(flip_move(m, stm)) << LISTED_AT)


@inner
def listed_move(word: uint64, stm: int64) -> uint16:
    """Returns the move in a word of `key_of`."""
    return flip_move(uint16((word >> LISTED_AT) & LISTED_MASK), stm)


@inner
def order_key(s: Position, m: uint16, gain: int64) -> uint64:
    """Returns `key_of` a move; looks up its piece."""
    return key_of(m, side_to_move(s), man_at(s, from_square(m)), gain)


@inner
def worth_taking(s: Position, them: uint64, floor: int64) -> uint64:
    """Returns the men among `them` with a value above `floor`."""
    if floor < PLAIN_VALUES[0]:
        return them
    out = them & ~s[PAWNS]
    for kind in range(1, 5):
        if floor >= PLAIN_VALUES[kind]:
            out &= ~s[kind]
    return out


@inner
def pinned_of(T: BoardTable, s: Position, king: int64, stm: int64) -> uint64:
    """Returns the men pinned to their king, which is not in check."""
    us, them = s[WHITE + stm], s[BLACK - stm]
    pinned = ZERO
    snipers = ((T[RE + king] & (s[ROOKS] | s[QUEENS])) | (T[BE + king] & (s[BISHOPS] | s[QUEENS]))) & them
    while snipers:
        between = T[BT + king * 64 + ctz(snipers)] & (us | them)
        if (between & (between - ONE)) == ZERO:
            pinned |= between & us
        snipers &= snipers - ONE
    return pinned


@inner
def _list_targets(
    s: Position, out: Pointer[uint64], n: int64, f: int64, kind: int64, targets: uint64, stm: int64
) -> int64:
    """Appends the captures of one knight, bishop, rook, queen or king."""
    while targets:
        t = ctz(targets)
        targets &= targets - ONE
        gain = PLAIN_VALUES[victim_at(s, t)]
        word = key_of(f | (t << 6), stm, kind, gain)
        out[n] = word | DOUBTFUL if PLAIN_VALUES[kind] > gain and kind != 5 else word
        n += 1
    return n


@inner
def _list_pieces(
    T: BoardTable,
    s: Position,
    out: Pointer[uint64],
    n: int64,
    victims: uint64,
    pinned: uint64,
    king: int64,
    stm: int64,
) -> int64:
    us, occupied = s[WHITE + stm], s[WHITE] | s[BLACK]
    pieces = s[KNIGHTS] & us & ~pinned
    while pieces:
        f = ctz(pieces)
        n = _list_targets(s, out, n, f, int64(1), T[KN + f] & victims, stm)
        pieces &= pieces - ONE
    pieces = (s[BISHOPS] | s[ROOKS] | s[QUEENS]) & us
    while pieces:
        f = ctz(pieces)
        bit = pieces & ~(pieces - ONE)
        pieces ^= bit
        targets = bishop_attacks(T, f, occupied) if bit & ~s[ROOKS] else ZERO
        if bit & ~s[BISHOPS]:
            targets |= rook_attacks(T, f, occupied)
        targets &= victims
        if bit & pinned:
            targets &= T[LN + king * 64 + f]
        n = _list_targets(s, out, n, f, victim_at(s, f), targets, stm)
    return n


@inner
def _list_pawns(
    T: BoardTable,
    s: Position,
    out: Pointer[uint64],
    n: int64,
    targets: uint64,
    back: int64,
    floor: int64,
    pinned: uint64,
) -> int64:
    """Appends captures or pushes of pawns from `target + back`; on the last rank only queen promotions."""
    stm = side_to_move(s)
    king = ctz(s[KINGS] & s[WHITE + stm])
    while targets:
        t = ctz(targets)
        targets &= targets - ONE
        f = t + back
        if (pinned >> U(f)) & ONE and not ((T[LN + king * 64 + f] >> U(t)) & ONE):
            continue
        gain = PLAIN_VALUES[victim_at(s, t)] if ((s[WHITE] | s[BLACK]) >> U(t)) & ONE else int64(0)
        m = f | (t << 6)
        if t < 8 or t >= 56:
            m |= 4 << 12
            gain += PROMOTION_GAIN
        if gain > floor:
            out[n] = key_of(m, stm, int64(0), gain)
            n += 1
    return n


@inner
def _list_pawn_moves(
    T: BoardTable, s: Position, out: Pointer[uint64], n: int64, victims: uint64, floor: int64, pinned: uint64
) -> int64:
    stm = side_to_move(s)
    pawns = s[PAWNS] & s[WHITE + stm]
    takes = victims | s[BLACK - stm] & LAST_RANKS
    free = ~(s[WHITE] | s[BLACK]) & (LAST_RANKS if floor < PROMOTION_GAIN else ZERO)
    if stm == 0:
        to_a, to_h = (pawns & ~FILE_A) << U(7), (pawns & ~FILE_H) << U(9)
        n = _list_pawns(T, s, out, n, to_a & takes, int64(-7), floor, pinned)
        n = _list_pawns(T, s, out, n, to_h & takes, int64(-9), floor, pinned)
        return _list_pawns(T, s, out, n, (pawns << U(8)) & free, int64(-8), floor, pinned)
    to_a, to_h = (pawns & ~FILE_A) >> U(9), (pawns & ~FILE_H) >> U(7)
    n = _list_pawns(T, s, out, n, to_a & takes, int64(9), floor, pinned)
    n = _list_pawns(T, s, out, n, to_h & takes, int64(7), floor, pinned)
    return _list_pawns(T, s, out, n, (pawns >> U(8)) & free, int64(8), floor, pinned)


@inner
def list_captures(
    T: BoardTable, s: Position, out: Pointer[uint64], floor: int64, pinned: uint64, king: int64, stm: int64
) -> int64:
    """Writes the words of captures and queen promotions that gain more than `floor`; returns their number.

    The side to move must not be in check. A word is `key_of` the move, with DOUBTFUL set if the capture may
    lose the exchange.
    """
    victims = worth_taking(s, s[BLACK - stm], floor)
    n = _list_pieces(T, s, out, int64(0), victims, pinned, king, stm)
    steps = T[KI + king] & victims
    without_king = (s[WHITE] | s[BLACK]) ^ (ONE << U(king))
    while steps:
        t = ctz(steps)
        if not is_attacked(T, s, t, without_king, stm):
            n = _list_targets(s, out, n, king, int64(5), ONE << U(t), stm)
        steps &= steps - ONE
    n = _list_pawn_moves(T, s, out, n, victims, floor, pinned)
    ep = en_passant_of(s)
    if ep and floor < PLAIN_VALUES[0]:
        takers = en_passant_takers(T, s, ep - 1, king, stm)
        while takers:
            out[n] = key_of(ctz(takers) | ((ep - 1) << 6), stm, int64(0), PLAIN_VALUES[0])
            n += 1
            takers &= takers - ONE
    return n


@inner
def has_legal_move(T: BoardTable, s: Position, moves: Pointer[uint16], pinned: uint64, stm: int64) -> bool:
    """Returns whether the side to move, not in check, has a legal move; `moves`: scratch for a move list."""
    us, free = s[WHITE + stm], ~(s[WHITE] | s[BLACK])
    pawns = s[PAWNS] & us & ~pinned
    if (pawns << U(8) if stm == 0 else pawns >> U(8)) & free:
        return True
    knights = s[KNIGHTS] & us & ~pinned
    if knights and T[KN + ctz(knights)] & ~us:
        return True
    return generate_moves(T, s, moves) > 0
