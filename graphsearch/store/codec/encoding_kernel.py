"""Encodes records into blocks, in bulk; zstd compresses the blocks one by one, then `seal` joins their parts.

`layout_kernel.py` has the layout of a block. While a block is written:

    rows    its columns of one byte per record, in the output: row of record k, column c at
            `rows[k + records * c]`
    lists   its variable-length columns except the last two, ROOM bytes each, from EN_PASSANT on
    sizes   `[LISTS]` int64, bytes used of each list
    planes  `[4 * (BLOCK + 1)]` uint64, each record's men as four bit planes, those of START last
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import LOW32, ONE, U, adv, as_u32, ctz, popc, ptr, zeros
from ...jit.types import Pointer, int64, uint8, uint16, uint32, uint64
from ...position.board_kernel import PW, clock_of, en_passant_of, side_to_move
from ...position.values import D_SCALE
from ...position.words import (
    BISHOPS,
    BLACK,
    CASTLING_BITS,
    CASTLING_SHIFT,
    CHESS960_SHIFT,
    KINGS,
    KNIGHTS,
    META,
    META_BITS,
    PAWNS,
    QUEENS,
    ROOKS,
    WHITE,
    Position,
)
from ..record.bounds import MOST_CODE
from ..record.node import MAX_CODE, MAX_MOVES, MAX_RUN
from . import layout_kernel as layout
from .columns_kernel import Columns
from .layout_kernel import header_at, is_position, low_bytes, man_at, packed_header

ROOM = 64 * layout.BLOCK  # bytes of a list
FIRST_LIST, LISTS = layout.EN_PASSANT, layout.N - layout.EN_PASSANT


@inner
def _planes(s: Position, p: Pointer[uint64]) -> None:
    """Writes four bit planes of the men on the 64 squares: kind 1..6 in three, Black in the fourth."""
    p[0] = s[PAWNS] | s[BISHOPS] | s[QUEENS]
    p[1] = s[KNIGHTS] | s[BISHOPS] | s[KINGS]
    p[2] = s[ROOKS] | s[QUEENS] | s[KINGS]
    p[3] = s[BLACK]


@inner
def _difference(a: Pointer[uint64], b: Pointer[uint64]) -> uint64:
    """Returns the squares where two records' planes differ."""
    return (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])


@inner
def _best_reference(planes: Pointer[uint64], i: int64) -> int64:
    """Returns the earlier record of the block that differs on the fewest squares, the nearest at ties."""
    best = int64(65)
    reference = i - 1
    for j in range(i - 1, -1, -1):
        x = popc(_difference(adv(planes, 4 * i), adv(planes, 4 * j)))
        if x < best:
            best = x
            reference = j
    return reference


@inner
def _append(columns: Pointer[uint8], sizes: Pointer[int64], column: int64, x: int64) -> None:
    """Appends a byte to a variable-length column."""
    k = column - FIRST_LIST
    columns[ROOM * k + sizes[k]] = uint8(x)
    sizes[k] += 1


@inner
def _squares(columns: Pointer[uint8], sizes: Pointer[int64], column: int64, squares: uint64) -> int64:
    """Appends a set of squares, each as the number of squares skipped before it; returns their number."""
    count = popc(squares)
    next_one = int64(0)
    while squares:
        square = ctz(squares)
        squares &= squares - ONE
        _append(columns, sizes, column, square - next_one)
        next_one = square + 1
    return count


