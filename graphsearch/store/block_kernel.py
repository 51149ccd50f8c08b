"""Records <-> blocks of bytes, in bulk, and the check that records are sound.

A block before and after compression:

    expanded  header | low parts, of V of each record, then of q of each edge | P codes | columns
    stored    header | bytes of the first frame | low parts | frame of P codes | frame of columns | CRC-32

    header    bits 0-4 records - 1 | 5-17 P codes | 18-30 edges | 31 whether the column R is there
    low part  24 low bits of the value's float32 | 8 low bits of its draws
    columns   all bytes of one kind for all records, or edges, of the block, in the order of the numbers below

`schema/segment.md` is the reference of blocks, `schema/node_record.md` that of the columns. zstd compresses
the encoded blocks one by one (`block.py`). `rows` are the columns of one byte per record: column c of record
k is at `rows[k + records * c]`.

Bytes of any kind decode or are reported, without access out of bounds. Blocks are read one at a time, in
memory that stays cached:

    stored block | open -> plain, reader | place after place -> words, runs | fields -> columns

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
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import chess
import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import inner, kernel
from ..jit.pointers import LOW32, ONE, ZERO, U, adv, call_c, ctz, popc, ptr, view, zeros
from ..jit.types import Bundle, Items, Pointer, float32, int64, uint8, uint16, uint32, uint64
from ..position import board, board_kernel
from ..position.board import BLACK, KEY, KINGS, MAX_MOVES, META, PAWNS, WHITE, BoardTable, Position
from ..position.board_kernel import PW, clock_of, en_passant_of, side_to_move
from ..position.tables import ZC, ZO
from ..position.values import D_SCALE
from . import record_kernel as record
from .index_kernel import is_same
from .record_kernel import CODE, MAX_EVALUATOR, MAX_RUN, MOST_CODE, Columns

# ------------------------------------------------------------------ the layout
BLOCK = 32  # records of a block; the last one of a chunk may have fewer

# bytes
HEADER = 4
LENGTH = 2  # of the first frame, as stored
CHECKSUM = 4  # CRC-32 of everything before it
FRAME_START = bytes.fromhex("28b52ffd0038")  # not stored: no size, no checksum, no id, a window of 128 KiB
CUT = len(FRAME_START)
PADDING = 8  # bytes after the data that kernels may read
LOW = 3 + 1  # a low part: of the value, of its draws
LOW_DRAW = 3  # offset of the draws in it

# fields of the header
RECORDS_BITS, CODES_BITS, EDGES_BITS = 5, 13, 13
CODES_AT = RECORDS_BITS
EDGES_AT = CODES_AT + CODES_BITS
DRAWN_AT = EDGES_AT + EDGES_BITS
RECORDS_MASK, CODES_MASK, EDGES_MASK = (1 << RECORDS_BITS) - 1, (1 << CODES_BITS) - 1, (1 << EDGES_BITS) - 1
assert DRAWN_AT + 1 == 8 * HEADER
assert BLOCK == 1 << RECORDS_BITS

# columns of one byte per record; per edge: of q, of its draws; of variable length, varints from the runs on
FIXED, BY_EDGE = 11, 2
REFERENCE, EMPTIED, FILLED, META_FIELD, CLOCK, FLAGS = range(6)
EVALUATOR_FIELD, V_HIGH, V_DRAW, MOVES, EDGES = range(6, FIXED)
EN_PASSANT, CHESS960, EMPTIED_SQUARES, FILLED_SQUARES, MEN, RUN, N, R = range(FIXED + BY_EDGE, 21)

# the byte of META: an en-passant square follows | Black to move | castling XOR the reference's (4 bits)
# | a run follows: the record's run is not that of its reference | two bytes follow, the lower first: its bits
# of Chess960 XOR the reference's, which are not the same
HAS_EN_PASSANT, META_BLACK_AT, META_CASTLING_AT, HAS_RUN, HAS_CHESS960 = 1, 1, 2, 64, 128
CHESS960_BYTES = 2
NO_MAN, MEN_KINDS = 12, 13  # men are 0-5 White's pawn to king, 6-11 Black's

# Maximum bytes of the columns. Of a record: one each, an en-passant square, two of Chess960, 64 changed
# squares, 32 men, a varint of 20 bits; of an edge: one each, two varints of 32 bits.
RECORD_BYTES = 128
EDGE_BYTES = BY_EDGE + 5 + 5
assert FIXED + 1 + CHESS960_BYTES + 64 + 32 + 3 <= RECORD_BYTES

MAGNITUDE, UNIT = 0x7FFFFFFF, 0x3F800000  # bits of a float32: all but the sign; of 1.0
FRACTION = 0xFFFFFF  # those of its low part

START = tuple(int(word) for word in board.pack(chess.Board()))  # the reference of the first record of a block
OK, BAD_POSITION, BAD_FIELD = 0, 1, 2  # whether the format can represent a record


def room_for(blocks: int, records: int, codes: int, edges: int) -> int:
    """Returns the maximum size of expanded blocks in bytes."""
    return HEADER * blocks + (LOW + RECORD_BYTES) * records + codes + (LOW + EDGE_BYTES) * edges


@inner
def word(data: Pointer[uint8], at: int64) -> uint64:
    """Returns 8 bytes, lowest first; the compiler makes one load of them."""
    x = ZERO
    for k in range(8):
        x |= U(data[at + k]) << U(8 * k)
    return x


@inner
def header_at(data: Pointer[uint8], at: int64) -> int64:
    """Returns the header of the block at offset `at` of `data`; the caller has checked the length."""
    return int64(word(data, at) & LOW32)


@inner
def records_in(header: int64) -> int64:
    """Returns how many records a block has."""
    return (header & RECORDS_MASK) + 1


@inner
def codes_in(header: int64) -> int64:
    """Returns how many P codes a block has."""
    return (header >> CODES_AT) & CODES_MASK


@inner
def edges_in(header: int64) -> int64:
    """Returns how many edges a block has."""
    return (header >> EDGES_AT) & EDGES_MASK


@inner
def is_drawn(header: int64) -> int64:
    """Returns 1 if a block has the column of path draws, else 0."""
    return header >> DRAWN_AT


@inner
def low_bytes(header: int64) -> int64:
    """Returns the size of a block's low parts in bytes."""
    return LOW * (records_in(header) + edges_in(header))


