"""The layout of blocks of records that encoding and decoding share.

`schema/segment.md` is the reference of the format. The kernels are in `encoding.py` and `decoding.py`;
`graphsearch/store/codec.py` is the same codec without Numba, and tests hold both to the same bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64

from .jit import ZERO, U, as_u32, inner, popc, ptr

BLOCK = 32  # records of a block
HEADER = 4  # bytes before the bit stream of a block
PW = 10  # words of a packed position
LIMIT = 11  # longest Huffman code
SLOTS = 1 << LIMIT  # entries of one table of the decoder
UNUSED = 15 << 8  # decoder entry that no code reaches

# Huffman tables; where one has contexts, the context is added to it
REF, EMPTIED, EMPTIED_FIRST, EMPTIED_NEXT = 0, 1, 2, 3
FILLED, FILLED_FIRST, FILLED_NEXT, PIECE = 4, 5, 6, 7  # PIECE + piece that left (12 none)
META, CLOCK, FLAGS, EVALUATOR, V_HIGH, V_DRAW, MOVES, EDGES = 20, 21, 22, 23, 24, 25, 26, 27
N_BITS = 28  # + bit length of the edge before, 33 for the first
Q_HIGH, Q_DRAW, R_BITS, PRIOR = 62, 63, 64, 65  # PRIOR + 9 * moves bucket + code bucket
TABLES = PRIOR + 8 * 9
RAW = 224  # + width; above every table

MAX_MOVES, MAX_DRAW, MAX_CODE = 218, 1000, 63
MAGNITUDE, UNIT = 0x7FFFFFFF, 0x3F800000  # of a float32: all but the sign; 1.0
OK, BAD_POSITION, BAD_FIELD = 0, 1, 2

START = np.array(
    [
        0x00FF00000000FF00,
        0x4200000000000042,
        0x2400000000000024,
        0x8100000000000081,
        0x0800000000000008,
        0x1000000000000010,
        0x000000000000FFFF,
        0xFFFF000000000000,
        0x1E,
        0x463B96181691FC9C,
    ],
    np.uint64,
)


class Columns(NamedTuple):
    """The arrays of a RecordBatch (see `record.py`), in its order."""

    words: Any
    v: Any
    d: Any
    evaluator: Any
    flags: Any
    code_offsets: Any
    codes: Any
    edge_offsets: Any
    n: Any
    r: Any
    q: Any
    edge_d: Any


@inner
def pointers(c: Any) -> Any:
    """Returns pointers to the columns, values in [-1, 1] as their bits."""
    return Columns(
        ptr(c.words, 0),
        as_u32(ptr(c.v, 0)),
        ptr(c.d, 0),
        ptr(c.evaluator, 0),
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
def is_position(s: Any) -> Any:
    """Returns whether each man has one kind and colour, and the numbers of men are those of chess."""
    men = s[6] | s[7]
    kinds = s[0] | s[1] | s[2] | s[3] | s[4] | s[5]
    total = popc(s[0]) + popc(s[1]) + popc(s[2]) + popc(s[3]) + popc(s[4]) + popc(s[5])
    if kinds != men or total != popc(men) or s[6] & s[7] != ZERO:
        return False
    for side in range(6, 8):
        if popc(s[side]) > 16 or popc(s[0] & s[side]) > 8 or popc(s[5] & s[side]) != 1:
            return False
    return s[0] & U(0xFF000000000000FF) == ZERO


@inner
def man_at(s: Any, bit: Any) -> Any:
    """Returns the man on a square given as a bit: 0..5 white pawn to king, 6..11 black, 12 none."""
    if not (s[6] | s[7]) & bit:
        return int64(12)
    kind = int64(0)
    while not s[kind] & bit:
        kind += 1
    return kind + 6 if s[7] & bit else kind


@inner
def bit_length(x: Any) -> Any:
    """Returns the number of bits of an unsigned integer, 0 for 0."""
    n = int64(0)
    while x:
        x >>= U(1)
        n += 1
    return n
