"""A zstd decoder for the frames of blocks, which kernels run many at a time without Python's lock.

RFC 8878 is the reference. Frames are decoded or refused; the caller asks the library about those refused, as
it may say why. Nothing is touched out of bounds if `PADDING` bytes may be read behind the data.
"""

from __future__ import annotations

from typing import Any

from numba import int64, uint32

from ...jit.compiler import inner
from ...jit.pointers import U, adv
from .entropy_kernel import (
    AT,
    BITS,
    CONTENT,
    CONTENT_END,
    COUNTS,
    HUF,
    INFO,
    LENGTHS,
    LITERALS,
    LL,
    MATCHES,
    ML,
    NEXT,
    NONE,
    OF,
    OFFSETS,
    PREDEFINED_SET,
    REPEATED,
    REPS,
    SCRATCH_SET,
    SET,
    backward,
    counts,
    forward,
    huffman,
    last_bit,
    spread,
    word,
)
from .literals_kernel import literals as read_literals

# ------------------------------------------------------------------ sequences


@inner
def _place(which: Any) -> Any:
    """Returns where the table of lengths, offsets or matches is in a set."""
    if which == LENGTHS:
        return int64(LL)
    return int64(OF) if which == OFFSETS else int64(ML)


@inner
def _table(data: Any, at: Any, end: Any, mode: Any, which: Any, tables: Any, state: Any) -> Any:
    """Makes one of the tables of sequences the one at hand; returns the end, or -1."""
    place = _place(which)
    symbols = int64(36) if which == LENGTHS else int64(32 if which == OFFSETS else 53)
    if mode == 0:
        state[AT + which] = PREDEFINED_SET * SET + place
        state[BITS + which] = 5 if which == OFFSETS else 6
        return at
    if mode == 3:
        return at if state[BITS + which] != NONE else int64(-1)
    state[AT + which] = SCRATCH_SET * SET + place
    table = adv(tables, SCRATCH_SET * SET + place)
    if mode == 1:
        if at >= end or int64(data[at]) >= symbols:
            return int64(-1)
        table[0] = uint32(data[at])
        state[BITS + which] = 0
        return at + 1
    most = int64(8) if which == OFFSETS else int64(9)
    bits, at = counts(data, at, end, most, symbols, adv(state, COUNTS))
    if bits < 0 or not spread(table, bits, symbols, adv(state, COUNTS), adv(state, NEXT)):
        return int64(-1)
    state[BITS + which] = bits
    return at


@inner
def _offset(state: Any, x: Any, lengthless: Any) -> Any:
    """Returns the distance that an offset value means, and notes it."""
    one = state[REPS]
    two = state[REPS + 1]
    if x > 3:
        state[REPS + 2] = two
        state[REPS + 1] = one
        state[REPS] = x - 3
        return x - 3
    which = x - 1 + (1 if lengthless else 0)
    if which == 0:
        return one
    distance = one - 1 if which == 3 else state[REPS + which]
    if which > 1:
        state[REPS + 2] = two
    state[REPS + 1] = one
    state[REPS] = distance
    return distance


@inner
def _copy(out: Any, begin: Any, to: Any, distance: Any, n: Any, dictionary: Any, known: Any) -> Any:
    """Copies a match, which may begin in the dictionary's `known` bytes; returns whether it is there."""
    if distance < 1 or distance > to - begin + known:
        return False
    source = to - distance
    for i in range(to, to + n):
        if source < begin:
            out[i] = dictionary[known + source - begin]
        else:
            out[i] = out[source]
        source += 1
    return True


