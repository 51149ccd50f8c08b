"""Single numbers out of a block, and how far each of its columns is read; `layout.py` says what stands where.

reader  `[READER]` int64; from EN_PASSANT on: where the next byte of each column of any length stands
        (NUMBERS: of the varints, those of N and R included); END: where the block ends; FAILED: 1 once
        something is not sound
"""

from __future__ import annotations

from typing import TypeAlias

from ...jit.compiler import inner
from ...jit.pointers import ONE, ZERO, U
from ...jit.types import Pointer, int64, uint8, uint16, uint32, uint64
from . import layout
from .batch_kernel import Bytes

NUMBERS, END, FAILED, READER = layout.RUN, layout.RUN + 1, layout.RUN + 2, layout.RUN + 3
Reader: TypeAlias = Pointer[int64]  # [READER]: where each column goes on, and these


@inner
def next_byte(data: Bytes, reader: Reader, column: int64) -> int64:
    """Returns the next byte of a column of any length; its end has been checked."""
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
    """Returns the bits of a value in [-1, 1], of three low bytes and a high one."""
    bits = int64(data[low]) | (int64(data[low + 1]) << 8) | (int64(data[low + 2]) << 16) | (int64(high) << 24)
    if bits & layout.MAGNITUDE > layout.UNIT:
        reader[FAILED] = 1
    return uint32(bits)


@inner
def read_draw(reader: Reader, low: uint8, high: uint8, most: int64) -> uint16:
    """Returns a draw share of two bytes."""
    d = int64(low) | (int64(high) << 8)
    if d > most:
        reader[FAILED] = 1
    return uint16(d)


@inner
def read_squares(data: Bytes, reader: Reader, column: int64, count: int64) -> uint64:
    """Returns squares, each told by its distance from the one before."""
    squares = ZERO
    square = int64(-1)
    for _ in range(count):
        square += 1 + next_byte(data, reader, column)
        if square > 63:
            reader[FAILED] = 1
            return ZERO
        squares |= ONE << U(square)
    return squares