@inner
def is_position(s: Position) -> bool:
    """Returns whether each man has one kind and colour, and the numbers of men are those of chess."""
    men, kinds, total = s[WHITE] | s[BLACK], ZERO, int64(0)
    for kind in range(PAWNS, KINGS + 1):
        kinds |= s[kind]
        total += popc(s[kind])
    if kinds != men or total != popc(men) or s[WHITE] & s[BLACK] != ZERO:
        return False
    for side in range(WHITE, BLACK + 1):
        if popc(s[side]) > 16 or popc(s[PAWNS] & s[side]) > 8 or popc(s[KINGS] & s[side]) != 1:
            return False
    return s[PAWNS] & U(0xFF000000000000FF) == ZERO


@inner
def man_at(s: Position, bit: uint64) -> int64:
    """Returns the man on a square given as a bit: 0..5 white pawn to king, 6..11 black, NO_MAN."""
    if not (s[WHITE] | s[BLACK]) & bit:
        return int64(NO_MAN)
    kind = int64(0)
    while not s[kind] & bit:
        kind += 1
    return kind + 6 if s[BLACK] & bit else kind


# ------------------------------------------------------------------ encoding
LIST_ROOM = 64 * BLOCK  # bytes of a list
FIRST_LIST, LISTS = EN_PASSANT, N - EN_PASSANT


class Draft(NamedTuple):
    """What the blocks are encoded from, and scratch for one of them.

    Attributes:
      c: `Columns`. start: `[10]` the reference of the first record of a block.
      lists: `[LISTS * LIST_ROOM]` the variable-length columns but the last two. sizes: `[LISTS]` bytes used.
      planes: `[4 * (BLOCK + 1)]` each record's men as four bit planes, those of `start` last.
    """

    c: Columns
    start: Position
    lists: Pointer[uint8]
    sizes: Pointer[int64]
    planes: Pointer[uint64]


@inner
def _planes(s: Position, p: Pointer[uint64]) -> None:
    """Writes four bit planes of the men on the 64 squares: kind 1..6 in three, Black in the fourth."""
    p[0] = s[PAWNS] | s[board.BISHOPS] | s[board.QUEENS]
    p[1] = s[board.KNIGHTS] | s[board.BISHOPS] | s[KINGS]
    p[2] = s[board.ROOKS] | s[board.QUEENS] | s[KINGS]
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
def _append(draft: Draft, column: int64, x: int64) -> None:
    """Appends a byte to a variable-length column."""
    k = column - FIRST_LIST
    draft.lists[LIST_ROOM * k + draft.sizes[k]] = uint8(x)
    draft.sizes[k] += 1


@inner
def _squares(draft: Draft, column: int64, squares: uint64) -> uint8:
    """Appends a set of squares, each as the number of squares skipped before it; returns their number."""
    count = popc(squares)
    next_one = int64(0)
    while squares:
        square = ctz(squares)
        squares &= squares - ONE
        _append(draft, column, square - next_one)
        next_one = square + 1
    return uint8(count)


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
def _number(x: int64, out: Pointer[uint8], to: int64) -> int64:
    """Writes a number of 32 bits, lowest byte first; returns the end."""
    for k in range(4):
        out[to + k] = uint8((x >> (8 * k)) & 255)
    return to + 4