@inner
def _position(
    rows: Pointer[uint8],
    size: int64,
    columns: Pointer[uint8],
    sizes: Pointer[int64],
    s: Position,
    base: Pointer[uint64],
    changed: uint64,
) -> None:
    """Writes a position as the squares that changed against `base`, then its other parts."""
    men = s[WHITE] | s[BLACK]
    emptied = changed & ~men
    filled = changed & men
    rows[size * layout.EMPTIED] = uint8(_squares(columns, sizes, int64(layout.EMPTIED_SQUARES), emptied))
    rows[size * layout.FILLED] = uint8(_squares(columns, sizes, int64(layout.FILLED_SQUARES), filled))
    while filled:
        left = man_at(base, emptied & (~emptied + ONE)) if emptied else int64(layout.NO_MAN)
        emptied &= emptied - ONE
        x = man_at(s, filled & (~filled + ONE)) - left
        _append(columns, sizes, int64(layout.MEN), x if x >= 0 else x + layout.MEN_KINDS)
        filled &= filled - ONE
    ep = en_passant_of(s)
    other = int64((s[META] ^ base[META]) >> U(CHESS960_SHIFT))
    castling = (int64(s[META] ^ base[META]) >> CASTLING_SHIFT) & CASTLING_BITS
    rows[size * layout.META] = uint8(
        (castling << layout.META_CASTLING_AT)
        | (side_to_move(s) << layout.META_BLACK_AT)
        | (layout.HAS_EN_PASSANT if ep else 0)
        | (layout.HAS_CHESS960 if other else 0)
    )
    if ep:
        _append(columns, sizes, int64(layout.EN_PASSANT), ep - 1)
    if other:
        _append(columns, sizes, int64(layout.CHESS960), other & 255)
        _append(columns, sizes, int64(layout.CHESS960), other >> 8)
    rows[size * layout.CLOCK] = uint8(clock_of(s))


@inner
def _varint(out: Pointer[uint8], at: int64, x: int64) -> int64:
    """Writes a number in groups of 7 bits, lowest first; returns the end."""
    while x > 127:
        out[at] = uint8((x & 127) | 128)
        x >>= 7
        at += 1
    out[at] = uint8(x)
    return at + 1


@inner
def _run(
    meta: Pointer[uint8], columns: Pointer[uint8], sizes: Pointer[int64], run: int64, base: int64
) -> None:
    """Appends a record's run if it is not that of its reference."""
    if run != base:
        meta[0] |= uint8(layout.HAS_RUN)
        k = layout.RUN - FIRST_LIST
        sizes[k] = _varint(adv(columns, ROOM * k), sizes[k], int64(run))


@inner
def _number(x: uint64, count: int64, out: Pointer[uint8], to: int64) -> int64:
    """Writes the lowest bytes of a number, lowest first; returns the end."""
    for _ in range(count):
        out[to] = uint8(x & U(255))
        x >>= U(8)
        to += 1
    return to


@inner
def _copied(source: Pointer[uint8], at: int64, end: int64, out: Pointer[uint8], to: int64) -> int64:
    """Copies bytes; returns the end."""
    for k in range(end - at):
        out[to + k] = source[at + k]
    return to + end - at


@inner
def _low(out: Pointer[uint8], at: int64, value: uint32, d: uint16) -> int64:
    """Writes the low bytes of a value and its draws; returns the end."""
    bits = (int64(value) & layout.FRACTION) | ((int64(d) & 255) << 24)
    return _number(U(bits), int64(layout.LOW), out, at)


@inner
def _fits(c: Columns, i: int64) -> int64:
    """Returns OK, or BAD_POSITION or BAD_FIELD if the format cannot represent record `i`."""
    s = adv(c.words, PW * i)
    if not is_position(s):
        return int64(layout.BAD_POSITION)
    if s[META] >> U(META_BITS) or en_passant_of(s) > 64:
        return int64(layout.BAD_POSITION)
    moves = c.code_offsets[i + 1] - c.code_offsets[i]
    edges = c.edge_offsets[i + 1] - c.edge_offsets[i]
    if c.d[i] > D_SCALE or moves < 0 or moves > MAX_MOVES or edges < 0 or edges > moves:
        return int64(layout.BAD_FIELD)
    if int64(as_u32(c.v)[i]) & layout.MAGNITUDE > layout.UNIT or c.run[i] > MAX_RUN:
        return int64(layout.BAD_FIELD)
    for j in range(c.code_offsets[i], c.code_offsets[i + 1]):
        if c.codes[j] < 1 or c.codes[j] > MAX_CODE:
            return int64(layout.BAD_FIELD)
    for e in range(c.edge_offsets[i], c.edge_offsets[i + 1]):
        if c.edge_d[e] > MOST_CODE or int64(as_u32(c.q)[e]) & layout.MAGNITUDE > layout.UNIT:
            return int64(layout.BAD_FIELD)
    return int64(layout.OK)


@inner
def _any_drawn(c: Columns, first: int64, last: int64) -> int64:
    for e in range(c.edge_offsets[first], c.edge_offsets[last]):
        if c.r[e]:
            return int64(1)
    return int64(0)


