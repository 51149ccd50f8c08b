"""Writes numbers digit for digit as Python's `repr` does, and squares and FENs.

Schubfach (Raffaello Giulietti, "The Schubfach way to render doubles") finds the shortest digits that parse to
the same number; the variable names are the paper's.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U, mulhi
from ..jit.types import Pointer, int64, uint8, uint64
from .attacks_kernel import piece_at
from .board_kernel import clock_of, en_passant_of, side_to_move
from .castling_kernel import has_right, rook_square
from .tables import LEAST_POWER
from .words import BLACK, META, NO_MAN, ROOKS, WHITE, Position

SPACE, PLUS, DASH, POINT, SLASH, NOUGHT, EXPONENT = b" +-./0e"
RANK_ONE, UPPER_A, LOWER_A = b"1Aa"
WHITE_TURN, BLACK_TURN = b"wb"
LETTERS = tuple(b"PNBRQK")  # by kind
RIGHTS = tuple(b"KQkq")
SMALL = LOWER_A - UPPER_A
BACK_RANK = U(0xFF)
FRACTION_BITS, BIAS = 52, 1075  # 1023 + 52
FRACTION = (1 << FRACTION_BITS) - 1
MAGNITUDE = (1 << 63) - 1
TWO, FOUR, TEN, FORTY = U(2), U(4), U(10), U(40)


@inner
def _count_digits(value: uint64) -> int64:
    count, rest = int64(1), value // TEN
    while rest:
        count += 1
        rest //= TEN
    return count


@inner
def _write_digits(value: uint64, count: int64, out: Pointer[uint8], at: int64) -> int64:
    for i in range(at + count - 1, at - 1, -1):
        out[i] = NOUGHT + int64(value % TEN)
        value //= TEN
    return at + count


@inner
def write_integer(value: int64, out: Pointer[uint8], at: int64) -> int64:
    """Writes an integer; returns its end."""
    if value < 0:
        out[at] = DASH
        at += 1
    magnitude = U(abs(value))
    return _write_digits(magnitude, _count_digits(magnitude), out, at)


@inner
def _times_power(powers: Pointer[uint64], k: int64, factor: uint64) -> uint64:
    """Returns `factor * g >> 128`, g being the power of ten; sets the last bit if the result is inexact."""
    i = 2 * (k - LEAST_POWER)
    low = mulhi(powers[i], factor)
    middle = powers[i + 1] * factor + low
    high = mulhi(powers[i + 1], factor) + (ONE if middle < low else ZERO)
    return high | (ONE if middle > ONE else ZERO)


@inner
def _shortest(powers: Pointer[uint64], fraction: int64, exponent: int64) -> tuple[uint64, int64]:
    """Returns digits d and an exponent k of a positive number, `d * 10 ** k`; d may end in zeros."""
    c, q = U(fraction), int64(1 - BIAS)
    if exponent:
        c, q = U(fraction | 1 << FRACTION_BITS), exponent - BIAS
    uneven = fraction == 0 and exponent > 1  # the next smaller number is only half as far away
    k = (q * 1262611 - (524031 if uneven else 0)) >> 22  # floor(log10(2 ** q)), or of 3/4 of that
    h = U(q + ((-k * 1741647) >> 19) + 1)  # floor(log2(10 ** -k))
    vb = _times_power(powers, -k, FOUR * c << h)
    lower = _times_power(powers, -k, FOUR * c - TWO + (ONE if uneven else ZERO) << h) + (c & ONE)
    upper = _times_power(powers, -k, FOUR * c + TWO << h) - (c & ONE)
    s = vb // FOUR
    short = s // TEN
    down, up = lower <= FORTY * short, FORTY * short + FORTY <= upper
    if s >= TEN and down != up:
        return short + (ONE if up else ZERO), k + 1
    down, up = lower <= FOUR * s, FOUR * s + FOUR <= upper
    if down == up:
        middle = FOUR * s + TWO
        up = vb > middle or (vb == middle and s & ONE != ZERO)
    return s + (ONE if up else ZERO), k


@inner
def _write_zeros(count: int64, out: Pointer[uint8], at: int64) -> int64:
    for i in range(count):
        out[at + i] = NOUGHT
    return at + max(count, int64(0))


@inner
def _write_scientific(digits: uint64, count: int64, exponent: int64, out: Pointer[uint8], at: int64) -> int64:
    end = _write_digits(digits, count, out, at + 1)
    out[at] = out[at + 1]
    out[at + 1] = POINT
    at = end if count > 1 else at + 1
    out[at] = EXPONENT
    out[at + 1] = DASH if exponent < 0 else PLUS
    magnitude = U(abs(exponent))
    return _write_digits(magnitude, max(int64(2), _count_digits(magnitude)), out, at + 2)


@inner
def _write_fixed(digits: uint64, count: int64, point: int64, out: Pointer[uint8], at: int64) -> int64:
    """Writes "0.00ddd", "dd.d" or "dd00.0", with the point after `point` digits; returns the end."""
    if point <= 0:
        out[at] = NOUGHT
        out[at + 1] = POINT
        return _write_digits(digits, count, out, _write_zeros(-point, out, at + 2))
    if point >= count:
        at = _write_zeros(point - count, out, _write_digits(digits, count, out, at))
        out[at] = POINT
        out[at + 1] = NOUGHT
        return at + 2
    end = _write_digits(digits, count, out, at + 1)
    for i in range(at, at + point):
        out[i] = out[i + 1]
    out[at + point] = POINT
    return end


@inner
def write_float(powers: Pointer[uint64], bits: int64, out: Pointer[uint8], at: int64) -> int64:
    """Writes a finite float64 as `repr` does; returns its end.

    Args:
      powers: `load_powers()`. bits: the number's 64 bits as int64.
    """
    if bits < 0:
        out[at] = DASH
        at += 1
    fraction, exponent = bits & FRACTION, (bits & MAGNITUDE) >> FRACTION_BITS
    digits, power = ZERO, int64(0)
    if fraction | exponent:
        digits, power = _shortest(powers, fraction, exponent)
    while digits and digits % TEN == ZERO:
        digits //= TEN
        power += 1
    count = _count_digits(digits)
    point = count + power
    if -4 < point <= 16:
        return _write_fixed(digits, count, point, out, at)
    return _write_scientific(digits, count, point - 1, out, at)


@inner
def write_square(square: int64, out: Pointer[uint8], at: int64) -> int64:
    """Writes the name of a square; returns its end."""
    out[at] = LOWER_A + (square & 7)
    out[at + 1] = RANK_ONE + (square >> 3)
    return at + 2


@inner
def _write_placement(s: Position, out: Pointer[uint8], at: int64) -> int64:
    for place in range(64):
        square = int64(place) ^ 56
        if place & 7 == 0 and place:
            out[at] = SLASH
            at += 1
        kind = piece_at(s, square)
        if kind != NO_MAN:
            out[at] = LETTERS[kind] + SMALL * int64((s[BLACK] >> U(square)) & ONE)
            at += 1
        elif place & 7 and NOUGHT < out[at - 1] < NOUGHT + 8:
            out[at - 1] += 1
        else:
            out[at] = RANK_ONE
            at += 1
    return at


@inner
def _letter_of_right(s: Position, right: int64) -> int64:
    """Returns the X-FEN letter of a castling right: the rook's file if another own rook is further out."""
    rook = rook_square(s[META], right)
    beyond = ((ONE << U(rook)) - ONE) & BACK_RANK << U(rook & 56)  # the squares below it on its rank
    if right & 1 == 0:
        beyond = (BACK_RANK << U(rook & 56)) ^ beyond ^ (ONE << U(rook))
    if s[ROOKS] & s[WHITE + (right >> 1)] & beyond:
        return (UPPER_A if right < 2 else LOWER_A) + (rook & 7)
    return int64(RIGHTS[right])


@inner
def _write_rights(s: Position, out: Pointer[uint8], at: int64) -> int64:
    begin = at
    for i in range(4):
        if has_right(s, i):
            out[at] = _letter_of_right(s, int64(i))
            at += 1
    if at == begin:
        out[at] = DASH
        at += 1
    return at


@inner
def write_fen(s: Position, number: int64, out: Pointer[uint8], at: int64) -> int64:
    """Writes the FEN of a position as `board.fen_of` does, with move number `number`; returns its end."""
    at = _write_placement(s, out, at)
    out[at] = SPACE
    out[at + 1] = BLACK_TURN if side_to_move(s) else WHITE_TURN
    out[at + 2] = SPACE
    at = _write_rights(s, out, at + 3)
    out[at] = SPACE
    square = en_passant_of(s) - 1
    if square < 0:
        out[at + 1] = DASH
        at += 2
    else:
        at = write_square(square, out, at + 1)
    out[at] = SPACE
    at = write_integer(clock_of(s), out, at + 1)
    out[at] = SPACE
    return write_integer(number, out, at + 1)