@inner
def _copied(source: Pointer[uint8], at: int64, end: int64, out: Pointer[uint8], to: int64) -> int64:
    """Copies bytes; returns the end."""
    for k in range(end - at):
        out[to + k] = source[at + k]
    return to + end - at


@inner
def _low(out: Pointer[uint8], at: int64, value: uint32, d: uint16) -> int64:
    """Writes the low bytes of a value and its draws; returns the end."""
    return _number((int64(value) & FRACTION) | ((int64(d) & 255) << 24), out, at)


@inner
def _fits(c: Columns, i: int64) -> int64:
    """Returns OK, or BAD_POSITION or BAD_FIELD if the format cannot represent record `i`."""
    s = adv(c.packed, PW * i)
    if not is_position(s) or s[META] >> U(board.META_BITS) or en_passant_of(s) > 64:
        return int64(BAD_POSITION)
    moves = c.code_offsets[i + 1] - c.code_offsets[i]
    edges = c.edge_offsets[i + 1] - c.edge_offsets[i]
    if c.d[i] > D_SCALE or moves < 0 or moves > MAX_MOVES or edges < 0 or edges > moves:
        return int64(BAD_FIELD)
    if int64(view(uint32, c.v)[i]) & MAGNITUDE > UNIT or c.run[i] > MAX_RUN:
        return int64(BAD_FIELD)
    for j in range(c.code_offsets[i], c.code_offsets[i + 1]):
        if c.codes[j] < 1 or c.codes[j] > CODE:
            return int64(BAD_FIELD)
    for e in range(c.edge_offsets[i], c.edge_offsets[i + 1]):
        if c.edge_d[e] > MOST_CODE or int64(view(uint32, c.q)[e]) & MAGNITUDE > UNIT:
            return int64(BAD_FIELD)
    return int64(OK)


@kernel
def find_unfit(c: Columns, problems: NDArray[np.int64]) -> int64:
    """Fills OK, or why the format cannot represent each record; returns the number of unfit ones."""
    found = int64(0)
    for i in range(len(problems)):
        problems[i] = _fits(c, int64(i))
        found += int64(problems[i] != OK)
    return found


@inner
def _positions(draft: Draft, first: int64, last: int64, rows: Pointer[uint8]) -> None:
    """Writes positions as the squares that changed against their references, their other parts, and runs."""
    c, planes, size = draft.c, draft.planes, last - first
    for i in range(first, last):
        k = i - first
        s, row, here = adv(c.packed, PW * i), adv(rows, k), adv(planes, 4 * k)
        _planes(s, here)
        j = _best_reference(planes, k) if k else int64(BLOCK)
        base = adv(c.packed, PW * (first + j)) if k else draft.start
        changed, men = _difference(here, adv(planes, 4 * j)), s[WHITE] | s[BLACK]
        emptied, filled = changed & ~men, changed & men
        row[size * REFERENCE] = uint8(k - j if k else 0)
        row[size * EMPTIED] = _squares(draft, int64(EMPTIED_SQUARES), emptied)
        row[size * FILLED] = _squares(draft, int64(FILLED_SQUARES), filled)
        while filled:
            left = man_at(base, emptied & (~emptied + ONE)) if emptied else int64(NO_MAN)
            emptied &= emptied - ONE
            x = man_at(s, filled & (~filled + ONE)) - left
            _append(draft, int64(MEN), x if x >= 0 else x + MEN_KINDS)
            filled &= filled - ONE
        other = int64((s[META] ^ base[META]) >> U(board.CHESS960_SHIFT))
        castling = (int64(s[META] ^ base[META]) >> board.CASTLING_SHIFT) & board.CASTLING_BITS
        meta = (castling << META_CASTLING_AT) | (side_to_move(s) << META_BLACK_AT)
        if en_passant_of(s):
            meta |= HAS_EN_PASSANT
            _append(draft, int64(EN_PASSANT), en_passant_of(s) - 1)
        if other:
            meta |= HAS_CHESS960
            _append(draft, int64(CHESS960), other & 255)
            _append(draft, int64(CHESS960), other >> 8)
        if int64(c.run[i]) != (int64(c.run[first + j]) if k else int64(0)):
            meta |= HAS_RUN
            runs = RUN - FIRST_LIST
            end = _varint(adv(draft.lists, LIST_ROOM * runs), draft.sizes[runs], int64(c.run[i]))
            draft.sizes[runs] = end
        row[size * META_FIELD] = uint8(meta)
        row[size * CLOCK] = uint8(clock_of(s))