@inner
def _head(c: Columns, first: int64, last: int64, out: Pointer[uint8], at: int64) -> int64:
    """Writes the header, the low bytes of all values and the P codes; returns the end."""
    codes = c.code_offsets[last] - c.code_offsets[first]
    edges = c.edge_offsets[last] - c.edge_offsets[first]
    header = packed_header(last - first, codes, edges, _any_drawn(c, first, last))
    at = _number(U(header), int64(layout.HEADER), out, at)
    for i in range(first, last):
        at = _low(out, at, as_u32(c.v)[i], c.d[i])
    for e in range(c.edge_offsets[first], c.edge_offsets[last]):
        at = _low(out, at, as_u32(c.q)[e], c.edge_d[e])
    return _copied(c.codes, c.code_offsets[first], c.code_offsets[last], out, at)


@inner
def _records(
    c: Columns,
    first: int64,
    last: int64,
    start: Position,
    rows: Pointer[uint8],
    columns: Pointer[uint8],
    sizes: Pointer[int64],
    planes: Pointer[uint64],
) -> None:
    """Writes the columns of one byte per record, and collects the variable-length ones."""
    size = last - first
    _planes(start, adv(planes, 4 * layout.BLOCK))
    for i in range(first, last):
        k = i - first
        s = adv(c.words, PW * i)
        here = adv(planes, 4 * k)
        _planes(s, here)
        j = _best_reference(planes, k) if k else int64(layout.BLOCK)
        base = adv(c.words, PW * (first + j)) if k else start
        row = adv(rows, k)
        row[size * layout.REFERENCE] = uint8(k - j if k else 0)
        _position(row, size, columns, sizes, s, base, _difference(here, adv(planes, 4 * j)))
        known = int64(c.run[first + j]) if k else int64(0)
        _run(adv(row, size * layout.META), columns, sizes, int64(c.run[i]), known)
        row[size * layout.FLAGS] = c.flags[i]
        row[size * layout.EVALUATOR] = c.evaluator[i]
        row[size * layout.V_HIGH] = uint8(int64(as_u32(c.v)[i]) >> 24)
        row[size * layout.V_DRAW] = uint8(int64(c.d[i]) >> 8)
        row[size * layout.MOVES] = uint8(c.code_offsets[i + 1] - c.code_offsets[i])
        row[size * layout.EDGES] = uint8(c.edge_offsets[i + 1] - c.edge_offsets[i])


@inner
def _edges(c: Columns, first: int64, last: int64, out: Pointer[uint8], at: int64) -> int64:
    """Writes the columns of one byte per edge; returns the end."""
    for e in range(first, last):
        out[at + e - first] = uint8(int64(as_u32(c.q)[e]) >> 24)
        out[at + last - first + e - first] = uint8(int64(c.edge_d[e]) >> 8)
    return at + layout.BY_EDGE * (last - first)


@inner
def _rest(
    c: Columns,
    first: int64,
    last: int64,
    drawn: int64,
    columns: Pointer[uint8],
    sizes: Pointer[int64],
    out: Pointer[uint8],
    at: int64,
) -> int64:
    """Writes the variable-length columns, those of edges `first` to `last` included; returns the end."""
    for column in range(LISTS):
        begin = int64(ROOM * column)
        at = _copied(columns, begin, begin + sizes[column], out, at)
    for e in range(first, last):
        at = _varint(out, at, int64(c.n[e]))
    if drawn:
        for e in range(first, last):
            at = _varint(out, at, int64(c.r[e]))
    return at


@inner
def _block(
    c: Columns,
    first: int64,
    last: int64,
    start: Position,
    lists: Pointer[uint8],
    sizes: Pointer[int64],
    planes: Pointer[uint64],
    out: Pointer[uint8],
    at: int64,
) -> int64:
    """Writes one block; returns the end."""
    at = _head(c, first, last, out, at)
    _records(c, first, last, start, adv(out, at), lists, sizes, planes)
    at += layout.FIXED * (last - first)
    a = c.edge_offsets[first]
    z = c.edge_offsets[last]
    at = _edges(c, a, z, out, at)
    return _rest(c, a, z, _any_drawn(c, first, last), lists, sizes, out, at)