@inner
def _sequences(
    data: Any, at: Any, end: Any, n: Any, tables: Any, state: Any, codes: Any,
    out: Any, begin: Any, to: Any, limit: Any, literals: Any, count: Any, dictionary: Any, known: Any,
) -> Any:  # fmt: skip
    """Puts literals and matches together; returns the end, or -1."""
    lengths = adv(tables, state[AT + LENGTHS])
    offsets = adv(tables, state[AT + OFFSETS])
    matches = adv(tables, state[AT + MATCHES])
    bit = last_bit(data, at, end) - state[BITS + LENGTHS]
    l_state = backward(data, at, bit, state[BITS + LENGTHS])
    bit -= state[BITS + OFFSETS]
    o_state = backward(data, at, bit, state[BITS + OFFSETS])
    bit -= state[BITS + MATCHES]
    m_state = backward(data, at, bit, state[BITS + MATCHES])
    used = int64(0)
    for i in range(n):
        if bit < 0:
            return int64(-1)
        l_entry = int64(lengths[l_state])
        o_entry = int64(offsets[o_state])
        m_entry = int64(matches[m_state])
        width = o_entry & 255
        bit -= width
        x = (int64(1) << width) + backward(data, at, bit, width)
        code = codes[36 + (m_entry & 255)]
        bit -= code & 255
        match = (code >> 8) + backward(data, at, bit, code & 255)
        code = codes[l_entry & 255]
        bit -= code & 255
        length = (code >> 8) + backward(data, at, bit, code & 255)
        if length > count - used or length + match > limit - to:
            return int64(-1)
        for k in range(length):
            out[to + k] = literals[used + k]
        used += length
        to += length
        if not _copy(out, begin, to, _offset(state, x, length == 0), match, dictionary, known):
            return int64(-1)
        to += match
        if i + 1 < n:
            width = (l_entry >> 8) & 255
            bit -= width
            l_state = (l_entry >> 16) + backward(data, at, bit, width)
            width = (m_entry >> 8) & 255
            bit -= width
            m_state = (m_entry >> 16) + backward(data, at, bit, width)
            width = (o_entry >> 8) & 255
            bit -= width
            o_state = (o_entry >> 16) + backward(data, at, bit, width)
    if bit != 0 or count - used > limit - to:
        return int64(-1)
    for k in range(used, count):
        out[to] = literals[k]
        to += 1
    return to


@inner
def _block(
    data: Any, at: Any, end: Any, tables: Any, state: Any, codes: Any,
    out: Any, begin: Any, to: Any, limit: Any, literals: Any, dictionary: Any, known: Any,
) -> Any:  # fmt: skip
    """Decodes a compressed block; returns the end of its content, or -1."""
    at, count = read_literals(data, at, end, tables, state, literals, limit - to)
    if at < 0 or at >= end:
        return int64(-1)
    n = int64(data[at])
    at += 1
    if n == 255:
        n = int64(word(data, at) & U(0xFFFF)) + 0x7F00
        at += 2
    elif n > 127:
        n = ((n - 128) << 8) + int64(data[at])
        at += 1
    if n == 0:
        if at != end:
            return int64(-1)
        for k in range(count):
            out[to + k] = literals[k]
        return to + count
    modes = int64(data[at])
    at += 1
    if modes & 3:
        return int64(-1)
    for which in range(LENGTHS, MATCHES + 1):
        if at > end:
            return int64(-1)
        at = _table(data, at, end, (modes >> (8 - 2 * which)) & 3, int64(which), tables, state)
        if at < 0:
            return int64(-1)
    return _sequences(
        data, at, end, n, tables, state, codes, out, begin, to, limit, literals, count, dictionary, known
    )


