"""The entropy codes of zstd frames: bit streams, FSE and Huffman tables (RFC 8878, section 4).

Any bytes make a table or are refused, and nothing is touched out of bounds, if `PADDING` bytes may be read
behind the data. The tables of one dictionary (or of the predefined codes, or of the frame at hand) are a
*set* of `SET` words of 32 bits:

    HUF      2048  literals by the next bits: symbol | bits << 8
    LL, ML    512  literal and match lengths by state: symbol | bits << 8 | base << 16
    OF        256  offsets, likewise
    INFO       16  bits that index these tables, repeated offsets, where the content is and its length
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint8, uint32

from ...jit.compiler import inner
from ...jit.pointers import ONE, U, adv

PADDING = 8  # bytes behind the data that may be read
HUF, LL, OF, ML, INFO, SET = 0, 2048, 2560, 2816, 3328, 3344
LITERALS, LENGTHS, OFFSETS, MATCHES = 0, 1, 2, 3  # which table; also the places of their bits in INFO
REPEATED, CONTENT, CONTENT_END = 4, 7, 8  # in INFO
NONE = 255  # bits of a table that is not there
SCRATCH_SET, PREDEFINED_SET = 0, 1

MAX_HUF_BITS, MAX_WEIGHT_BITS = 11, 6

# working memory, int64: the tables at hand (where, bits), repeated offsets; the weights and counts of codes
AT, BITS, REPS, COUNTS, NEXT = 0, 4, 8, 16, 16 + 256
STATE = NEXT + 256

_LL = [4, 3, *[2] * 11, 1, 1, 1, *[2] * 9, 3, 2, *[1] * 5, *[-1] * 4]
_OF = [*[1] * 6, 2, 2, 2, *[1] * 15, *[-1] * 5]
_ML = [1, 4, 3, *[2] * 6, *[1] * 37, *[-1] * 7]
PREDEFINED = np.array(_LL + _OF + _ML, np.int64)

_LL_BITS = [*[0] * 16, 1, 1, 1, 1, 2, 2, 3, 3, 4, *range(6, 17)]
_ML_BITS = [*[0] * 32, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, *range(7, 17)]


def _bases(first: int, bits: list[int]) -> list[int]:
    bases = [first]
    for count in bits[:-1]:
        bases.append(bases[-1] + (1 << count))
    return bases


# base << 8 | extra bits, of literal lengths by code and then of match lengths
LENGTH_CODES = np.array(
    [
        base << 8 | bits
        for first, extra in ((0, _LL_BITS), (3, _ML_BITS))
        for base, bits in zip(_bases(first, extra), extra, strict=True)
    ],
    np.int64,
)
assert [len(_LL), len(_OF), len(_ML)] == [36, 29, 53]
assert len(LENGTH_CODES) == 36 + 53


@inner
def word(data: Any, at: Any) -> Any:
    """Returns 8 bytes, lowest first; the compiler makes one load of them."""
    return (
        U(data[at])
        | (U(data[at + 1]) << U(8))
        | (U(data[at + 2]) << U(16))
        | (U(data[at + 3]) << U(24))
        | (U(data[at + 4]) << U(32))
        | (U(data[at + 5]) << U(40))
        | (U(data[at + 6]) << U(48))
        | (U(data[at + 7]) << U(56))
    )


@inner
def forward(data: Any, bit: Any, count: Any) -> Any:
    """Returns up to 32 bits of a stream that is read from its first byte on."""
    return int64((word(data, bit >> 3) >> U(bit & 7)) & ((ONE << U(count)) - ONE))


@inner
def backward(data: Any, begin: Any, bit: Any, count: Any) -> Any:
    """Returns the `count` (up to 32) bits above `bit` of a stream that is read from its end; 0 before it."""
    if bit >= 0:
        return forward(data, 8 * begin + bit, count)
    if bit + count <= 0:
        return int64(0)
    return forward(data, 8 * begin, bit + count) << -bit


@inner
def top(x: Any) -> Any:
    """Returns the place of the highest set bit of a positive number."""
    place = int64(0)
    while x > 1:
        x >>= 1
        place += 1
    return place


@inner
def last_bit(data: Any, begin: Any, end: Any) -> Any:
    """Returns the bits of a stream that is read from its end, or -1: its last set bit is only a mark."""
    if end <= begin or data[end - 1] == 0:
        return int64(-1)
    return 8 * (end - begin - 1) + top(int64(data[end - 1]))


# ------------------------------------------------------------------ tables


@inner
def counts(data: Any, begin: Any, end: Any, most: Any, symbols: Any, counts: Any) -> Any:
    """Reads how often each symbol of an FSE code comes; returns (bits of its table, end), or (-1, -1)."""
    fault = (int64(-1), int64(-1))
    if begin >= end:
        return fault
    bits = int64(data[begin] & uint8(15)) + 5
    if bits > most:
        return fault
    for symbol in range(symbols):
        counts[symbol] = 0
    at = 8 * begin + 4
    left = int64(1) << bits
    symbol = int64(0)
    while left > 0 and symbol < symbols:
        if at >> 3 >= end:
            return fault
        width = top(left + 1) + 1
        x = forward(data, at, width)
        at += width
        low = (int64(1) << (width - 1)) - 1
        threshold = (int64(1) << width) - 2 - left
        if x & low < threshold:
            at -= 1
            x &= low
        elif x > low:
            x -= threshold
        x -= 1
        left -= 1 if x < 0 else x
        counts[symbol] = x
        symbol += 1
        more = int64(3) if x == 0 else int64(0)
        while more == 3:
            if at >> 3 >= end:
                return fault
            more = forward(data, at, int64(2))
            at += 2
            symbol += more
    reached = (at + 7) >> 3
    if left != 0 or symbol > symbols or reached > end:
        return fault
    return bits, reached


@inner
def spread(table: Any, bits: Any, symbols: Any, counts: Any, following: Any) -> Any:
    """Fills the table of an FSE code; returns whether the counts make one."""
    size = int64(1) << bits
    high = size
    for symbol in range(symbols):
        following[symbol] = counts[symbol]
        if counts[symbol] < 0:
            high -= 1
            table[high] = uint32(symbol)
            following[symbol] = 1
    step = (size >> 1) + (size >> 3) + 3
    at = int64(0)
    for symbol in range(symbols):
        for _ in range(counts[symbol]):
            table[at] = uint32(symbol)
            at = (at + step) & (size - 1)
            while at >= high and high > 0:
                at = (at + step) & (size - 1)
    if at != 0:
        return False
    for i in range(size):
        symbol = int64(table[i])
        state = following[symbol]
        following[symbol] = state + 1
        taken = bits - top(state)
        table[i] = uint32(symbol | (taken << 8) | (((state << taken) - size) << 16))
    return True


@inner
def _weights(data: Any, begin: Any, end: Any, table: Any, state: Any) -> Any:
    """Reads FSE-coded weights of a Huffman code into `COUNTS`; returns their number, or -1."""
    bits, begin = counts(data, begin, end, int64(MAX_WEIGHT_BITS), int64(16), adv(state, COUNTS))
    if bits < 0 or not spread(table, bits, int64(16), adv(state, COUNTS), adv(state, NEXT)):
        return int64(-1)
    at = last_bit(data, begin, end) - bits
    one = backward(data, begin, at, bits)
    at -= bits
    two = backward(data, begin, at, bits)
    if at < 0:
        return int64(-1)
    n = int64(0)
    while n < 254:
        entry = int64(table[one])
        state[COUNTS + n] = entry & 255
        n += 1
        at -= (entry >> 8) & 255
        one = (entry >> 16) + backward(data, begin, at, (entry >> 8) & 255)
        if at < 0:
            state[COUNTS + n] = int64(table[two]) & 255
            return n + 1
        swap = one
        one = two
        two = swap
    return int64(-1)


@inner
def huffman(data: Any, begin: Any, end: Any, tables: Any, base: Any, state: Any) -> Any:
    """Reads a Huffman code into a set; returns (bits of its table, end), or (-1, -1)."""
    fault = (int64(-1), int64(-1))
    if begin >= end:
        return fault
    first = int64(data[begin])
    begin += 1
    if first < 128:
        reached = begin + first
        n = _weights(data, begin, reached, adv(tables, base), state) if reached <= end else int64(-1)
    else:
        n = first - 127
        reached = begin + ((n + 1) >> 1)
        if reached > end:
            return fault
        for i in range(n):
            x = int64(data[begin + (i >> 1)])
            state[COUNTS + i] = x & 15 if i & 1 else x >> 4
    if n < 1:
        return fault
    bits = _complete(adv(state, COUNTS), n)
    if bits < 1 or bits > MAX_HUF_BITS:
        return fault
    _fill(adv(tables, base), adv(state, COUNTS), n + 1, bits, adv(state, NEXT))
    return bits, reached


@inner
def _complete(weights: Any, n: Any) -> Any:
    """Adds the last weight, which follows from the others; returns the bits of the longest code, or -1."""
    total = int64(0)
    for i in range(n):
        if weights[i] > MAX_HUF_BITS:
            return int64(-1)
        total += (int64(1) << weights[i]) >> 1
    if total == 0:
        return int64(-1)
    bits = top(total) + 1
    rest = (int64(1) << bits) - total
    if rest & (rest - 1):
        return int64(-1)
    weights[n] = top(rest) + 1
    return bits


@inner
def _fill(table: Any, weights: Any, n: Any, bits: Any, starts: Any) -> Any:
    """Fills the table of a complete Huffman code."""
    for w in range(bits + 2):
        starts[w] = 0
    for i in range(n):
        starts[weights[i] + 1] += (int64(1) << weights[i]) >> 1
    for w in range(1, bits + 2):
        starts[w] += starts[w - 1]
    for i in range(n):
        w = weights[i]
        entry = uint32(i | ((bits + 1 - w) << 8))
        for _ in range((int64(1) << w) >> 1):
            table[starts[w]] = entry
            starts[w] += 1
