"""Numbers as text, digit for digit as Python's `repr` writes them.

The shortest digits that are read back as the same number are found by Schubfach (Raffaello Giulietti, "The
Schubfach way to render doubles"); its names are kept.
"""

from __future__ import annotations

from ..jit.compiler import inner
from ..jit.pointers import ONE, ZERO, U, mulhi
from ..jit.types import Pointer, int64, uint8, uint64
from .decimals import LEAST_POWER

PLUS, DASH, POINT, NOUGHT, EXPONENT = b"+-.0e"
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
    """Writes so many digits of a number, the last ones; returns where they end."""
    for i in range(at + count - 1, at - 1, -1):
        out[i] = NOUGHT + int64(value % TEN)
        value //= TEN
    return at + count


@inner
def write_integer(value: int64, out: Pointer[uint8], at: int64) -> int64:
    """Writes a whole number; returns where it ends."""
    if value < 0:
        out[at] = DASH
        at += 1
    magnitude = U(abs(value))
    return _write_digits(magnitude, _count_digits(magnitude), out, at)


@inner
def _times_power(powers: Pointer[uint64], k: int64, factor: uint64) -> uint64:
    """Returns `factor * g >> 128`, where g is the power of ten; its last bit says whether it was rounded."""
    i = 2 * (k - LEAST_POWER)
    low = mulhi(powers[i], factor)
    middle = powers[i + 1] * factor + low
    high = mulhi(powers[i + 1], factor) + (ONE if middle < low else ZERO)
    return high | (ONE if middle > ONE else ZERO)


@inner
def _shortest(powers: Pointer[uint64], fraction: int64, exponent: int64) -> tuple[uint64, int64]:
    """Returns digits d and a power k of ten for a positive number, `d * 10 ** k`; d may end in zeros."""
    c, q = U(fraction), int64(1 - BIAS)
    if exponent:
        c, q = U(fraction | 1 << FRACTION_BITS), exponent - BIAS
    uneven = fraction == 0 and exponent > 1  # the number below is only half as far away
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
    """Writes `d.ddde-05`; returns where it ends."""
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
    """Writes "0.00ddd", "dd.d" or "dd00.0", with the point behind so many digits; returns the end."""
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
    """Writes a finite float64 as `repr` does; returns where it ends.

    Args:
      powers: `load_powers()`. bits: those of the number, int64.
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
