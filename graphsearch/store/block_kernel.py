"""Records <-> blocks of bytes, in bulk, and the check that records are sound.

zstd compresses the encoded blocks one by one, then `seal` joins their parts. `block_layout_kernel.py` has the
layout of a block. While a block is written:

    rows    its columns of one byte per record, in the output: row of record k, column c at
            `rows[k + records * c]`
    lists   its variable-length columns except the last two, LIST_ROOM bytes each, from EN_PASSANT on
    sizes   `[LISTS]` int64, bytes used of each list
    planes  `[4 * (BLOCK + 1)]` uint64, each record's men as four bit planes, those of START last

Bytes of any kind decode or are reported, without access out of bounds.

Blocks are read one at a time, in memory that stays cached:

    stored block | unpack -> plain | open -> reader | place after place -> words, runs | fields -> columns

    rows    its columns of one byte per record: row of record k, column c at `plain[rows + k + records * c]`
    reader  `[READER]` int64; from EN_PASSANT to RUN: offset of the next byte of each variable-length column;
            COUNTS: of the varints of N and R; END: end of the block; FAILED: 1 after an unsound value

A scan reads all records of a block. A lookup wants one of them: of the records before it, it reads only the
men, since a position is encoded against an earlier one; the key is copied from the requested position.

Decoding has checked that every number is in the range of its field. `find_faults` checks a record
against chess and `schema/node_record.md`:

    position   castling rights and the en-passant square fit the men; the side that has moved is not in check
    kind       its terminal kind is that of the position: open, mate, stalemate or dead
    priors     it has one for each legal move, and no more edges than priors
    bounds     they are an interval; those of a finished game are its result
    V, edges   value and draws are a distribution; r <= n; without n - r visits there is no value
    evaluator  its number is one that a file can list

A fault is a number from ILLEGAL on; `block.fault_text` describes it in words.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..jit.bundles import Bundle
from ..jit.compiler import inner, kernel
from ..jit.pointers import LOW32, ONE, ZERO, U, adv, as_u32, call_c, ctz, popc, ptr, zeros
from ..jit.types import Items, Pointer, float32, int64, uint8, uint16, uint32, uint64
from ..position.board import (
    BISHOPS,
    BLACK,
    BLACK_TO_MOVE,
    CASTLING_BITS,
    CASTLING_SHIFT,
    CHESS960_BITS,
    CHESS960_SHIFT,
    CLOCK_SHIFT,
    EN_PASSANT_BITS,
    EN_PASSANT_SHIFT,
    KEY,
    KINGS,
    KNIGHTS,
    MAX_MOVES,
    META,
    META_BITS,
    PAWNS,
    QUEENS,
    ROOKS,
    WHITE,
    BoardTable,
    Position,
)
from ..position.board_kernel import (
    PW,
    ROOM,
    clock_of,
    en_passant_of,
    generate_moves,
    is_legal,
    kind_of,
    side_to_move,
)
from ..position.tables import ZC, ZO
from ..position.values import D_SCALE
from . import block_layout_kernel as layout
from .block_layout_kernel import (
    codes_in,
    edges_in,
    header_at,
    is_drawn,
    is_position,
    low_bytes,
    man_at,
    packed_header,
    records_in,
)
from .bounds_kernel import MOST_CODE, bounds_of, share_of
from .index_kernel import is_same
from .record_kernel import (
    BOUND_BITS,
    CODE,
    KIND_BITS,
    LOWER_SHIFT,
    MAX_EVALUATOR,
    MAX_RUN,
    UPPER_SHIFT,
    Columns,
)

# ------------------------------------------------------------------ encoding
LIST_ROOM = 64 * layout.BLOCK  # bytes of a list
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
    columns[LIST_ROOM * k + sizes[k]] = uint8(x)
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
        sizes[k] = _varint(adv(columns, LIST_ROOM * k), sizes[k], int64(run))


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
    s = adv(c.packed, PW * i)
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
        if c.codes[j] < 1 or c.codes[j] > CODE:
            return int64(layout.BAD_FIELD)
    for e in range(c.edge_offsets[i], c.edge_offsets[i + 1]):
        if c.edge_d[e] > MOST_CODE or int64(as_u32(c.q)[e]) & layout.MAGNITUDE > layout.UNIT:
            return int64(layout.BAD_FIELD)
    return int64(layout.OK)


@kernel
def find_unfit(c: Columns, problems: NDArray[np.int64]) -> int64:
    """Fills OK, or why the format cannot represent each record; returns the number of unfit ones."""
    found = int64(0)
    for i in range(len(problems)):
        problems[i] = _fits(c, int64(i))
        found += int64(problems[i] != layout.OK)
    return found


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
        s = adv(c.packed, PW * i)
        here = adv(planes, 4 * k)
        _planes(s, here)
        j = _best_reference(planes, k) if k else int64(layout.BLOCK)
        base = adv(c.packed, PW * (first + j)) if k else start
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
        begin = int64(LIST_ROOM * column)
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
def encode(c: Columns, start: NDArray[np.uint64], out: NDArray[np.uint8], ends: NDArray[np.int64]) -> int64:
    """Writes blocks one after the other; returns the number of bytes.

    Args:
      c: `Columns` of records that fit the format (`find_unfit`), in the order in which they are stored.
      start: `[10]` the reference of the first record of a block.
      out: `[room_for(blocks, R, codes, edges)]` uint8 (`block_layout_kernel.py`), filled.
      ends: `[blocks]` int64, where each block ends, filled.
    """
    planes, lists = zeros(uint64, 4 * (layout.BLOCK + 1)), zeros(uint8, LIST_ROOM * LISTS)
    sizes = zeros(int64, LISTS)
    total = c.v_size
    at = int64(0)
    for b in range(len(ends)):
        first = b * layout.BLOCK
        last = min(total, first + layout.BLOCK)
        for k in range(LISTS):
            sizes[k] = 0
        at = _block(c, first, last, ptr(start, 0), lists, sizes, planes, ptr(out, 0), at)
        ends[b] = at
    return at


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


# ------------------------------------------------------------------ decoding
COUNTS, END, FAILED, READER = layout.N, layout.N + 1, layout.N + 2, layout.N + 3
FRAME_ROOM = 1 << 17  # bytes of a frame; larger ones, which no writer makes, are refused

# why a block is refused
TOO_SHORT, BAD_CHECKSUM, NO_DICTIONARY, BAD_FRAME, NO_RECORDS = 1, 2, 3, 4, 5
NONE, UNKNOWN = -1, -2  # in place of a slot: no dictionaries, and some that could not be loaded

Bytes: TypeAlias = Pointer[uint8]  # of a block
Reader: TypeAlias = Pointer[int64]


class Workshop(Bundle):
    """The functions and memory for reading blocks; one for each thread.

    Attributes:
      decompress, size_of_frame: addresses of functions of libzstd (`jit.libzstd.Libzstd`).
      context, column_context: addresses of this thread's decompression contexts, for P codes and for columns:
        a context that changes dictionaries with every frame treats them as cold, and is slower.
      dictionaries: `[2 + 2 * slots]` int64, addresses of loaded dictionaries. First 0 twice, for blocks
        without dictionaries; then two for each slot: for P codes, for columns.
      frame: `[FRAME_ROOM]` uint8, working memory that begins with FRAME_START.
      crc: `crc_tables`.
      plain: uint8, the block before compression. reader: `[READER]` int64.
      words: `[10 * BLOCK]` uint64, positions. runs: `[BLOCK]` uint32.
      start: `[10]` uint64, the position that the first record of a block is encoded against.
    """

    decompress: int64
    size_of_frame: int64
    context: int64
    column_context: int64
    dictionaries: Items[int64]
    frame: Items[uint8]
    crc: Items[uint32]
    plain: Items[uint8]
    reader: Items[int64]
    words: Items[uint64]
    runs: Items[uint32]
    start: Items[uint64]


# ------------------------------------------------------------------ stored -> plain
@inner
def _expand(
    shop: Workshop,
    context: int64,
    data: Bytes,
    at: int64,
    end: int64,
    dictionary: int64,
    to: int64,
    limit: int64,
) -> int64:
    """Expands the frame `data[at:end]` to `shop.plain[to:limit]`; returns the end of its content, or -1."""
    size = layout.CUT + end - at
    if size > FRAME_ROOM:
        return int64(-1)
    for k in range(end - at):
        shop.frame[layout.CUT + k] = data[at + k]
    if call_c(shop.size_of_frame, (shop.frame, size)) != size:  # truncated, or followed by other bytes
        return int64(-1)
    found = call_c(shop.decompress, (context, adv(shop.plain, to), limit - to, shop.frame, size, dictionary))
    return to + found if found >= 0 else int64(-1)


@inner
def unpack_block(shop: Workshop, data: Bytes, at: int64, end: int64, slot: int64) -> int64:
    """Unpacks the stored block `data[at:end]` to `shop.plain`; returns its size there, or -(why not)."""
    if end - at < layout.HEADER + layout.LENGTH + layout.CHECKSUM:
        return int64(-TOO_SHORT)
    end -= layout.CHECKSUM
    if crc32(data, at, end, shop.crc) != word(data, end) & LOW32:
        return int64(-BAD_CHECKSUM)
    if slot < NONE:
        return int64(-NO_DICTIONARY)
    header, plain = header_at(data, at), shop.plain
    codes = codes_in(header)
    low = at + layout.HEADER + layout.LENGTH
    first = low + low_bytes(header)
    second = first + int64(word(data, at + layout.HEADER) & U(0xFFFF))
    if second > end or (codes == 0 and first != second):
        return int64(-TOO_SHORT)
    begin = layout.HEADER + low_bytes(header)
    for k in range(layout.HEADER):
        plain[k] = data[at + k]
    for k in range(first - low):
        plain[layout.HEADER + k] = data[low + k]
    dictionary = adv(shop.dictionaries, 2 + 2 * slot)
    middle = begin + codes
    if codes and _expand(shop, shop.context, data, first, second, dictionary[0], begin, middle) != middle:
        return int64(-BAD_FRAME)
    limit = middle + layout.RECORD_BYTES * records_in(header) + layout.EDGE_BYTES * edges_in(header)
    size = _expand(shop, shop.column_context, data, second, end, dictionary[1], middle, limit)
    return size if size >= 0 else int64(-BAD_FRAME)


# ------------------------------------------------------------------ single numbers from a block
@inner
def _next_byte(data: Bytes, reader: Reader, column: int64) -> int64:
    """Returns the next byte of a variable-length column; the caller has checked the column's end."""
    at = reader[column]
    reader[column] = at + 1
    return int64(data[at])