@inner
def _block(draft: Draft, first: int64, last: int64, out: Pointer[uint8], at: int64) -> int64:
    """Writes one block; returns the end."""
    c, size, drawn = draft.c, last - first, int64(0)
    a, z = c.edge_offsets[first], c.edge_offsets[last]
    for k in range(LISTS):
        draft.sizes[k] = 0
    codes, v, q = c.code_offsets[last] - c.code_offsets[first], view(uint32, c.v), view(uint32, c.q)
    for e in range(a, z):
        drawn |= int64(c.r[e] != 0)
    header = (size - 1) | (codes << CODES_AT) | ((z - a) << EDGES_AT) | (drawn << DRAWN_AT)
    at = _number(header, out, at)
    for i in range(first, last):
        at = _low(out, at, v[i], c.d[i])
    for e in range(a, z):
        at = _low(out, at, q[e], c.edge_d[e])
    at = _copied(c.codes, c.code_offsets[first], c.code_offsets[last], out, at)
    _positions(draft, first, last, adv(out, at))
    for i in range(first, last):
        row = adv(out, at + i - first)
        row[size * FLAGS] = c.flags[i]
        row[size * EVALUATOR_FIELD] = c.evaluator[i]
        row[size * V_HIGH] = uint8(int64(v[i]) >> 24)
        row[size * V_DRAW] = uint8(int64(c.d[i]) >> 8)
        row[size * MOVES] = uint8(c.code_offsets[i + 1] - c.code_offsets[i])
        row[size * EDGES] = uint8(c.edge_offsets[i + 1] - c.edge_offsets[i])
    at += FIXED * size
    for e in range(a, z):
        out[at + e - a] = uint8(int64(q[e]) >> 24)
        out[at + z - a + e - a] = uint8(int64(c.edge_d[e]) >> 8)
    at += BY_EDGE * (z - a)
    for k in range(LISTS):
        begin = int64(LIST_ROOM * k)
        at = _copied(draft.lists, begin, begin + draft.sizes[k], out, at)
    for e in range(a, z):
        at = _varint(out, at, int64(c.n[e]))
    if drawn:
        for e in range(a, z):
            at = _varint(out, at, int64(c.r[e]))
    return at


@kernel
def encode(c: Columns, start: NDArray[np.uint64], out: NDArray[np.uint8], ends: NDArray[np.int64]) -> int64:
    """Writes blocks one after the other; returns the number of bytes.

    Args:
      c: records that fit the format (`find_unfit`), in the order in which they are stored.
      start: as in `Draft`.
      out: `[room_for(blocks, R, codes, edges)]` filled. ends: `[blocks]` filled: where each block ends.
    """
    planes, lists = zeros(uint64, 4 * (BLOCK + 1)), zeros(uint8, LIST_ROOM * LISTS)
    draft = Draft(c, ptr(start, 0), lists, zeros(int64, LISTS), planes)
    _planes(draft.start, adv(planes, 4 * BLOCK))
    at = int64(0)
    for b in range(len(ends)):
        at = _block(draft, b * BLOCK, min(c.v_size, (b + 1) * BLOCK), ptr(out, 0), at)
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
def crc32(data: Pointer[uint8], at: int64, end: int64, table: Pointer[uint32]) -> uint64:
    """Returns the CRC-32 of `data[at:end]`; `table` points to `crc_tables`."""
    crc = LOW32
    while at + 8 <= end:
        x = word(data, at) ^ crc
        crc = ZERO
        for k in range(8):
            crc ^= U(table[256 * (7 - k) + int64((x >> U(8 * k)) & U(255))])
        at += 8
    while at < end:
        crc = U(table[int64((crc ^ U(data[at])) & U(255))]) ^ (crc >> U(8))
        at += 1
    return crc ^ LOW32


# ------------------------------------------------------------------ decoding
COUNTS, END, FAILED, HEAD, ROWS, READER = range(N, N + 6)
FRAME_ROOM = 1 << 17  # bytes of a frame; larger ones, which no writer makes, are refused

# why a block is refused
TOO_SHORT, BAD_CHECKSUM, NO_DICTIONARY, BAD_FRAME, NO_RECORDS = 1, 2, 3, 4, 5
NONE, UNKNOWN = -1, -2  # in place of a slot: no dictionaries, and some that could not be loaded

Bytes: TypeAlias = Pointer[uint8]  # of a block
Reader: TypeAlias = Pointer[int64]