@kernel
def encode(
    c: Columns, start: NDArray[np.uint64], out: NDArray[np.uint8], ends: NDArray[np.int64]
) -> tuple[int64, int64]:
    """Writes blocks one after the other; returns (OK, number of bytes), or (the problem, record).

    Args:
      c: `Columns` of the records, in the order in which they are stored.
      start: `[10]` the reference of the first record of a block.
      out: `[room_for(blocks, R, codes, edges)]` uint8 (`layout_kernel.py`), filled.
      ends: `[blocks]` int64, where each block ends, filled.
    """
    planes, lists = zeros(uint64, 4 * (layout.BLOCK + 1)), zeros(uint8, ROOM * LISTS)
    sizes = zeros(int64, LISTS)
    total = c.v_size
    for i in range(total):
        problem = _fits(c, i)
        if problem != layout.OK:
            return problem, int64(i)
    at = int64(0)
    for b in range(len(ends)):
        first = b * layout.BLOCK
        last = min(total, first + layout.BLOCK)
        for k in range(LISTS):
            sizes[k] = 0
        at = _block(c, first, last, ptr(start, 0), lists, sizes, planes, ptr(out, 0), at)
        ends[b] = at
    return int64(layout.OK), at


# ------------------------------------------------------------------ plain -> stored
def crc_tables() -> NDArray[np.uint32]:
    """Returns `[8 * 256]` uint32: the CRC-32 of a byte that is followed by 0 to 7 zero bytes."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ uint32(0xEDB88320), table >> 1).astype(np.uint32)
    tables = [table]
    for _ in range(7):
        tables.append(tables[0][tables[-1] & 255] ^ (tables[-1] >> 8))
    return np.concatenate(tables)


@inner
def word(data: Pointer[uint8], at: int64) -> uint64:
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
def crc32(data: Pointer[uint8], at: int64, end: int64, table: Pointer[uint32]) -> uint64:
    """Returns the CRC-32 of `data[at:end]`; `table` points to `crc_tables`."""
    crc = LOW32
    while at + 8 <= end:
        x = word(data, at) ^ crc
        crc = U(
            table[1792 + int64(x & U(255))]
            ^ table[1536 + int64((x >> U(8)) & U(255))]
            ^ table[1280 + int64((x >> U(16)) & U(255))]
            ^ table[1024 + int64((x >> U(24)) & U(255))]
            ^ table[768 + int64((x >> U(32)) & U(255))]
            ^ table[512 + int64((x >> U(40)) & U(255))]
            ^ table[256 + int64((x >> U(48)) & U(255))]
            ^ table[int64(x >> U(56))]
        )
        at += 8
    while at < end:
        crc = U(table[int64((crc ^ U(data[at])) & U(255))]) ^ (crc >> U(8))
        at += 1
    return crc ^ LOW32


@kernel
def seal(
    plain: NDArray[np.uint8],
    ends: NDArray[np.int64],
    frames: NDArray[np.uint8],
    frame_ends: NDArray[np.int64],
    crc: NDArray[np.uint32],
    out: NDArray[np.uint8],
    out_ends: NDArray[np.int64],
) -> None:
    """Assembles the stored form of blocks.

    Args:
      plain: uint8, expanded blocks; ends: `[blocks]` int64, where each ends.
      frames: uint8, for each block its frame of P codes, which may be empty, and that of its columns.
      frame_ends: `[2 * blocks]` int64.
      crc: `crc_tables`.
      out: uint8 with room for low parts, frames and `LENGTH + CHECKSUM` bytes a block; filled.
      out_ends: `[blocks]` int64, end of each block in `out`; filled.
    """
    source, packed, target, table = ptr(plain, 0), ptr(frames, 0), ptr(out, 0), ptr(crc, 0)
    at = int64(0)
    frame = int64(0)
    to = int64(0)
    for b in range(len(ends)):
        begin = to
        low = at + layout.HEADER
        first = low + low_bytes(header_at(source, at))
        skipped = frame + layout.CUT if frame_ends[2 * b] > frame else frame
        to = _copied(source, at, low, target, to)
        to = _number(U(frame_ends[2 * b] - skipped), int64(layout.LENGTH), target, to)
        to = _copied(source, low, first, target, to)
        to = _copied(packed, skipped, frame_ends[2 * b], target, to)
        to = _copied(packed, frame_ends[2 * b] + layout.CUT, frame_ends[2 * b + 1], target, to)
        to = _number(crc32(target, begin, to, table), int64(layout.CHECKSUM), target, to)
        out_ends[b] = to
        frame = frame_ends[2 * b + 1]
        at = ends[b]
