"""Shared by the codec's kernels: records as pointers, block headers, men, and numbers read from a block.

columns   the arrays of a `RecordBatch`, flat: `Columns`
header    the first four bytes of a block: `layout.py` has its fields
position  `[10]` uint64 words (`position/board.py`)
reader    `[READER]` int64; from EN_PASSANT on: offset of the next byte of each variable-length column
          (NUMBERS: of the varints, those of N and R included); END: end of the block; FAILED: 1 after an
          unsound value
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner
from ...jit.pointers import ONE, ZERO, U, as_u32, popc, ptr
from ...jit.types import Pointer, int64, uint8, uint16, uint32, uint64
from ...position.words import BISHOPS, BLACK, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE, Position
from . import layout

Bytes: TypeAlias = Pointer[uint8]  # of a block


class Columns(NamedTuple):
    """The arrays of a `RecordBatch`, in its order, words flat; the caller keeps them alive."""

    words: NDArray[np.uint64]
    v: NDArray[np.float32]
    d: NDArray[np.uint16]
    evaluator: NDArray[np.uint8]
    run: NDArray[np.uint32]
    flags: NDArray[np.uint8]
    code_offsets: NDArray[np.int64]
    codes: NDArray[np.uint8]
    edge_offsets: NDArray[np.int64]
    n: NDArray[np.uint32]
    r: NDArray[np.uint32]
    q: NDArray[np.float32]
    edge_d: NDArray[np.uint16]


class Records(NamedTuple):
    """Pointers to `Columns`, in the same order; `v` and `q`, in [-1, 1], as their bits."""

    words: Pointer[uint64]
    v: Pointer[uint32]
    d: Pointer[uint16]
    evaluator: Pointer[uint8]
    run: Pointer[uint32]
    flags: Pointer[uint8]
    code_offsets: Pointer[int64]
    codes: Pointer[uint8]
    edge_offsets: Pointer[int64]
    n: Pointer[uint32]
    r: Pointer[uint32]
    q: Pointer[uint32]
    edge_d: Pointer[uint16]


@inner
def pointers(c: Columns) -> Records:
    """Returns pointers to the columns, values in [-1, 1] as their bits."""
    return Records(
        ptr(c.words, 0),
        as_u32(ptr(c.v, 0)),
        ptr(c.d, 0),
        ptr(c.evaluator, 0),
        ptr(c.run, 0),
        ptr(c.flags, 0),
        ptr(c.code_offsets, 0),
        ptr(c.codes, 0),
        ptr(c.edge_offsets, 0),
        ptr(c.n, 0),
        ptr(c.r, 0),
        as_u32(ptr(c.q, 0)),
        ptr(c.edge_d, 0),
    )


@inner
def header_at(data: Pointer[uint8], at: int64) -> int64:
    """Returns the header of the block at offset `at` of `data`, int64; the caller has checked the length."""
    return (
        int64(data[at])
        | (int64(data[at + 1]) << 8)
        | (int64(data[at + 2]) << 16)
        | (int64(data[at + 3]) << 24)
    )


@inner
def packed_header(records: int64, codes: int64, edges: int64, drawn: int64) -> int64:
    """Returns a header; `drawn`: 1 if some edge has path draws, else 0."""
    return (
        (records - 1) | (codes << layout.CODES_AT) | (edges << layout.EDGES_AT) | (drawn << layout.DRAWN_AT)
    )


@inner
def records_in(header: int64) -> int64:
    """Returns how many records a block has."""
    return (header & layout.RECORDS_MASK) + 1


@inner
def codes_in(header: int64) -> int64:
    """Returns how many P codes a block has."""
    return (header >> layout.CODES_AT) & layout.CODES_MASK


@inner
def edges_in(header: int64) -> int64:
    """Returns how many edges a block has."""
    return (header >> layout.EDGES_AT) & layout.EDGES_MASK


@inner
def is_drawn(header: int64) -> int64:
    """Returns 1 if a block has the column of path draws, else 0."""
    return header >> layout.DRAWN_AT


@inner
def low_bytes(header: int64) -> int64:
    """Returns the size of a block's low parts in bytes."""
    return layout.LOW * (records_in(header) + edges_in(header))


@inner
def is_position(s: Position) -> bool:
    """Returns whether each man has one kind and colour, and the numbers of men are those of chess."""
    men = s[WHITE] | s[BLACK]
    kinds = s[PAWNS] | s[KNIGHTS] | s[BISHOPS] | s[ROOKS] | s[QUEENS] | s[KINGS]
    total = (
        popc(s[PAWNS])
        + popc(s[KNIGHTS])
        + popc(s[BISHOPS])
        + popc(s[ROOKS])
        + popc(s[QUEENS])
        + popc(s[KINGS])
    )
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
        return int64(layout.NO_MAN)
    kind = int64(0)
    while not s[kind] & bit:
        kind += 1
    return kind + 6 if s[BLACK] & bit else kind


# ------------------------------------------------------------------ single numbers from a block
NUMBERS, END, FAILED, READER = layout.RUN, layout.RUN + 1, layout.RUN + 2, layout.RUN + 3
Reader: TypeAlias = Pointer[int64]  # [READER]: offset of each column's next byte, and these


@inner
def next_byte(data: Bytes, reader: Reader, column: int64) -> int64:
    """Returns the next byte of a variable-length column; the caller has checked the column's end."""
    at = reader[column]
    reader[column] = at + 1
    return int64(data[at])


@inner
def read_varint(data: Bytes, reader: Reader) -> int64:
    """Returns the next varint, at most 32 bits."""
    x = int64(0)
    for shift in range(0, 35, 7):
        at = reader[NUMBERS]
        if at >= reader[END]:
            break
        reader[NUMBERS] = at + 1
        byte = int64(data[at])
        x |= (byte & 127) << shift
        if byte < 128 and x >> 32 == 0:
            return x
    reader[FAILED] = 1
    return int64(0)


@inner
def read_float(reader: Reader, data: Bytes, low: int64, high: uint8) -> uint32:
    """Returns the bits of a value in [-1, 1] from three low bytes and a high one."""
    bits = int64(data[low]) | (int64(data[low + 1]) << 8) | (int64(data[low + 2]) << 16) | (int64(high) << 24)
    if bits & layout.MAGNITUDE > layout.UNIT:
        reader[FAILED] = 1
    return uint32(bits)


@inner
def read_draw(reader: Reader, low: uint8, high: uint8, most: int64) -> uint16:
    """Returns a draw field from its two bytes; it fails above `most`."""
    d = int64(low) | (int64(high) << 8)
    if d > most:
        reader[FAILED] = 1
    return uint16(d)


@inner
def read_squares(data: Bytes, reader: Reader, column: int64, count: int64) -> uint64:
    """Returns a set of squares; each byte is the number of squares skipped before one."""
    squares = ZERO
    square = int64(-1)
    for _ in range(count):
        square += 1 + next_byte(data, reader, column)
        if square > 63:
            reader[FAILED] = 1
            return ZERO
        squares |= ONE << U(square)
    return squares