class Workshop(Bundle):
    """The functions and memory for reading blocks; one for each thread.

    Attributes:
      decompress, size_of_frame: addresses of functions of libzstd (`block.Libzstd`).
      contexts: addresses of this thread's decompression contexts, for P codes and for columns: a context that
        changes dictionaries with every frame treats them as cold, and is slower.
      dictionaries: `[2 + 2 * slots]` int64, addresses of loaded dictionaries. First 0 twice, for blocks
        without dictionaries; then two for each slot: for P codes, for columns.
      frame: `[FRAME_ROOM]` uint8, working memory that begins with FRAME_START.
      crc: `crc_tables`.
      plain: uint8, the block before compression.
      reader: `[READER]` int64: from EN_PASSANT to RUN the offset of the next byte of each variable-length
        column; COUNTS: of the varints of N and R; END: end of the block; FAILED: 1 after an unsound value;
        HEAD: the block's header; ROWS: offset of its rows.
      words: `[10 * BLOCK]` uint64, positions. runs: `[BLOCK]` uint32.
      start: `[10]` uint64, the position that the first record of a block is encoded against.
    """

    decompress: int64
    size_of_frame: int64
    contexts: Items[int64]
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
    shop: Workshop, data: Bytes, at: int64, end: int64, slot: int64, which: int64, to: int64, limit: int64
) -> int64:
    """Expands the frame `data[at:end]` to `shop.plain[to:limit]`; returns the end of its content, or -1.

    `which`: 0 for P codes, 1 for columns.
    """
    context, dictionary = shop.contexts[which], shop.dictionaries[2 + 2 * slot + which]
    size = CUT + end - at
    if size > FRAME_ROOM:
        return int64(-1)
    for k in range(end - at):
        shop.frame[CUT + k] = data[at + k]
    if call_c(shop.size_of_frame, (shop.frame, size)) != size:  # truncated, or followed by other bytes
        return int64(-1)
    found = call_c(shop.decompress, (context, adv(shop.plain, to), limit - to, shop.frame, size, dictionary))
    return to + found if found >= 0 else int64(-1)


@inner
def unpack_block(shop: Workshop, data: Bytes, at: int64, end: int64, slot: int64) -> int64:
    """Unpacks the stored block `data[at:end]` to `shop.plain`; returns its size there, or -(why not)."""
    if end - at < HEADER + LENGTH + CHECKSUM:
        return int64(-TOO_SHORT)
    end -= CHECKSUM
    if crc32(data, at, end, shop.crc) != word(data, end) & LOW32:
        return int64(-BAD_CHECKSUM)
    if slot < NONE:
        return int64(-NO_DICTIONARY)
    header, plain = header_at(data, at), shop.plain
    codes = codes_in(header)
    low = at + HEADER + LENGTH
    first = low + low_bytes(header)
    second = first + int64(word(data, at + HEADER) & U(0xFFFF))
    if second > end or (codes == 0 and first != second):
        return int64(-TOO_SHORT)
    begin = HEADER + low_bytes(header)
    _copied(data, at, at + HEADER, plain, int64(0))
    _copied(data, low, first, plain, int64(HEADER))
    middle = begin + codes
    if codes and _expand(shop, data, first, second, slot, int64(0), begin, middle) != middle:
        return int64(-BAD_FRAME)
    limit = middle + RECORD_BYTES * records_in(header) + EDGE_BYTES * edges_in(header)
    size = _expand(shop, data, second, end, slot, int64(1), middle, limit)
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
def _read_value(
    reader: Reader, data: Bytes, low: int64, high: uint8, draws: uint8, most: int64
) -> tuple[uint32, uint16]:
    """Returns the bits of a value in [-1, 1] and its draws, by its low part and a high byte of each."""
    part = int64(word(data, low) & LOW32)
    bits = (part & FRACTION) | (int64(high) << 24)
    d = (part >> 8 * LOW_DRAW) | (int64(draws) << 8)
    if bits & MAGNITUDE > UNIT or d > most:
        reader[FAILED] = 1
    return uint32(bits), uint16(d)


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
def _sum(data: Bytes, column: int64, k: int64) -> int64:
    """Returns the sum of the first `k` bytes of a column."""
    total = int64(0)
    for i in range(k):
        total += int64(data[column + i])
    return total