@inner
def _read_varint(data: Bytes, reader: Reader, column: int64) -> int64:
    """Returns the next varint of a column, at most 32 bits."""
    x = int64(0)
    for shift in range(0, 35, 7):
        at = reader[column]
        if at >= reader[END]:
            break
        reader[column] = at + 1
        byte = int64(data[at])
        x |= (byte & 127) << shift
        if byte < 128 and x >> 32 == 0:
            return x
    reader[FAILED] = 1
    return int64(0)


@inner
def _read_float(reader: Reader, data: Bytes, low: int64, high: uint8) -> uint32:
    """Returns the bits of a value in [-1, 1] from three low bytes and a high one."""
    bits = int64(data[low]) | (int64(data[low + 1]) << 8) | (int64(data[low + 2]) << 16) | (int64(high) << 24)
    if bits & layout.MAGNITUDE > layout.UNIT:
        reader[FAILED] = 1
    return uint32(bits)


@inner
def _read_draw(reader: Reader, low: uint8, high: uint8, most: int64) -> uint16:
    """Returns a draw field from its two bytes; it fails above `most`."""
    d = int64(low) | (int64(high) << 8)
    if d > most:
        reader[FAILED] = 1
    return uint16(d)


@inner
def _read_squares(data: Bytes, reader: Reader, column: int64, count: int64) -> uint64:
    """Returns a set of squares; each byte is the number of squares skipped before one."""
    squares = ZERO
    square = int64(-1)
    for _ in range(count):
        square += 1 + _next_byte(data, reader, column)
        if square > 63:
            reader[FAILED] = 1
            return ZERO
        squares |= ONE << U(square)
    return squares


