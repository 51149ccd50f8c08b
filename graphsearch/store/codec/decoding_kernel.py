"""Decodes blocks into records, in bulk: any bytes decode or are reported, without access out of bounds.

`layout.py` has the layout of a block. While a block is read:

    rows    its columns of one byte per record: row of record k, column c at `rows[k + records * c]`
    reader  offsets of the next bytes of its variable-length columns (`batch_kernel.py`)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import ONE, ZERO, U, adv, ctz, ptr, zeros
from ...jit.types import Pointer, int64, uint8, uint32, uint64
from ...position.board_kernel import PW
from ...position.tables import ZC, ZO
from ...position.values import D_SCALE
from ...position.words import (
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
    META,
    WHITE,
    BoardTable,
    Position,
)
from ..record.bounds import MOST_CODE
from ..record.node import MAX_CODE, MAX_MOVES, MAX_RUN
from . import layout
from .batch_kernel import (
    END,
    FAILED,
    NUMBERS,
    READER,
    Bytes,
    Columns,
    Reader,
    Records,
    codes_in,
    edges_in,
    header_at,
    is_drawn,
    is_position,
    low_bytes,
    man_at,
    next_byte,
    pointers,
    read_draw,
    read_float,
    read_squares,
    read_varint,
    records_in,
)


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
    key = T[ZC + ((meta >> CASTLING_SHIFT) & CASTLING_BITS)]
    ep = (meta >> EN_PASSANT_SHIFT) & EN_PASSANT_BITS
    if ep:
        key ^= T[ZO + 772 + ((ep - 1) & 7)]
    return key if meta & BLACK_TO_MOVE else key ^ T[ZO + 780]


@inner
def _men(data: Bytes, reader: Reader, s: Position, base: Position, emptied: uint64, filled: uint64) -> None:
    """Puts the men on the filled squares."""
    while filled:
        man = man_at(base, emptied & (~emptied + ONE)) if emptied else int64(layout.NO_MAN)
        emptied &= emptied - ONE
        x = next_byte(data, reader, int64(layout.MEN))
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
    castling = ((x >> layout.META_CASTLING_AT) ^ (int64(base) >> CASTLING_SHIFT)) & CASTLING_BITS
    meta = (x >> layout.META_BLACK_AT) & BLACK_TO_MOVE
    meta |= (castling << CASTLING_SHIFT) | (clock << CLOCK_SHIFT)
    other = base >> U(CHESS960_SHIFT)
    if x & layout.HAS_CHESS960:
        low = next_byte(data, reader, int64(layout.CHESS960))
        difference = low | next_byte(data, reader, int64(layout.CHESS960)) << 8
        if difference > CHESS960_BITS:
            reader[FAILED] = 1
        other ^= U(difference & CHESS960_BITS)
    meta |= int64(other) << CHESS960_SHIFT
    if x & layout.HAS_EN_PASSANT:
        square = next_byte(data, reader, int64(layout.EN_PASSANT))
        if square > 63:
            reader[FAILED] = 1
        meta |= ((square & 63) + 1) << EN_PASSANT_SHIFT
    return meta


@inner
def read_board(data: Bytes, reader: Reader, row: Bytes, size: int64, s: Position, base: Position) -> uint64:
    """Reads the men of a position encoded against `base` into `s`; returns the squares that changed."""
    emptied = read_squares(data, reader, int64(layout.EMPTIED_SQUARES), int64(row[size * layout.EMPTIED]))
    filled = read_squares(data, reader, int64(layout.FILLED_SQUARES), int64(row[size * layout.FILLED]))
    for w in range(8):
        s[w] = base[w] & ~(emptied | filled)
    if not reader[FAILED]:
        _men(data, reader, s, base, emptied, filled)
    return emptied | filled


@inner
def read_meta(data: Bytes, reader: Reader, row: Bytes, size: int64, base: Position) -> int64:
    """Returns the meta word of a position encoded against `base`."""
    return _meta(data, reader, int64(row[size * layout.META]), int64(row[size * layout.CLOCK]), base[META])


@inner
def _position(
    T: BoardTable, data: Bytes, reader: Reader, row: Bytes, size: int64, s: Position, base: Position
) -> None:
    """Reads a position encoded against `base` into `s`, key included."""
    changed = read_board(data, reader, row, size, s, base)
    if reader[FAILED]:
        return
    meta = read_meta(data, reader, row, size, base)
    if not is_position(s):
        reader[FAILED] = 1
        return
    s[META] = U(meta)
    s[KEY] = base[KEY] ^ _meta_key(T, int64(base[META])) ^ _meta_key(T, meta)
    s[KEY] ^= _men_key(T, base, changed) ^ _men_key(T, s, changed)


@inner
def open_block(data: Bytes, reader: Reader, at: int64, header: int64) -> int64:
    """Sets the offsets of the variable-length columns; returns where the rows of the block at `at` begin.

    Sets FAILED if a column ends beyond the block.
    """
    size, codes, edges = records_in(header), codes_in(header), edges_in(header)
    rows = at + layout.HEADER + low_bytes(header) + codes
    if rows + layout.FIXED * size + layout.BY_EDGE * edges > reader[END]:
        reader[FAILED] = 1
        return rows
    moves = int64(0)
    visited = int64(0)
    ep = int64(0)
    other = int64(0)
    emptied = int64(0)
    filled = int64(0)
    for k in range(rows, rows + size):
        moves += int64(data[k + size * layout.MOVES])
        visited += int64(data[k + size * layout.EDGES])
        ep += int64(data[k + size * layout.META]) & layout.HAS_EN_PASSANT
        other += int64(data[k + size * layout.META]) // layout.HAS_CHESS960
        emptied += int64(data[k + size * layout.EMPTIED])
        filled += int64(data[k + size * layout.FILLED])
    reader[layout.EN_PASSANT] = rows + layout.FIXED * size + layout.BY_EDGE * edges
    reader[layout.CHESS960] = reader[layout.EN_PASSANT] + ep
    reader[layout.EMPTIED_SQUARES] = reader[layout.CHESS960] + layout.CHESS960_BYTES * other
    reader[layout.FILLED_SQUARES] = reader[layout.EMPTIED_SQUARES] + emptied
    reader[layout.MEN] = reader[layout.FILLED_SQUARES] + filled
    reader[NUMBERS] = reader[layout.MEN] + filled
    if moves != codes or visited != edges or reader[NUMBERS] > reader[END]:
        reader[FAILED] = 1
    return rows


@inner
def read_codes(reader: Reader, data: Bytes, at: int64, out: Bytes, n: int64) -> None:
    """Copies `n` P codes; sets FAILED if one is out of range."""
    wrong = int64(0)
    for j in range(n):
        code = int64(data[at + j])
        wrong |= 1 if code < 1 or code > MAX_CODE else 0
        out[j] = uint8(code)
    if wrong:
        reader[FAILED] = 1


@inner
def read_values(
    data: Bytes, reader: Reader, c: Records, first: int64, n: int64, low: int64, high: int64, edges: int64
) -> None:
    """Reads q and draws of `n` of the `edges` edges of a block into the columns from edge `first` on.

    Args:
      low, high: where their low parts and the high bytes of their values begin.
    """
    for e in range(n):
        c.q[first + e] = read_float(reader, data, low + layout.LOW * e, data[high + e])
        c.edge_d[first + e] = read_draw(
            reader, data[low + layout.LOW * e + layout.LOW_DRAW], data[high + edges + e], int64(MOST_CODE)
        )


@inner
def read_counts(data: Bytes, reader: Reader, out: Pointer[uint32], n: int64) -> None:
    """Reads `n` counts."""
    for e in range(n):
        out[e] = uint32(read_varint(data, reader))


@inner
def skip_counts(data: Bytes, reader: Reader, n: int64) -> None:
    """Skips `n` counts."""
    for _ in range(n):
        read_varint(data, reader)


@inner
def _edges(
    data: Bytes, reader: Reader, c: Records, first: int64, n: int64, low: int64, high: int64, drawn: int64
) -> None:
    read_values(data, reader, c, first, n, low, high, n)
    read_counts(data, reader, adv(c.n, first), n)
    if drawn:
        read_counts(data, reader, adv(c.r, first), n)
    else:
        for e in range(first, first + n):
            c.r[e] = uint32(0)


@inner
def read_fields(
    data: Bytes, reader: Reader, c: Records, i: int64, row: Bytes, size: int64, low: int64
) -> None:
    """Reads the one-byte fields, V and its draws into place `i`; `low`: offset of the record's low part."""
    c.flags[i] = row[size * layout.FLAGS]
    c.evaluator[i] = row[size * layout.EVALUATOR]
    c.v[i] = read_float(reader, data, low, row[size * layout.V_HIGH])
    c.d[i] = read_draw(reader, data[low + layout.LOW_DRAW], row[size * layout.V_DRAW], int64(D_SCALE))