@inner
def open_block(shop: Workshop, source: Bytes, at: int64, end: int64, slot: int64) -> int64:
    """Unpacks the stored block `source[at:end]` and sets the reader; returns 0, or why it is refused."""
    data, reader = shop.plain, shop.reader
    reader[END] = unpack_block(shop, source, at, end, slot)
    if reader[END] < 0:
        return -reader[END]
    reader[HEAD] = header = header_at(data, int64(0))
    size, codes, edges = records_in(header), codes_in(header), edges_in(header)
    reader[ROWS] = rows = HEADER + low_bytes(header) + codes
    if rows + FIXED * size + BY_EDGE * edges > reader[END]:
        return int64(NO_RECORDS)
    ep = other = runs = int64(0)
    for k in range(size):
        meta = int64(data[rows + size * META_FIELD + k])
        ep += meta & HAS_EN_PASSANT
        other += meta // HAS_CHESS960
        runs += (meta // HAS_RUN) & 1
    moves, visited = _sum(data, rows + size * MOVES, size), _sum(data, rows + size * EDGES, size)
    filled = _sum(data, rows + size * FILLED, size)
    reader[EN_PASSANT] = rows + FIXED * size + BY_EDGE * edges
    reader[CHESS960] = reader[EN_PASSANT] + ep
    reader[EMPTIED_SQUARES] = reader[CHESS960] + CHESS960_BYTES * other
    reader[FILLED_SQUARES] = reader[EMPTIED_SQUARES] + _sum(data, rows + size * EMPTIED, size)
    reader[MEN] = reader[FILLED_SQUARES] + filled
    reader[RUN] = reader[MEN] + filled
    if moves != codes or visited != edges or reader[RUN] > reader[END]:
        return int64(NO_RECORDS)
    reader[FAILED] = 0
    _open_counts(data, reader, runs, edges * (1 + is_drawn(header)))
    return NO_RECORDS * reader[FAILED]


@inner
def _open_counts(data: Bytes, reader: Reader, runs: int64, counts: int64) -> None:
    """Sets COUNTS behind the runs; sets FAILED unless so many counts fill the rest of the block."""
    at = reader[RUN]
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
        man = man_at(base, emptied & (~emptied + ONE)) if emptied else int64(NO_MAN)
        emptied &= emptied - ONE
        x = _next_byte(data, reader, int64(MEN))
        man += x if x < MEN_KINDS else int64(0)
        man -= MEN_KINDS if man >= MEN_KINDS else int64(0)
        if x >= MEN_KINDS or man == NO_MAN:
            reader[FAILED] = 1
            return
        bit = filled & (~filled + ONE)
        s[man if man < 6 else man - 6] |= bit
        s[WHITE if man < 6 else BLACK] |= bit
        filled ^= bit


@inner
def _meta(data: Bytes, reader: Reader, x: int64, clock: int64, base: uint64) -> int64:
    """Returns the meta word of a position encoded against one with the meta word `base`."""
    castling = ((x >> META_CASTLING_AT) ^ (int64(base) >> board.CASTLING_SHIFT)) & board.CASTLING_BITS
    meta = (x >> META_BLACK_AT) & board.BLACK_TO_MOVE
    meta |= (castling << board.CASTLING_SHIFT) | (clock << board.CLOCK_SHIFT)
    other = base >> U(board.CHESS960_SHIFT)
    if x & HAS_CHESS960:
        low = _next_byte(data, reader, int64(CHESS960))
        difference = low | _next_byte(data, reader, int64(CHESS960)) << 8
        if difference > board.CHESS960_BITS:
            reader[FAILED] = 1
        other ^= U(difference & board.CHESS960_BITS)
    meta |= int64(other) << board.CHESS960_SHIFT
    if x & HAS_EN_PASSANT:
        square = _next_byte(data, reader, int64(EN_PASSANT))
        if square > 63:
            reader[FAILED] = 1
        meta |= ((square & 63) + 1) << board.EN_PASSANT_SHIFT
    return meta


@inner
def _read_place(shop: Workshop, k: int64, words: Pointer[uint64], runs: Pointer[uint32]) -> uint64:
    """Reads position `k` of a block, without its key, and its record's run, after all before it.

    `words` `[10 * size]` and `runs` `[size]` are filled up to `k`. It returns the squares that differ from
    the position that this one is encoded against.
    """
    data, reader, size = shop.plain, shop.reader, records_in(shop.reader[HEAD])
    row = adv(data, reader[ROWS] + k)
    back, moves = int64(row[size * REFERENCE]), int64(row[size * MOVES])
    if back > k or moves > MAX_MOVES or int64(row[size * EDGES]) > moves:
        reader[FAILED] = 1
        return ZERO
    s = adv(words, PW * k)
    base = adv(words, PW * (k - back)) if back else shop.start
    emptied = _read_squares(data, reader, int64(EMPTIED_SQUARES), int64(row[size * EMPTIED]))
    filled = _read_squares(data, reader, int64(FILLED_SQUARES), int64(row[size * FILLED]))
    changed = emptied | filled
    for w in range(8):
        s[w] = base[w] & ~changed
    if not reader[FAILED]:
        _men(data, reader, s, base, emptied, filled)
    meta = int64(row[size * META_FIELD])
    if not reader[FAILED]:
        s[META] = U(_meta(data, reader, meta, int64(row[size * CLOCK]), base[META]))
    run = int64(runs[k - back]) if back else int64(0)
    if meta & HAS_RUN:
        run = _read_varint(data, reader, int64(RUN))
    if run > MAX_RUN:
        reader[FAILED] = 1
    runs[k] = uint32(run)
    return changed


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
def _meta_key(T: BoardTable, s: Position) -> uint64:
    """Returns the Polyglot words of everything but the men."""
    key = T[ZC + ((int64(s[META]) >> board.CASTLING_SHIFT) & board.CASTLING_BITS)]
    ep = en_passant_of(s)
    if ep:
        key ^= T[ZO + 772 + ((ep - 1) & 7)]
    return key if side_to_move(s) else key ^ T[ZO + 780]


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
def _read_fields(shop: Workshop, c: Columns, i: int64, k: int64) -> None:
    """Reads the one-byte fields of record `k`, V and its draws into place `i`, and sets its offsets' ends."""
    data, reader, size = shop.plain, shop.reader, records_in(shop.reader[HEAD])
    row, low = adv(data, reader[ROWS] + k), HEADER + LOW * k
    c.flags[i] = row[size * FLAGS]
    c.evaluator[i] = row[size * EVALUATOR_FIELD]
    high, draws = row[size * V_HIGH], row[size * V_DRAW]
    view(uint32, c.v)[i], c.d[i] = _read_value(reader, data, low, high, draws, int64(D_SCALE))
    c.code_offsets[i + 1] = c.code_offsets[i] + int64(row[size * MOVES])
    c.edge_offsets[i + 1] = c.edge_offsets[i] + int64(row[size * EDGES])


@inner
def _read_counts(data: Bytes, reader: Reader, before: int64, out: Pointer[uint32], n: int64) -> None:
    """Reads `n` counts, after `before` others."""
    for _ in range(before):
        _read_varint(data, reader, int64(COUNTS))
    for e in range(n):
        out[e] = uint32(_read_varint(data, reader, int64(COUNTS)))


@inner
def _read_edges(shop: Workshop, c: Columns, first: int64, n: int64, before: int64) -> None:
    """Reads `n` edges of a block, after `before` others, into the columns from edge `first` on."""
    data, reader, header = shop.plain, shop.reader, shop.reader[HEAD]
    size, edges = records_in(header), edges_in(header)
    low = HEADER + LOW * (size + before)
    high = reader[ROWS] + FIXED * size + before
    for e in range(n):
        view(uint32, c.q)[first + e], c.edge_d[first + e] = _read_value(
            reader, data, low + LOW * e, data[high + e], data[high + edges + e], int64(MOST_CODE)
        )
    _read_counts(data, reader, before, adv(c.n, first), n)
    if is_drawn(header):
        _read_counts(data, reader, edges - n, adv(c.r, first), n)
    else:
        for e in range(first, first + n):
            c.r[e] = uint32(0)


@inner
def find_record(shop: Workshop, known: int64, s: Position, c: Columns, i: int64) -> tuple[bool, int64]:
    """Reads the record of position `s` in an open block, if there is one, into place `i` of the columns.

    It returns whether there is one, and how many positions are read now, none after `s`; `known`: before.
    """
    for k in range(records_in(shop.reader[HEAD])):
        if k == known:
            _read_place(shop, known, shop.words, shop.runs)
            if shop.reader[FAILED]:
                break
            known += 1
        if is_same(s, adv(shop.words, PW * k)):
            _copy_record(shop, int64(k), s, c, i)
            return True, known
    return False, known


@inner
def _copy_record(shop: Workshop, k: int64, s: Position, c: Columns, i: int64) -> None:
    """Reads record `k` of an open block, whose position is `s`, into place `i` of the columns."""
    data, reader, header, rows = shop.plain, shop.reader, shop.reader[HEAD], shop.reader[ROWS]
    for w in range(PW):
        c.packed[PW * i + w] = shop.words[PW * k + w]
    c.packed[PW * i + KEY] = s[KEY]
    c.run[i] = shop.runs[k]
    _read_fields(shop, c, i, k)
    codes = rows - codes_in(header) + _sum(data, rows + records_in(header) * MOVES, k)
    moves, edges = c.code_offsets[i + 1] - c.code_offsets[i], c.edge_offsets[i + 1] - c.edge_offsets[i]
    _read_codes(reader, data, codes, adv(c.codes, c.code_offsets[i]), moves)
    counts = reader[COUNTS]  # another record of the block may follow
    before = _sum(data, rows + records_in(header) * EDGES, k)
    _read_edges(shop, c, c.edge_offsets[i], edges, before)
    reader[COUNTS] = counts


@inner
def _copy_block(T: BoardTable, shop: Workshop, c: Columns, first: int64) -> None:
    """Reads all records of an open block into the columns from record `first` on."""
    data, reader, header, rows = shop.plain, shop.reader, shop.reader[HEAD], shop.reader[ROWS]
    size, codes, words = records_in(header), codes_in(header), adv(c.packed, PW * first)
    _read_codes(reader, data, rows - codes, adv(c.codes, c.code_offsets[first]), codes)
    for k in range(size):
        changed = _read_place(shop, k, words, adv(c.run, first))
        s = adv(words, PW * k)
        if reader[FAILED] or not is_position(s):
            reader[FAILED] = 1
            return
        back = int64(data[rows + k + size * REFERENCE])
        base = adv(words, PW * (k - back)) if back else shop.start
        s[KEY] = base[KEY] ^ _meta_key(T, base) ^ _meta_key(T, s)
        s[KEY] ^= _men_key(T, base, changed) ^ _men_key(T, s, changed)
        _read_fields(shop, c, first + k, k)
    _read_edges(shop, c, c.edge_offsets[first], edges_in(header), int64(0))


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
      workshop: of this thread.
      data: stored blocks, then `PADDING` bytes. ends: `[blocks]` end of each block in `data`.
      slots: `[blocks]` the slot of the dictionaries of each, NONE or UNKNOWN.
      c: room for the contents that the headers of the blocks state; filled.
      counts: `[blocks]` filled with the records of each, or -(why it is refused).
    """
    shop, reader = workshop, workshop.reader
    at = i = int64(0)
    for b in range(len(ends)):
        why = open_block(shop, ptr(data, 0), at, ends[b], slots[b])
        at = ends[b]
        if why == 0:
            _copy_block(ptr(T, 0), shop, c, i)
            why = NO_RECORDS * reader[FAILED]
        counts[b] = -why if why else records_in(reader[HEAD])
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
      words: `[10 K]` positions. asked: the indices of those to look for, block by block.
      firsts: `[blocks + 1]` index in `asked` of the first position of each block.
      hits, c: room for all of `asked`, filled with the places in it and the records that are found.
      refused: `[blocks]` filled: why a block is refused, 0 if it is not; its records are not copied.
    """
    shop, reader = workshop, workshop.reader
    at = found = int64(0)
    for b in range(len(ends)):
        refused[b] = open_block(shop, ptr(data, 0), at, ends[b], slots[b])
        at = ends[b]
        before, known = found, int64(0)
        for i in range(firsts[b], firsts[b + 1]):
            if refused[b]:
                break
            is_there, known = find_record(shop, known, ptr(words, PW * asked[i]), c, found)
            if is_there:
                hits[found] = i
                found += 1
            if reader[FAILED]:
                refused[b], found = NO_RECORDS, before
    return found


# ------------------------------------------------------------------ soundness
SOUND, ILLEGAL, KIND, PRIORS, RESULT, INTERVAL, EVALUATOR, MORE_EDGES, VALUE, EDGE_VALUE = range(10)
EDGE_PROOF, EDGE_COUNTS, EDGE_EMPTY = range(EDGE_VALUE + 1, EDGE_VALUE + 4)

Fault: TypeAlias = tuple[int64, int64]  # its number, and the expected number or the index of the edge


@inner
def _fault_of_bounds(flags: int64, kind: int64) -> int64:
    """Returns RESULT if the bounds of a finished game are not its result, INTERVAL if others are none."""
    lower, upper = record.lower_in(flags), record.upper_in(flags)
    if kind:
        return int64(SOUND) if lower == upper == (-1 if kind == 1 else 0) else int64(RESULT)
    return int64(SOUND) if lower <= upper <= 1 else int64(INTERVAL)


@inner
def _is_value(q: float32, d: int64) -> bool:
    """Returns whether a value and its draw field are a distribution; d is rounded, by half a unit at most."""
    wide = abs(float(q))
    return wide <= 1.0 and float(record.share_of(q, d)) <= D_SCALE * (1.0 - wide) + 1.0


@inner
def _fault_of_edge(n: uint32, r: uint32, q: float32, d: int64) -> int64:
    """Returns the fault of an edge's numbers."""
    lower, upper = record.bounds_of(q, d)
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
    if not board_kernel.is_legal(T, s):
        return int64(ILLEGAL), int64(0)
    moves = board_kernel.generate_moves(T, s, out)
    flags = int64(c.flags[i])
    kind = board_kernel.kind_of(T, s, moves)
    codes = c.code_offsets[i + 1] - c.code_offsets[i]
    begin, end = c.edge_offsets[i], c.edge_offsets[i + 1]
    if flags & record.KIND_BITS != kind:
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
      columns: decoded records: one king a side, every number in the range of its field.
      places: the records to check. faults: filled with the `Fault` of each.
    """
    moves = zeros(uint16, board_kernel.ROOM)
    found = int64(0)
    for k in range(len(places)):
        i = places[k]
        s = adv(columns.packed, PW * i)
        faults[2 * k], faults[2 * k + 1] = fault_in(ptr(T, 0), s, columns, i, moves)
        found += int64(faults[2 * k] != SOUND)
    return found