@inner
def expand(
    data: Any, at: Any, end: Any, base: Any, tables: Any, state: Any, codes: Any,
    out: Any, begin: Any, limit: Any, literals: Any, contents: Any,
) -> Any:  # fmt: skip
    """Decodes the blocks of a frame, whose header is not stored; returns the end of its content, or -1.

    Args:
      data: pointer to uint8; the blocks are `data[at:end]`.
      base: where in `tables` the set of its dictionary is, or the predefined one.
      tables: pointer to uint32, sets. state: pointer to `[STATE]` int64, working memory.
      codes: pointer to `LENGTH_CODES`.
      out: pointer to uint8; the content goes to `out[begin:limit]`.
      literals: pointer to `limit - begin` bytes of working memory.
      contents: pointer to uint8, the contents of dictionaries.
    """
    for which in range(4):
        state[BITS + which] = int64(tables[base + INFO + which])
        state[AT + which] = base
    state[AT + LENGTHS] = base + LL
    state[AT + OFFSETS] = base + OF
    state[AT + MATCHES] = base + ML
    for k in range(3):
        state[REPS + k] = int64(tables[base + INFO + REPEATED + k])
    dictionary = adv(contents, int64(tables[base + INFO + CONTENT]))
    known = int64(tables[base + INFO + CONTENT_END]) - int64(tables[base + INFO + CONTENT])
    to = begin
    last = False
    while not last:
        if at + 3 > end:
            return int64(-1)
        header = int64(word(data, at) & U(0xFFFFFF))
        at += 3
        last = header & 1 == 1
        kind = (header >> 1) & 3
        size = header >> 3
        reached = at + (size if kind != 1 else int64(1))
        if reached > end or kind == 3 or (kind < 2 and size > limit - to):
            return int64(-1)
        if kind == 2:
            to = _block(
                data, at, reached, tables, state, codes,
                out, begin, to, limit, literals, dictionary, known,
            )  # fmt: skip
            if to < 0:
                return int64(-1)
        else:
            for k in range(size):
                out[to + k] = data[at + k] if kind == 0 else data[at]
            to += size
        at = reached
    return to if at == end else int64(-1)


@inner
def predefine(tables: Any, state: Any, often: Any) -> Any:
    """Fills the set of frames without a dictionary; `often` points to `PREDEFINED`."""
    base = int64(PREDEFINED_SET * SET)
    _fill_predefined(tables, state, base + LL, often, int64(36), int64(6))
    _fill_predefined(tables, state, base + OF, adv(often, 36), int64(29), int64(5))
    _fill_predefined(tables, state, base + ML, adv(often, 65), int64(53), int64(6))
    for which in range(4):
        tables[base + INFO + which] = uint32(NONE)
    tables[base + INFO + REPEATED] = uint32(1)
    tables[base + INFO + REPEATED + 1] = uint32(4)
    tables[base + INFO + REPEATED + 2] = uint32(8)
    tables[base + INFO + CONTENT] = uint32(0)
    tables[base + INFO + CONTENT_END] = uint32(0)


@inner
def _fill_predefined(tables: Any, state: Any, at: Any, often: Any, symbols: Any, bits: Any) -> Any:
    for k in range(symbols):
        state[COUNTS + k] = often[k]
    spread(adv(tables, at), bits, symbols, adv(state, COUNTS), adv(state, NEXT))


@inner
def enter_dictionary(contents: Any, at: Any, end: Any, tables: Any, base: Any, state: Any) -> Any:
    """Fills a set with the codes of the dictionary `contents[at:end]`; returns whether it is one."""
    if at + 8 > end or word(contents, at) & U(0xFFFFFFFF) != U(0xEC30A437):
        return False
    at += 8
    bits, at = huffman(contents, at, end, tables, base + HUF, state)
    if bits < 0:
        return False
    tables[base + INFO + LITERALS] = uint32(bits)
    for k in range(3):
        which = int64(OFFSETS if k == 0 else MATCHES if k == 1 else LENGTHS)
        most = int64(8) if which == OFFSETS else int64(9)
        symbols = int64(32) if which == OFFSETS else int64(53) if which == MATCHES else int64(36)
        bits, at = counts(contents, at, end, most, symbols, adv(state, COUNTS))
        if bits < 0:
            return False
        table = adv(tables, base + _place(which))
        if not spread(table, bits, symbols, adv(state, COUNTS), adv(state, NEXT)):
            return False
        tables[base + INFO + which] = uint32(bits)
    if at + 12 > end:
        return False
    for k in range(3):
        tables[base + INFO + REPEATED + k] = uint32(forward(contents, 8 * (at + 4 * k), int64(32)))
    tables[base + INFO + CONTENT] = uint32(at + 12)
    tables[base + INFO + CONTENT_END] = uint32(end)
    return True