@inner
def read_run(data: Bytes, reader: Reader, meta: int64, base: uint32) -> uint32:
    """Returns a record's run: its own if it has one, else its reference's, `base`."""
    run = read_varint(data, reader) if meta & layout.HAS_RUN else int64(base)
    if run > MAX_RUN:
        reader[FAILED] = 1
    return uint32(run)


@inner
def _records(
    T: BoardTable,
    data: Bytes,
    reader: Reader,
    c: Records,
    first: int64,
    size: int64,
    low: int64,
    rows: int64,
    start: Position,
) -> None:
    """Reads the records of a block, except their P codes and edges."""
    for k in range(size):
        i = first + k
        row = adv(data, rows + k)
        back = int64(row[size * layout.REFERENCE])
        moves = int64(row[size * layout.MOVES])
        edges = int64(row[size * layout.EDGES])
        if back > k or moves > MAX_MOVES or edges > moves:
            reader[FAILED] = 1
            return
        base = adv(c.words, PW * (i - back)) if back else start
        _position(T, data, reader, row, size, adv(c.words, PW * i), base)
        if reader[FAILED]:
            return
        read_fields(data, reader, c, i, row, size, low + layout.LOW * k)
        c.run[i] = read_run(
            data, reader, int64(row[size * layout.META]), c.run[i - back] if back else uint32(0)
        )
        c.code_offsets[i + 1] = c.code_offsets[i] + moves
        c.edge_offsets[i + 1] = c.edge_offsets[i] + edges


