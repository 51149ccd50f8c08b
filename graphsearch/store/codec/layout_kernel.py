"""The layout of blocks of records that encoding and decoding share.

`schema/segment.md` is the reference of the format. The kernels are in `encoding.py` and `decoding.py`;
`store/codec/records.py` is the same codec without Numba, and tests hold both to the same bytes.
`store/codec/compression.py` compresses what they make.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64

from ...jit.compiler import inner
from ...jit.pointers import ZERO, U, as_u32, popc, ptr

BLOCK = 32  # records of a block
HEADER = 4  # bytes before everything else
LOW = 4  # bytes of a value that stand apart: 24 bits of the float, 8 of the draws
PW = 10  # words of a packed position

# columns of one byte per record
REFERENCE, EMPTIED, FILLED, META, CLOCK, FLAGS, EVALUATOR, V_HIGH, V_DRAW, MOVES, EDGES = range(11)
FIXED = 11
Q_HIGH, Q_DRAW = 0, 1  # columns of one byte per edge, behind those
# columns of any length, behind those; n and r come last
EN_PASSANT, EMPTIED_SQUARES, FILLED_SQUARES, MEN, RUNS = range(5)
VARIABLE = 5
HAS_RUN = 64  # bit of meta: the record's run is not that of its reference
NO_MAN, MEN_KINDS = 12, 13

MAX_MOVES, MAX_DRAW, MAX_CODE, MAX_RUN = 218, 1000, 63, (1 << 20) - 1
MAX_EDGE_DRAW = 1021  # an edge may carry a proof there (`proofs.py`)
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
    run: Any
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
