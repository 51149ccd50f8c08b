"""What the codec's kernels share: records as pointers, the header of a block, the men of a position.

columns   the arrays of a `RecordBatch`, flat: `Columns`
header    the first four bytes of a block: `layout.py` has its fields
position  `[10]` uint64 words (`position/board.py`)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import int64

from ...jit.compiler import inner
from ...jit.pointers import ZERO, U, as_u32, popc, ptr
from ...position.words import BISHOPS, BLACK, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE
from . import layout


class Columns(NamedTuple):
    """The arrays of a `RecordBatch`, which the caller keeps alive, in its order; the words are flat."""

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


class ColumnPointers(NamedTuple):
    """Pointers to them, in the same order; `v` and `q`, in [-1, 1], as their bits."""

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
    return ColumnPointers(
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
def header_at(data: Any, at: Any) -> Any:
    """Returns the header of the block that begins at a place of `data`, int64; its bytes are there."""
    return (
        int64(data[at])
        | (int64(data[at + 1]) << 8)
        | (int64(data[at + 2]) << 16)
        | (int64(data[at + 3]) << 24)
    )


@inner
def packed_header(records: Any, codes: Any, edges: Any, drawn: Any) -> Any:
    """Returns a header; `drawn`: 1 if some edge has path draws, else 0."""
    return (
        (records - 1) | (codes << layout.CODES_AT) | (edges << layout.EDGES_AT) | (drawn << layout.DRAWN_AT)
    )


@inner
def records_in(header: Any) -> Any:
    """Returns how many records a block has."""
    return (header & layout.RECORDS_MASK) + 1


@inner
def codes_in(header: Any) -> Any:
    """Returns how many P codes a block has."""
    return (header >> layout.CODES_AT) & layout.CODES_MASK


@inner
def edges_in(header: Any) -> Any:
    """Returns how many edges a block has."""
    return (header >> layout.EDGES_AT) & layout.EDGES_MASK


@inner
def is_drawn(header: Any) -> Any:
    """Returns 1 if a block has the column of path draws, else 0."""
    return header >> layout.DRAWN_AT


@inner
def low_bytes(header: Any) -> Any:
    """Returns how many bytes the low parts of a block take."""
    return layout.LOW * (records_in(header) + edges_in(header))


@inner
def is_position(s: Any) -> Any:
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
def man_at(s: Any, bit: Any) -> Any:
    """Returns the man on a square given as a bit: 0..5 white pawn to king, 6..11 black, NO_MAN."""
    if not (s[WHITE] | s[BLACK]) & bit:
        return int64(layout.NO_MAN)
    kind = int64(0)
    while not s[kind] & bit:
        kind += 1
    return kind + 6 if s[BLACK] & bit else kind