@inner
def decode_block(
    T: BoardTable,
    data: Bytes,
    reader: Reader,
    c: Records,
    first: int64,
    at: int64,
    header: int64,
    start: Position,
) -> None:
    """Reads one block into the columns from record `first` on; sets FAILED if the block is unsound."""
    size, codes, edges = records_in(header), codes_in(header), edges_in(header)
    low = at + layout.HEADER
    rows = open_block(data, reader, at, header)
    if reader[FAILED]:
        return
    read_codes(reader, data, rows - codes, adv(c.codes, c.code_offsets[first]), codes)
    _records(T, data, reader, c, first, size, low, rows, start)
    if reader[FAILED]:
        return
    high = rows + layout.FIXED * size
    _edges(data, reader, c, c.edge_offsets[first], edges, low + layout.LOW * size, high, is_drawn(header))
    if reader[NUMBERS] != reader[END]:
        reader[FAILED] = 1


@kernel
def decode(
    T: NDArray[np.uint64],
    data: NDArray[np.uint8],
    ends: NDArray[np.int64],
    start: NDArray[np.uint64],
    columns: Columns,
    first: int64,
) -> int64:
    """Decodes blocks into columns from record `first` on.

    Args:
      T: the table of `position/tables.py`.
      data: uint8, uncompressed blocks, concatenated.
      ends: `[blocks]` int64, end of each block in `data`.
      start: as in `encode`.
      columns: `Columns` with room for the contents that the headers state; the offsets at `first` are set.

    Returns:
      the index of the first unsound block, or the number of blocks.
    """
    c = pointers(columns)
    reader = zeros(int64, READER)
    at = int64(0)
    i = first
    for b in range(len(ends)):
        if ends[b] - at < layout.HEADER:
            return int64(b)
        header = header_at(ptr(data, 0), at)
        reader[END] = ends[b]
        reader[FAILED] = 0
        decode_block(ptr(T, 0), ptr(data, 0), reader, c, i, at, header, ptr(start, 0))
        if reader[FAILED]:
            return int64(b)
        i += records_in(header)
        at = ends[b]
    return int64(len(ends))
