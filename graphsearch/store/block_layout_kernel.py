"""The layout of a block of records, before and after compression, and what its coding shares.

    expanded  header | low parts, of V of each record, then of q of each edge | P codes | columns
    stored    header | bytes of the first frame | low parts | frame of P codes | frame of columns | CRC-32

    header    bits 0-4 records - 1 | 5-17 P codes | 18-30 edges | 31 whether the column R is there
    low part  24 low bits of the value's float32 | 8 low bits of its draws
    columns   all bytes of one kind for all records, or edges, of the block, in the order of the numbers below

`schema/segment.md` is the reference of blocks, `schema/node_record.md` that of the columns.
`block_kernel.py` is the codec.
"""

from __future__ import annotations

import chess

from ..jit.compiler import inner
from ..jit.pointers import ZERO, U, popc
from ..jit.types import Pointer, int64, uint8, uint64
from ..position.board import BISHOPS, BLACK, KINGS, KNIGHTS, PAWNS, QUEENS, ROOKS, WHITE, Position, pack

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

# columns of one byte per record
REFERENCE, EMPTIED, FILLED, META, CLOCK, FLAGS, EVALUATOR, V_HIGH, V_DRAW, MOVES, EDGES = range(11)
FIXED = 11
# of one byte per edge
Q_HIGH, Q_DRAW = 11, 12
BY_EDGE = 2
# of variable length; those from the runs on are varints
EN_PASSANT, CHESS960, EMPTIED_SQUARES, FILLED_SQUARES, MEN, RUN, N, R = range(13, 21)
COLUMNS = 21
assert (REFERENCE, EDGES, Q_HIGH, EN_PASSANT, R) == (0, FIXED - 1, FIXED, FIXED + BY_EDGE, COLUMNS - 1)

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

START = tuple(int(word) for word in pack(chess.Board()))  # the reference of the first record of a block
OK, BAD_POSITION, BAD_FIELD = 0, 1, 2  # whether the format can represent a record


def room_for(blocks: int, records: int, codes: int, edges: int) -> int:
    """Returns the maximum size of expanded blocks in bytes."""
    return HEADER * blocks + (LOW + RECORD_BYTES) * records + codes + (LOW + EDGE_BYTES) * edges


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
    return (records - 1) | (codes << CODES_AT) | (edges << EDGES_AT) | (drawn << DRAWN_AT)


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
        return int64(NO_MAN)
    kind = int64(0)
    while not s[kind] & bit:
        kind += 1
    return kind + 6 if s[BLACK] & bit else kind
