"""The literals of zstd blocks: plain, repeated, or Huffman-coded in one stream or four (RFC 8878)."""

from __future__ import annotations

from typing import Any

from numba import int64, uint8

from ...jit.compiler import inner
from ...jit.pointers import ONE, U, adv
from .entropy_kernel import AT, BITS, HUF, LITERALS, NONE, SCRATCH_SET, SET, backward, huffman, last_bit, word


@inner
def _symbols(data: Any, begin: Any, end: Any, table: Any, bits: Any, out: Any, n: Any) -> Any:
    """Reads `n` Huffman-coded bytes, which must be all of a stream; returns whether they were."""
    left = last_bit(data, begin, end)
    k = int64(0)
    while left >= 64 and k + 5 <= n:
        behind = (left + 7) >> 3
        x = word(data, begin + behind - 8) << U(8 * behind - left)
        for _ in range(5):
            entry = int64(table[int64(x >> U(64 - bits))])
            out[k] = uint8(entry & 255)
            x <<= U(entry >> 8)
            left -= entry >> 8
            k += 1
    while k < n and left > 0:
        entry = int64(table[backward(data, begin, left - bits, bits)])
        out[k] = uint8(entry & 255)
        left -= entry >> 8
        k += 1
    return left == 0 and k == n


@inner
def _four_streams(data: Any, begin: Any, end: Any, table: Any, bits: Any, out: Any, n: Any) -> Any:
    """Reads Huffman-coded bytes in four streams; returns whether they are sound."""
    a = begin + 6
    if a > end:
        return False
    b = a + int64(data[begin]) + (int64(data[begin + 1]) << 8)
    c = b + int64(data[begin + 2]) + (int64(data[begin + 3]) << 8)
    d = c + int64(data[begin + 4]) + (int64(data[begin + 5]) << 8)
    part = (n + 3) >> 2
    if d >= end or 3 * part > n:
        return False
    return (
        _symbols(data, a, b, table, bits, out, part)
        and _symbols(data, b, c, table, bits, adv(out, part), part)
        and _symbols(data, c, d, table, bits, adv(out, 2 * part), part)
        and _symbols(data, d, end, table, bits, adv(out, 3 * part), n - 3 * part)
    )


@inner
def _plain_literals(data: Any, at: Any, end: Any, kind: Any, out: Any, limit: Any) -> Any:
    """Reads literals that are stored as they are, or one that is repeated; returns (end, number)."""
    fault = (int64(-1), int64(-1))
    form = (int64(data[at]) >> 2) & 3
    x = int64(word(data, at) & U(0xFFFFFF))
    if form & 1 == 0:
        n = (x & 255) >> 3
        at += 1
    elif form == 1:
        n = (x & 0xFFFF) >> 4
        at += 2
    else:
        n = x >> 4
        at += 3
    if n > limit or at + (n if kind == 0 else int64(1)) > end:
        return fault
    for i in range(n):
        out[i] = data[at + i] if kind == 0 else data[at]
    return at + (n if kind == 0 else int64(1)), n


@inner
def literals(data: Any, at: Any, end: Any, tables: Any, state: Any, out: Any, limit: Any) -> Any:
    """Reads the literals of a block; returns (end, number), or (-1, -1)."""
    fault = (int64(-1), int64(-1))
    if at >= end:
        return fault
    kind = int64(data[at]) & 3
    form = (int64(data[at]) >> 2) & 3
    if kind < 2:
        return _plain_literals(data, at, end, kind, out, limit)
    x = word(data, at)
    width = int64(10) if form < 2 else int64(6 + 4 * form)
    mask = (ONE << U(width)) - ONE
    n = int64((x >> U(4)) & mask)
    size = int64((x >> U(4 + width)) & mask)
    at += 3 if form < 2 else form + 2
    reached = at + size
    if n > limit or reached > end:
        return fault
    if kind == 2:
        bits, at = huffman(data, at, reached, tables, int64(SCRATCH_SET * SET + HUF), state)
        if bits < 0:
            return fault
        state[AT + LITERALS] = SCRATCH_SET * SET + HUF
        state[BITS + LITERALS] = bits
    bits = state[BITS + LITERALS]
    if bits == NONE:
        return fault
    table = adv(tables, state[AT + LITERALS])
    if form == 0:
        sound = _symbols(data, at, reached, table, bits, out, n)
    else:
        sound = _four_streams(data, at, reached, table, bits, out, n)
    if not sound:
        return fault
    return reached, n