# ------------------------------------------------------------------ the columns, and the positions
@inner
def open_block(shop: Workshop, header: int64) -> int64:
    """Sets the offsets of the variable-length columns; returns where the rows begin.

    Sets FAILED if the columns do not fill the block. END is set by the caller.
    """
    data, reader = shop.plain, shop.reader
    size, codes, edges = records_in(header), codes_in(header), edges_in(header)
    rows = layout.HEADER + low_bytes(header) + codes
    reader[FAILED] = 1
    if rows + layout.FIXED * size + layout.BY_EDGE * edges > reader[END]:
        return rows
    moves = visited = ep = other = emptied = filled = runs = int64(0)
    for k in range(rows, rows + size):
        meta = int64(data[k + size * layout.META])
        moves += int64(data[k + size * layout.MOVES])
        visited += int64(data[k + size * layout.EDGES])
        ep += meta & layout.HAS_EN_PASSANT
        other += meta // layout.HAS_CHESS960
        runs += (meta // layout.HAS_RUN) & 1
        emptied += int64(data[k + size * layout.EMPTIED])
        filled += int64(data[k + size * layout.FILLED])
    reader[layout.EN_PASSANT] = rows + layout.FIXED * size + layout.BY_EDGE * edges
    reader[layout.CHESS960] = reader[layout.EN_PASSANT] + ep
    reader[layout.EMPTIED_SQUARES] = reader[layout.CHESS960] + layout.CHESS960_BYTES * other
    reader[layout.FILLED_SQUARES] = reader[layout.EMPTIED_SQUARES] + emptied
    reader[layout.MEN] = reader[layout.FILLED_SQUARES] + filled
    reader[layout.RUN] = reader[layout.MEN] + filled
    if moves == codes and visited == edges and reader[layout.RUN] <= reader[END]:
        reader[FAILED] = 0
        _open_counts(data, reader, runs, edges * (1 + is_drawn(header)))
    return rows


@inner
def _open_counts(data: Bytes, reader: Reader, runs: int64, counts: int64) -> None:
    """Sets COUNTS behind the runs; sets FAILED unless so many counts fill the rest of the block."""
    at = reader[layout.RUN]
    while runs and at < reader[END]:
        runs -= 1 - (int64(data[at]) >> 7)
        at += 1
    reader[COUNTS] = at
    last = int64(0)
    while at < reader[END]:
        last = int64(data[at]) >> 7
        counts -= 1 - last
        at += 1
    if runs or counts or last:
        reader[FAILED] = 1


@inner
def _men(data: Bytes, reader: Reader, s: Position, base: Position, emptied: uint64, filled: uint64) -> None:
    """Puts the men on the filled squares."""
    while filled:
        man = man_at(base, emptied & (~emptied + ONE)) if emptied else int64(layout.NO_MAN)
        emptied &= emptied - ONE
        x = _next_byte(data, reader, int64(layout.MEN))
        man += x if x < layout.MEN_KINDS else int64(0)
        man -= layout.MEN_KINDS if man >= layout.MEN_KINDS else int64(0)
        if x >= layout.MEN_KINDS or man == layout.NO_MAN:
            reader[FAILED] = 1
            return
        bit = filled & (~filled + ONE)
        s[man if man < 6 else man - 6] |= bit
        s[WHITE if man < 6 else BLACK] |= bit
        filled ^= bit


@inner
def _meta(data: Bytes, reader: Reader, x: int64, clock: int64, base: uint64) -> int64:
    """Returns the meta word of a position encoded against one with the meta word `base`."""
    castling = ((x >> layout.META_CASTLING_AT) ^ (int64(base) >> CASTLING_SHIFT)) & CASTLING_BITS
    meta = (x >> layout.META_BLACK_AT) & BLACK_TO_MOVE
    meta |= (castling << CASTLING_SHIFT) | (clock << CLOCK_SHIFT)
    other = base >> U(CHESS960_SHIFT)
    if x & layout.HAS_CHESS960:
        low = _next_byte(data, reader, int64(layout.CHESS960))
        difference = low | _next_byte(data, reader, int64(layout.CHESS960)) << 8
        if difference > CHESS960_BITS:
            reader[FAILED] = 1
        other ^= U(difference & CHESS960_BITS)
    meta |= int64(other) << CHESS960_SHIFT
    if x & layout.HAS_EN_PASSANT:
        square = _next_byte(data, reader, int64(layout.EN_PASSANT))
        if square > 63:
            reader[FAILED] = 1
        meta |= ((square & 63) + 1) << EN_PASSANT_SHIFT
    return meta


@inner
def _read_place(
    shop: Workshop, rows: int64, k: int64, size: int64, words: Pointer[uint64], runs: Pointer[uint32]
) -> uint64:
    """Reads position `k` of a block, without its key, and its record's run, after all before it.

    Args:
      words: `[10 * size]`. runs: `[size]`. Both are filled up to `k`.

    Returns:
      the squares that differ from the position that it is encoded against.
    """
    data, reader = shop.plain, shop.reader
    row = adv(data, rows + k)
    back, moves = int64(row[size * layout.REFERENCE]), int64(row[size * layout.MOVES])
    if back > k or moves > MAX_MOVES or int64(row[size * layout.EDGES]) > moves:
        reader[FAILED] = 1
        return ZERO
    s = adv(words, PW * k)
    base = adv(words, PW * (k - back)) if back else shop.start
    emptied = _read_squares(data, reader, int64(layout.EMPTIED_SQUARES), int64(row[size * layout.EMPTIED]))
    filled = _read_squares(data, reader, int64(layout.FILLED_SQUARES), int64(row[size * layout.FILLED]))
    changed = emptied | filled
    for w in range(8):
        s[w] = base[w] & ~changed
    if not reader[FAILED]:
        _men(data, reader, s, base, emptied, filled)
    meta = int64(row[size * layout.META])
    if not reader[FAILED]:
        s[META] = U(_meta(data, reader, meta, int64(row[size * layout.CLOCK]), base[META]))
    run = int64(runs[k - back]) if back else int64(0)
    if meta & layout.HAS_RUN:
        run = _read_varint(data, reader, int64(layout.RUN))
    if run > MAX_RUN:
        reader[FAILED] = 1
    runs[k] = uint32(run)
    return changed


@inner
def find_place(shop: Workshop, header: int64, rows: int64, known: int64, s: Position) -> tuple[int64, int64]:
    """Returns the index of position `s` in an open block, -1 for none, and how many positions are read now.

    It reads no position after `s`. `known`: how many were read before.
    """
    for k in range(known):
        if is_same(s, adv(shop.words, PW * k)):
            return int64(k), known
    size = records_in(header)
    while known < size:
        _read_place(shop, rows, known, size, shop.words, shop.runs)
        if shop.reader[FAILED]:
            break
        known += 1
        if is_same(s, adv(shop.words, PW * (known - 1))):
            return known - 1, known
    return int64(-1), known


@inner
def _men_key(T: BoardTable, s: Position, squares: uint64) -> uint64:
    """Returns the Polyglot words of the men on some squares."""
    key = ZERO
    squares &= s[WHITE] | s[BLACK]
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
def _meta_key(T: BoardTable, meta: int64) -> uint64:
    """Returns the Polyglot words of everything but the men."""
    key = T[ZC + ((meta >> CASTLING_SHIFT) & CASTLING_BITS)]
    ep = (meta >> EN_PASSANT_SHIFT) & EN_PASSANT_BITS
    if ep:
        key ^= T[ZO + 772 + ((ep - 1) & 7)]
    return key if meta & BLACK_TO_MOVE else key ^ T[ZO + 780]


# ------------------------------------------------------------------ the other fields
@inner
def _read_codes(reader: Reader, data: Bytes, at: int64, out: Bytes, n: int64) -> None:
    """Copies `n` P codes; sets FAILED if one is out of range."""
    wrong = int64(0)
    for j in range(n):
        code = int64(data[at + j])
        wrong |= 1 if code < 1 or code > CODE else 0
        out[j] = uint8(code)
    if wrong:
        reader[FAILED] = 1


@inner
def _read_fields(shop: Workshop, c: Columns, i: int64, rows: int64, k: int64, size: int64) -> None:
    """Reads the one-byte fields of record `k`, V and its draws into place `i`, and sets its offsets' ends."""
    data, reader = shop.plain, shop.reader
    row, low = adv(data, rows + k), layout.HEADER + layout.LOW * k
    c.flags[i] = row[size * layout.FLAGS]
    c.evaluator[i] = row[size * layout.EVALUATOR]
    as_u32(c.v)[i] = _read_float(reader, data, low, row[size * layout.V_HIGH])
    c.d[i] = _read_draw(reader, data[low + layout.LOW_DRAW], row[size * layout.V_DRAW], int64(D_SCALE))
    c.code_offsets[i + 1] = c.code_offsets[i] + int64(row[size * layout.MOVES])
    c.edge_offsets[i + 1] = c.edge_offsets[i] + int64(row[size * layout.EDGES])


@inner
def _read_counts(data: Bytes, reader: Reader, out: Pointer[uint32], n: int64) -> None:
    """Reads `n` counts."""
    for e in range(n):
        out[e] = uint32(_read_varint(data, reader, int64(COUNTS)))


@inner
def _skip_counts(data: Bytes, reader: Reader, n: int64) -> None:
    """Skips `n` counts."""
    for _ in range(n):
        _read_varint(data, reader, int64(COUNTS))


@inner
def _read_edges(
    shop: Workshop, c: Columns, first: int64, n: int64, before: int64, header: int64, rows: int64
) -> None:
    """Reads `n` edges of a block, after `before` others, into the columns from edge `first` on."""
    data, reader = shop.plain, shop.reader
    size, edges = records_in(header), edges_in(header)
    low = layout.HEADER + layout.LOW * (size + before)
    high = rows + layout.FIXED * size + before
    for e in range(n):
        as_u32(c.q)[first + e] = _read_float(reader, data, low + layout.LOW * e, data[high + e])
        c.edge_d[first + e] = _read_draw(
            reader, data[low + layout.LOW * e + layout.LOW_DRAW], data[high + edges + e], int64(MOST_CODE)
        )
    _skip_counts(data, reader, before)
    _read_counts(data, reader, adv(c.n, first), n)
    if is_drawn(header):
        _skip_counts(data, reader, edges - n)
        _read_counts(data, reader, adv(c.r, first), n)
    else:
        for e in range(first, first + n):
            c.r[e] = uint32(0)


@inner
def _sum_before(data: Bytes, column: int64, k: int64) -> int64:
    """Returns the sum of the first `k` bytes of a column."""
    total = int64(0)
    for i in range(k):
        total += int64(data[column + i])
    return total


@inner
def copy_record(
    shop: Workshop, k: int64, header: int64, rows: int64, s: Position, c: Columns, i: int64
) -> None:
    """Reads record `k` of an open block, whose position is `s`, into place `i` of the columns."""
    data, reader, size = shop.plain, shop.reader, records_in(header)
    for w in range(PW):
        c.packed[PW * i + w] = shop.words[PW * k + w]
    c.packed[PW * i + KEY] = s[KEY]
    c.run[i] = shop.runs[k]
    _read_fields(shop, c, i, rows, k, size)
    codes = rows - codes_in(header) + _sum_before(data, rows + size * layout.MOVES, k)
    moves, edges = c.code_offsets[i + 1] - c.code_offsets[i], c.edge_offsets[i + 1] - c.edge_offsets[i]
    _read_codes(reader, data, codes, adv(c.codes, c.code_offsets[i]), moves)
    before = _sum_before(data, rows + size * layout.EDGES, k)
    counts = reader[COUNTS]  # another record of the block may follow
    _read_edges(shop, c, c.edge_offsets[i], edges, before, header, rows)
    reader[COUNTS] = counts


@inner
def _copy_block(T: BoardTable, shop: Workshop, header: int64, rows: int64, c: Columns, first: int64) -> None:
    """Reads all records of an open block into the columns from record `first` on."""
    size, codes = records_in(header), codes_in(header)
    words, reader = adv(c.packed, PW * first), shop.reader
    _read_codes(reader, shop.plain, rows - codes, adv(c.codes, c.code_offsets[first]), codes)
    for k in range(size):
        changed = _read_place(shop, rows, k, size, words, adv(c.run, first))
        s = adv(words, PW * k)
        if reader[FAILED] or not is_position(s):
            reader[FAILED] = 1
            return
        back = int64(shop.plain[rows + k + size * layout.REFERENCE])
        base = adv(words, PW * (k - back)) if back else shop.start
        s[KEY] = base[KEY] ^ _meta_key(T, int64(base[META])) ^ _meta_key(T, int64(s[META]))
        s[KEY] ^= _men_key(T, base, changed) ^ _men_key(T, s, changed)
        _read_fields(shop, c, first + k, rows, k, size)
    _read_edges(shop, c, c.edge_offsets[first], edges_in(header), int64(0), header, rows)


@kernel
def decode(
    T: NDArray[np.uint64],
    workshop: Workshop,
    data: NDArray[np.uint8],
    ends: NDArray[np.int64],
    slots: NDArray[np.int64],
    c: Columns,
    counts: NDArray[np.int64],
) -> int64:
    """Decodes stored blocks into columns; returns the number of records.

    Args:
      T: the table of `position/tables.py`.
      workshop: a `Workshop` of this thread.
      data: uint8, stored blocks, then `PADDING` bytes.
      ends: `[blocks]` int64, end of each block in `data`.
      slots: `[blocks]` int64, the slot of the dictionaries of each, NONE or UNKNOWN.
      c: `Columns` with room for the contents that the headers of the blocks state; filled.
      counts: `[blocks]` int64, filled with the records of each, or -(why it is refused).
    """
    shop, reader = workshop, workshop.reader
    at = i = int64(0)
    for b in range(len(ends)):
        counts[b] = unpack_block(shop, ptr(data, 0), at, ends[b], slots[b])
        at = ends[b]
        if counts[b] < 0:
            continue
        reader[END] = counts[b]
        header = header_at(shop.plain, int64(0))
        rows = open_block(shop, header)
        if not reader[FAILED]:
            _copy_block(ptr(T, 0), shop, header, rows, c, i)
        counts[b] = -NO_RECORDS if reader[FAILED] else records_in(header)
        i += max(counts[b], int64(0))
    return i


@kernel
def extract(
    workshop: Workshop,
    data: NDArray[np.uint8],
    ends: NDArray[np.int64],
    slots: NDArray[np.int64],
    words: NDArray[np.uint64],
    asked: NDArray[np.int64],
    firsts: NDArray[np.int64],
    hits: NDArray[np.int64],
    c: Columns,
    refused: NDArray[np.int64],
) -> int64:
    """Copies the records of some positions from stored blocks; returns the number of records found.

    Args:
      workshop, data, ends, slots: as for `decode`.
      words: `[10 K]` uint64, positions.
      asked: int64, indices of the positions to look for, block by block.
      firsts: `[blocks + 1]` int64, index in `asked` of the first position of each block.
      hits: int64, filled with the place in `asked` of each record found.
      c: `Columns` with room for all of `asked`, filled with the records found.
      refused: `[blocks]` int64, filled: why a block is refused, 0 if it is not; its records are not copied.
    """
    shop, reader = workshop, workshop.reader
    at = found = int64(0)
    for b in range(len(ends)):
        size = unpack_block(shop, ptr(data, 0), at, ends[b], slots[b])
        at = ends[b]
        refused[b] = max(-size, int64(0))
        if size < 0:
            continue
        reader[END] = size
        header = header_at(shop.plain, int64(0))
        rows = open_block(shop, header)
        before, known = found, int64(0)
        for i in range(firsts[b], firsts[b + 1]):
            if reader[FAILED]:
                break
            s = ptr(words, PW * asked[i])
            k, known = find_place(shop, header, rows, known, s)
            if k >= 0:
                copy_record(shop, k, header, rows, s, c, found)
                hits[found] = i
                found += 1
        if reader[FAILED]:
            refused[b] = NO_RECORDS
            found = before
    return found


# ------------------------------------------------------------------ soundness
SOUND, ILLEGAL, KIND, PRIORS, RESULT, INTERVAL, EVALUATOR, MORE_EDGES, VALUE, EDGE_VALUE = range(10)
EDGE_PROOF, EDGE_COUNTS, EDGE_EMPTY = range(EDGE_VALUE + 1, EDGE_VALUE + 4)

Fault: TypeAlias = tuple[int64, int64]  # its number, and the expected number or the index of the edge


@inner
def _fault_of_bounds(flags: int64, kind: int64) -> int64:
    """Returns RESULT if the bounds of a finished game are not its result, INTERVAL if others are none."""
    lower = ((flags >> LOWER_SHIFT) & BOUND_BITS) - 1
    upper = ((flags >> UPPER_SHIFT) & BOUND_BITS) - 1
    if kind:
        result = int64(-1) if kind == 1 else int64(0)
        return int64(SOUND) if lower == result and upper == result else int64(RESULT)
    return int64(SOUND) if lower <= upper and upper <= 1 else int64(INTERVAL)


@inner
def _is_value(q: float32, d: int64) -> bool:
    """Returns whether a value and its draw field are a distribution; d is rounded, by half a unit at most."""
    wide = abs(float(q))
    return wide <= 1.0 and float(share_of(q, d)) <= D_SCALE * (1.0 - wide) + 1.0


@inner
def _fault_of_edge(n: uint32, r: uint32, q: float32, d: int64) -> int64:
    """Returns the fault of the numbers of an edge."""
    lower, upper = bounds_of(q, d)
    if q < lower or q > upper:
        return int64(EDGE_PROOF)
    if not _is_value(q, d):
        return int64(EDGE_VALUE)
    if r > n:
        return int64(EDGE_COUNTS)
    return int64(EDGE_EMPTY) if n == r and (q != 0.0 or d != 0) else int64(SOUND)


@inner
def fault_in(T: BoardTable, s: Position, c: Columns, i: int64, out: Pointer[uint16]) -> Fault:
    """Returns the first fault of record `i`, of position `s`, SOUND if there is none."""
    if not is_legal(T, s):
        return int64(ILLEGAL), int64(0)
    moves = generate_moves(T, s, out)
    flags = int64(c.flags[i])
    kind = kind_of(T, s, moves)
    codes = c.code_offsets[i + 1] - c.code_offsets[i]
    begin, end = c.edge_offsets[i], c.edge_offsets[i + 1]
    if flags & KIND_BITS != kind:
        return int64(KIND), int64(kind)
    if codes != (int64(0) if kind else moves):
        return int64(PRIORS), int64(0 if kind else moves)
    fault = _fault_of_bounds(flags, kind)
    if fault != SOUND:
        return fault, int64(0)
    if int64(c.evaluator[i]) > MAX_EVALUATOR:
        return int64(EVALUATOR), int64(MAX_EVALUATOR)
    if end - begin > codes:
        return int64(MORE_EDGES), int64(codes)
    if not _is_value(c.v[i], int64(c.d[i])):
        return int64(VALUE), int64(0)
    for e in range(begin, end):
        fault = _fault_of_edge(c.n[e], c.r[e], c.q[e], int64(c.edge_d[e]))
        if fault != SOUND:
            return fault, int64(e - begin)
    return int64(SOUND), int64(0)


@kernel
def find_faults(
    T: NDArray[np.uint64], columns: Columns, places: NDArray[np.int64], faults: NDArray[np.int64]
) -> int64:
    """Fills the faults of records; returns the number of unsound ones.

    Args:
      T: the table of `position/tables.py`.
      columns: `Columns` of decoded records: one king a side, every number in the range of its field.
      places: int64, the records to check.
      faults: int64, two numbers for each of them, filled with the fault and what belongs to it.
    """
    moves = zeros(uint16, ROOM)
    found = int64(0)
    for k in range(len(places)):
        i = places[k]
        s = adv(columns.packed, PW * i)
        faults[2 * k], faults[2 * k + 1] = fault_in(ptr(T, 0), s, columns, i, moves)
        found += int64(faults[2 * k] != SOUND)
    return found
