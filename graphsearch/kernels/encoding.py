"""Records to blocks, in bulk: first to tokens, which are counted, then to bits.

A token is `table << 24 | symbol`, or `RAW + width << 24 | bits`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint8, uint32

from .codec import (
    BAD_FIELD,
    BAD_POSITION,
    BLOCK,
    CLOCK,
    EDGES,
    EMPTIED,
    EVALUATOR,
    FILLED,
    FLAGS,
    HEADER,
    MAGNITUDE,
    MAX_CODE,
    MAX_DRAW,
    MAX_MOVES,
    META,
    MOVES,
    N_BITS,
    OK,
    PIECE,
    PRIOR,
    PW,
    Q_DRAW,
    Q_HIGH,
    R_BITS,
    RAW,
    REF,
    UNIT,
    V_DRAW,
    V_HIGH,
    bit_length,
    is_position,
    man_at,
    pointers,
)
from .jit import ONE, U, adv, ctz, inner, kernel, popc, ptr

POSITION_TOKENS = 1 + 2 + 2 * 64 + 12  # reference, counts, squares and men, the single fields
EDGE_TOKENS = 3 + 3 + 2 + 2  # n, r, q, d


@inner
def _planes(s: Any, p: Any) -> Any:
    """Writes four bit planes of the men on the 64 squares: kind 1..6 in three, Black in the fourth."""
    p[0] = s[0] | s[2] | s[4]
    p[1] = s[1] | s[2] | s[5]
    p[2] = s[3] | s[4] | s[5]
    p[3] = s[7]


@inner
def _difference(a: Any, b: Any) -> Any:
    return (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])


@inner
def _symbol(tokens: Any, k: Any, counts: Any, table: Any, symbol: Any) -> Any:
    tokens[k] = uint32((table << 24) | symbol)
    counts[(table << 8) | symbol] += uint32(1)
    return k + 1


@inner
def _raw(tokens: Any, k: Any, width: Any, bits: Any) -> Any:
    tokens[k] = uint32(((RAW + width) << 24) | bits)
    return k + 1


@inner
def _number(tokens: Any, k: Any, counts: Any, table: Any, x: Any) -> Any:
    """Appends a u32: its bit length as a symbol, then the bits below the highest one."""
    length = bit_length(U(x))
    k = _symbol(tokens, k, counts, table, length)
    rest = int64(x) & ((int64(1) << max(length - 1, 0)) - 1)
    if length > 17:  # a token has room for 24 bits
        k = _raw(tokens, k, int64(16), rest & 0xFFFF)
        return _raw(tokens, k, length - 17, rest >> 16)
    if length > 1:
        k = _raw(tokens, k, length - 1, rest)
    return k


@inner
def _float(tokens: Any, k: Any, counts: Any, table: Any, bits: Any) -> Any:
    """Appends a float32: its high byte as a symbol, the other 24 bits as they are."""
    b = int64(bits)
    k = _symbol(tokens, k, counts, table, b >> 24)
    return _raw(tokens, k, int64(24), b & 0xFFFFFF)


@inner
def _draw(tokens: Any, k: Any, counts: Any, table: Any, d: Any) -> Any:
    """Appends a draw probability: the upper 8 of its 10 bits as a symbol, two bits as they are."""
    x = int64(d)
    k = _symbol(tokens, k, counts, table, x >> 2)
    return _raw(tokens, k, int64(2), x & 3)


@inner
def _squares(tokens: Any, k: Any, counts: Any, table: Any, squares: Any) -> Any:
    """Appends a set of squares: their number, the first, then the gaps."""
    k = _symbol(tokens, k, counts, table, popc(squares))
    last: Any = int64(-1)
    while squares:
        square = ctz(squares)
        squares &= squares - ONE
        if last < 0:
            k = _symbol(tokens, k, counts, table + 1, square)
        else:
            k = _symbol(tokens, k, counts, table + 2, square - last - 1)
        last = square
    return k


@inner
def _best_reference(planes: Any, i: Any) -> Any:
    """Returns which earlier record of the block has the fewest other squares, the nearest at ties."""
    best: Any = int64(65)
    reference: Any = i - 1
    for j in range(i - 1, -1, -1):
        x = popc(_difference(adv(planes, 4 * i), adv(planes, 4 * j)))
        if x < best:
            best = x
            reference = j
    return reference


@inner
def _position(tokens: Any, k: Any, counts: Any, s: Any, base: Any, changed: Any) -> Any:
    """Appends a position as the squares that changed against `base`, then the other parts of it."""
    men = s[6] | s[7]
    emptied = changed & ~men
    filled = changed & men
    k = _squares(tokens, k, counts, int64(EMPTIED), emptied)
    k = _squares(tokens, k, counts, int64(FILLED), filled)
    while filled:
        left = man_at(base, emptied & (~emptied + ONE)) if emptied else int64(12)
        emptied &= emptied - ONE
        k = _symbol(tokens, k, counts, PIECE + left, man_at(s, filled & (~filled + ONE)))
        filled &= filled - ONE
    meta = int64(s[8])
    ep = (meta >> 5) & 127
    castling = ((meta ^ int64(base[8])) >> 1) & 15
    k = _symbol(tokens, k, counts, int64(META), (castling << 2) | ((meta & 1) << 1) | (1 if ep else 0))
    if ep:
        k = _raw(tokens, k, int64(6), ep - 1)
    return _symbol(tokens, k, counts, int64(CLOCK), (meta >> 12) & 255)


@inner
def _evaluation(tokens: Any, k: Any, counts: Any, c: Any, i: Any) -> Any:
    k = _symbol(tokens, k, counts, int64(FLAGS), int64(c.flags[i]))
    k = _symbol(tokens, k, counts, int64(EVALUATOR), int64(c.evaluator[i]))
    k = _float(tokens, k, counts, int64(V_HIGH), c.v[i])
    return _draw(tokens, k, counts, int64(V_DRAW), c.d[i])


@inner
def _priors(tokens: Any, k: Any, counts: Any, codes: Any, n: Any) -> Any:
    k = _symbol(tokens, k, counts, int64(MOVES), n)
    table = int64(PRIOR) + 9 * min(n >> 3, int64(7))
    context: Any = int64(0)
    for j in range(n):
        code = int64(codes[j])
        k = _symbol(tokens, k, counts, table + context, code)
        context = 1 + (code >> 3)
    return k


@inner
def _edges(tokens: Any, k: Any, counts: Any, c: Any, first: Any, n: Any, drawn: Any) -> Any:
    k = _symbol(tokens, k, counts, int64(EDGES), n)
    context: Any = int64(33)
    for e in range(first, first + n):
        k = _number(tokens, k, counts, N_BITS + context, c.n[e])
        context = bit_length(U(c.n[e]))
        if drawn:
            k = _number(tokens, k, counts, int64(R_BITS), c.r[e])
        k = _float(tokens, k, counts, int64(Q_HIGH), c.q[e])
        k = _draw(tokens, k, counts, int64(Q_DRAW), c.edge_d[e])
    return k


@inner
def _fits(c: Any, i: Any) -> Any:
    """Returns OK, or what in record `i` has no place in the format."""
    s = adv(c.words, PW * i)
    if not is_position(s):
        return int64(BAD_POSITION)
    if s[8] >> U(20) or (s[8] >> U(5)) & U(127) > U(64):
        return int64(BAD_POSITION)
    moves = c.code_offsets[i + 1] - c.code_offsets[i]
    edges = c.edge_offsets[i + 1] - c.edge_offsets[i]
    if c.d[i] > MAX_DRAW or moves < 0 or moves > MAX_MOVES or edges < 0 or edges > moves:
        return int64(BAD_FIELD)
    if int64(c.v[i]) & MAGNITUDE > UNIT:
        return int64(BAD_FIELD)
    for j in range(c.code_offsets[i], c.code_offsets[i + 1]):
        if c.codes[j] < 1 or c.codes[j] > MAX_CODE:
            return int64(BAD_FIELD)
    for e in range(c.edge_offsets[i], c.edge_offsets[i + 1]):
        if c.edge_d[e] > MAX_DRAW or int64(c.q[e]) & MAGNITUDE > UNIT:
            return int64(BAD_FIELD)
    return int64(OK)


@inner
def _any_drawn(c: Any, first: Any, last: Any) -> Any:
    for e in range(c.edge_offsets[first], c.edge_offsets[last]):
        if c.r[e]:
            return int64(1)
    return int64(0)


@inner
def _tokenize_block(
    c: Any, first: Any, last: Any, start: Any, tokens: Any, k: Any, counts: Any, planes: Any
) -> Any:
    drawn = _any_drawn(c, first, last)
    for i in range(first, last):
        s = adv(c.words, PW * i)
        here = adv(planes, 4 * (i - first))
        _planes(s, here)
        if i == first:
            _planes(start, adv(planes, 4 * BLOCK))
            k = _position(tokens, k, counts, s, start, _difference(here, adv(planes, 4 * BLOCK)))
        else:
            j = _best_reference(planes, i - first)
            k = _symbol(tokens, k, counts, int64(REF), i - first - 1 - j)
            base = adv(c.words, PW * (first + j))
            k = _position(tokens, k, counts, s, base, _difference(here, adv(planes, 4 * j)))
        k = _evaluation(tokens, k, counts, c, i)
        o = c.code_offsets[i]
        k = _priors(tokens, k, counts, adv(c.codes, o), c.code_offsets[i + 1] - o)
        o = c.edge_offsets[i]
        k = _edges(tokens, k, counts, c, o, c.edge_offsets[i + 1] - o, drawn)
    return k


@kernel
def tokenize(columns: Any, start: Any, tokens: Any, ends: Any, headers: Any, counts: Any) -> Any:
    """Turns records into tokens; returns (OK, number of tokens), or (what is wrong, record).

    Args:
      columns: `Columns` of arrays, records in the order of the run.
      start: `[10]` the position that the first record of a block is told from.
      tokens: `[POSITION_TOKENS * R + codes + EDGE_TOKENS * edges]` uint32, filled.
      ends: `[blocks]` int64, where the tokens of each block end, filled.
      headers: `[blocks]` uint32, filled.
      counts: `[TABLES * 256]` uint32, uses of each symbol, added to.
    """
    c = pointers(columns)
    planes = np.zeros(4 * (BLOCK + 1), np.uint64)
    total = int64(len(columns.v))
    k = int64(0)
    for i in range(total):
        problem = _fits(c, i)
        if problem != OK:
            return problem, int64(i)
    for b in range((total + BLOCK - 1) // BLOCK):
        first = b * BLOCK
        last: Any = min(total, first + BLOCK)
        k = _tokenize_block(c, first, last, ptr(start, 0), ptr(tokens, 0), k, ptr(counts, 0), ptr(planes, 0))
        ends[b] = k
        moves = c.code_offsets[last] - c.code_offsets[first]
        edges = c.edge_offsets[last] - c.edge_offsets[first]
        drawn = _any_drawn(c, first, last)
        headers[b] = uint32((last - first - 1) | (moves << 5) | (edges << 18) | (drawn << 31))
    return int64(OK), k + int64(planes[0] - planes[0])


@inner
def _emit_tokens(tokens: Any, first: Any, last: Any, codes: Any, lengths: Any, out: Any, at: Any) -> Any:
    """Writes tokens as bits, lowest first, the last byte filled up with zeros; returns the end."""
    held = int64(0)
    width = int64(0)
    for k in range(first, last):
        token = int64(tokens[k])
        table = token >> 24
        if table >= RAW:
            held |= (token & 0xFFFFFF) << width
            width += table - RAW
        else:
            symbol = (table << 8) | (token & 255)
            held |= int64(codes[symbol]) << width
            width += int64(lengths[symbol])
        while width >= 8:
            out[at] = uint8(held & 255)
            held >>= 8
            width -= 8
            at += 1
    if width:
        out[at] = uint8(held & 255)
        at += 1
    return at


@kernel
def emit(tokens: Any, ends: Any, headers: Any, codes: Any, lengths: Any, out: Any, out_ends: Any) -> Any:
    """Writes blocks (header, then bits) one after the other; returns the number of bytes.

    Args:
      tokens, ends, headers: what `tokenize` made.
      codes, lengths: `[TABLES * 256]` uint16 and uint8, Huffman codes, first bit lowest, and their widths.
      out: uint8, 4 bytes per token and per block are enough; filled. out_ends: `[blocks]` int64, filled.
    """
    at = int64(0)
    first = int64(0)
    for b in range(len(ends)):
        for byte in range(HEADER):
            out[at + byte] = uint8((int64(headers[b]) >> (8 * byte)) & 255)
        at = _emit_tokens(
            ptr(tokens, 0), first, ends[b], ptr(codes, 0), ptr(lengths, 0), ptr(out, 0), at + HEADER
        )
        first = ends[b]
        out_ends[b] = at
    return at
