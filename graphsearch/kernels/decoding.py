"""Blocks to records, in bulk: any bytes decode or are reported, and nothing is touched out of bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint8, uint16, uint32

from .codec import (
    CLOCK,
    EDGES,
    EMPTIED,
    EVALUATOR,
    FILLED,
    FLAGS,
    HEADER,
    LIMIT,
    MAGNITUDE,
    MAX_CODE,
    MAX_DRAW,
    MAX_MOVES,
    META,
    MOVES,
    N_BITS,
    PIECE,
    PRIOR,
    PW,
    Q_DRAW,
    Q_HIGH,
    R_BITS,
    REF,
    SLOTS,
    TABLES,
    UNIT,
    UNUSED,
    V_DRAW,
    V_HIGH,
    bit_length,
    is_position,
    man_at,
    pointers,
)
from .jit import ONE, ZERO, U, adv, ctz, inner, kernel, ptr
from .tables import ZC, ZO

AT, END, FAILED = 0, 1, 2  # the reader: next bit, first bit after the block, 1 after any fault


@inner
def _peek(data: Any, bit: Any) -> Any:
    """Returns at least 25 bits from `bit` on; the data are padded, so reading past the end is safe."""
    i = bit >> 3
    x = int64(data[i]) | (int64(data[i + 1]) << 8) | (int64(data[i + 2]) << 16) | (int64(data[i + 3]) << 24)
    return x >> (bit & 7)


@inner
def _take_bits(data: Any, reader: Any, width: Any) -> Any:
    bit = reader[AT]
    if bit + width > reader[END]:
        reader[FAILED] = 1
        return int64(0)
    reader[AT] = bit + width
    return _peek(data, bit) & ((int64(1) << width) - 1)


@inner
def _take_symbol(data: Any, reader: Any, decoder: Any, table: Any) -> Any:
    bit = reader[AT]
    entry = int64(decoder[(table << LIMIT) | (_peek(data, bit) & (SLOTS - 1))])
    after = bit + (entry >> 8)
    if entry >= UNUSED or after > reader[END]:
        reader[FAILED] = 1
        return int64(0)
    reader[AT] = after
    return entry & 255


@inner
def _take_number(data: Any, reader: Any, decoder: Any, table: Any) -> Any:
    length = _take_symbol(data, reader, decoder, table)
    if length > 32:
        reader[FAILED] = 1
        return int64(0)
    if length < 2:
        return length
    top = int64(1) << (length - 1)
    if length > 17:
        low = _take_bits(data, reader, int64(16))
        return top | low | (_take_bits(data, reader, length - 17) << 16)
    return top | _take_bits(data, reader, length - 1)


@inner
def _take_float(data: Any, reader: Any, decoder: Any, table: Any) -> Any:
    high = _take_symbol(data, reader, decoder, table)
    bits = (high << 24) | _take_bits(data, reader, int64(24))
    if bits & MAGNITUDE > UNIT:
        reader[FAILED] = 1
    return uint32(bits)


@inner
def _take_draw(data: Any, reader: Any, decoder: Any, table: Any) -> Any:
    high = _take_symbol(data, reader, decoder, table)
    d = (high << 2) | _take_bits(data, reader, int64(2))
    if d > MAX_DRAW:
        reader[FAILED] = 1
    return uint16(d)


@inner
def _take_squares(data: Any, reader: Any, decoder: Any, table: Any) -> Any:
    count = _take_symbol(data, reader, decoder, table)
    squares = ZERO
    square = int64(-1)
    for k in range(count):
        if k == 0:
            square = _take_symbol(data, reader, decoder, table + 1)
        else:
            square += 1 + _take_symbol(data, reader, decoder, table + 2)
        if square > 63:
            reader[FAILED] = 1
            return ZERO
        squares |= ONE << U(square)
    return squares


@inner
def _men_key(T: Any, s: Any, squares: Any) -> Any:
    """Returns the Polyglot words of the men on some squares."""
    key = ZERO
    squares &= s[6] | s[7]
    while squares:
        bit = squares & (~squares + ONE)
        man = man_at(s, bit)
        if man < 6:
            key ^= T[ZO + 128 * man + 64 + ctz(bit)]
        else:
            key ^= T[ZO + 128 * (man - 6) + ctz(bit)]
        squares ^= bit
    return key


@inner
def _meta_key(T: Any, meta: Any) -> Any:
    key = T[ZC + ((meta >> 1) & 15)]
    ep = (meta >> 5) & 127
    if ep:
        key ^= T[ZO + 772 + ((ep - 1) & 7)]
    return key if meta & 1 else key ^ T[ZO + 780]


@inner
def _take_position(T: Any, data: Any, reader: Any, decoder: Any, s: Any, base: Any) -> Any:
    """Reads a position told from `base` into `s`, key included."""
    emptied = _take_squares(data, reader, decoder, int64(EMPTIED))
    filled = _take_squares(data, reader, decoder, int64(FILLED))
    kept = ~(emptied | filled)
    for w in range(8):
        s[w] = base[w] & kept
    left = emptied
    rest = filled
    while rest:
        man = man_at(base, left & (~left + ONE)) if left else int64(12)
        left &= left - ONE
        symbol = _take_symbol(data, reader, decoder, PIECE + man)
        if symbol > 11:
            reader[FAILED] = 1
            symbol = int64(0)
        bit = rest & (~rest + ONE)
        s[symbol if symbol < 6 else symbol - 6] |= bit
        s[6 if symbol < 6 else 7] |= bit
        rest ^= bit
    x = _take_symbol(data, reader, decoder, int64(META))
    if x > 63:
        reader[FAILED] = 1
    meta = ((x >> 1) & 1) | ((((x >> 2) & 15) ^ ((int64(base[8]) >> 1) & 15)) << 1)
    if x & 1:
        meta |= (_take_bits(data, reader, int64(6)) + 1) << 5
    meta |= _take_symbol(data, reader, decoder, int64(CLOCK)) << 12
    if not is_position(s):
        reader[FAILED] = 1
    s[8] = U(meta)
    s[9] = base[9] ^ _meta_key(T, int64(base[8])) ^ _meta_key(T, meta)
    s[9] ^= _men_key(T, base, ~kept) ^ _men_key(T, s, ~kept)


@inner
def _take_priors(data: Any, reader: Any, decoder: Any, codes: Any, n: Any) -> Any:
    """Reads `n` P codes; the position in the bits is a local, because this loop is half of all the time."""
    table = int64(PRIOR) + 9 * min(n >> 3, int64(7))
    context = int64(0)
    bit = reader[AT]
    wrong = int64(0)
    end = reader[END]
    for j in range(n):
        entry = int64(decoder[((table + context) << LIMIT) | (_peek(data, min(bit, end)) & (SLOTS - 1))])
        bit += entry >> 8
        code = entry & 255
        wrong |= 1 if code < 1 or code > MAX_CODE or entry >= UNUSED else 0
        context = 1 + ((code & MAX_CODE) >> 3)
        codes[j] = uint8(code)
    reader[AT] = bit
    if wrong or bit > end:
        reader[FAILED] = 1


@inner
def _take_edges(data: Any, reader: Any, decoder: Any, c: Any, first: Any, n: Any, drawn: Any) -> Any:
    context = int64(33)
    for e in range(first, first + n):
        x = _take_number(data, reader, decoder, N_BITS + context)
        c.n[e] = uint32(x)
        context = bit_length(U(x))
        c.r[e] = uint32(_take_number(data, reader, decoder, int64(R_BITS)) if drawn else 0)
        c.q[e] = _take_float(data, reader, decoder, int64(Q_HIGH))
        c.edge_d[e] = _take_draw(data, reader, decoder, int64(Q_DRAW))


@inner
def _decode_block(
    T: Any, data: Any, reader: Any, decoder: Any, c: Any, first: Any, header: Any, start: Any
) -> Any:
    """Reads one block into the columns from record `first` on; the reader tells whether it was sound."""
    codes_left = (header >> 5) & 0x1FFF
    edges_left = (header >> 18) & 0x1FFF
    for i in range(first, first + (header & 31) + 1):
        base = start
        if i > first:
            back = _take_symbol(data, reader, decoder, int64(REF))
            if back >= i - first:
                reader[FAILED] = 1
                return
            base = adv(c.words, PW * (i - 1 - back))
        _take_position(T, data, reader, decoder, adv(c.words, PW * i), base)
        c.flags[i] = uint8(_take_symbol(data, reader, decoder, int64(FLAGS)))
        c.evaluator[i] = uint8(_take_symbol(data, reader, decoder, int64(EVALUATOR)))
        c.v[i] = _take_float(data, reader, decoder, int64(V_HIGH))
        c.d[i] = _take_draw(data, reader, decoder, int64(V_DRAW))
        moves = _take_symbol(data, reader, decoder, int64(MOVES))
        if moves > codes_left or moves > MAX_MOVES:
            reader[FAILED] = 1
            return
        _take_priors(data, reader, decoder, adv(c.codes, c.code_offsets[i]), moves)
        edges = _take_symbol(data, reader, decoder, int64(EDGES))
        if edges > edges_left or edges > moves or reader[FAILED]:
            reader[FAILED] = 1
            return
        _take_edges(data, reader, decoder, c, c.edge_offsets[i], edges, header >> 31)
        c.code_offsets[i + 1] = c.code_offsets[i] + moves
        c.edge_offsets[i + 1] = c.edge_offsets[i] + edges
        codes_left -= moves
        edges_left -= edges
    if codes_left or edges_left or reader[END] - reader[AT] > 7:
        reader[FAILED] = 1


@kernel
def decode(T: Any, data: Any, ends: Any, decoder: Any, start: Any, columns: Any, first: Any) -> Any:
    """Reads blocks into columns from record `first` on; returns the first unsound block, or their number.

    Args:
      T: the table of `tables.py`.
      data: uint8, blocks one after the other without checksums, then 8 spare bytes.
      ends: `[blocks]` int64, end of each block in `data`.
      decoder: `[TABLES << LIMIT]` uint16, from `fill_decoder`. start: as in `tokenize`.
      columns: `Columns` with room for what the headers announce; the offsets at `first` are set.
    """
    c = pointers(columns)
    reader = np.zeros(3, np.int64)
    at = int64(0)
    i = first
    for b in range(len(ends)):
        if ends[b] - at < HEADER:
            return int64(b)
        header = _peek(ptr(data, 0), at << 3)
        reader[AT] = (at + HEADER) << 3
        reader[END] = ends[b] << 3
        reader[FAILED] = 0
        _decode_block(ptr(T, 0), ptr(data, 0), ptr(reader, 0), ptr(decoder, 0), c, i, header, ptr(start, 0))
        if reader[FAILED]:
            return int64(b)
        i += (header & 31) + 1
        at = ends[b]
    return int64(len(ends))


@kernel
def fill_decoder(lengths: Any, codes: Any, decoder: Any) -> Any:
    """Fills the decoder from Huffman code lengths and codes, both `[TABLES * 256]`."""
    for t in range(TABLES):
        base = t << LIMIT
        for x in range(SLOTS):
            decoder[base + x] = uint16(UNUSED)
        for symbol in range(256):
            length = int64(lengths[t * 256 + symbol])
            if length == 15:  # the only symbol of its table takes no bits
                for x in range(SLOTS):
                    decoder[base + x] = uint16(symbol)
            elif length > 0:
                step = int64(1) << length
                for x in range(int64(codes[t * 256 + symbol]), SLOTS, step):
                    decoder[base + x] = uint16(symbol | (length << 8))
