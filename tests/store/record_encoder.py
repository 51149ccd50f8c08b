"""Records to blocks without Numba, one record at a time: the kernels must write the same bytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

import chess
import numpy as np

from graphsearch.base.errors import CorruptRecordError
from graphsearch.position.values import D_SCALE
from graphsearch.position.words import (
    BLACK,
    BLACK_TO_MOVE,
    CASTLING_BITS,
    CASTLING_SHIFT,
    CHESS960_SHIFT,
    CLOCK_BITS,
    CLOCK_SHIFT,
    EN_PASSANT_BITS,
    EN_PASSANT_SHIFT,
    META,
    META_BITS,
    WHITE,
)
from graphsearch.store.codec import layout
from graphsearch.store.codec.compression import Dictionaries, Header, sampled
from graphsearch.store.codec.layout import FRAME_START, HEADER
from graphsearch.store.codec.records import is_position, man_at
from graphsearch.store.record.bounds import MOST_CODE
from graphsearch.store.record.node import MAX_CODE, MAX_MOVES, MAX_RUN, Edge, NodeRecord

_U64 = (1 << 64) - 1

Words = tuple[int, ...]


def changed_squares(a: Sequence[int], b: Sequence[int]) -> int:
    """Returns the squares whose man differs, as a bitboard."""
    changed = 0
    for x, y in zip(a[:8], b[:8], strict=True):
        changed |= x ^ y
    return changed


def encode_blocks(records: Sequence[NodeRecord]) -> tuple[Dictionaries, list[bytes]]:
    """Returns the dictionaries and the blocks (with checksums) of the records of one chunk, in their order.

    Raises:
      CorruptRecordError: if a record has no place in the format.
    """
    plain = [encode_block(records[k : k + layout.BLOCK], k) for k in range(0, len(records), layout.BLOCK)]
    dictionaries = Dictionaries.train([plain[i] for i in sampled(len(plain))])
    return dictionaries, seal(dictionaries, plain)


def encode_block(records: Sequence[NodeRecord], first: int = 0) -> bytes:
    """Returns a block before compression; `first` is the number of its first record in messages."""
    for i, record in enumerate(records, first):
        _check_fits(i, record)
    edges = [edge for record in records for edge in record.edges]
    codes = b"".join(record.codes for record in records)
    drawn = any(edge.r for edge in edges)
    header = Header(len(records), len(codes), len(edges), drawn=drawn).to_bytes()
    values = [(record.v, record.d) for record in records] + [(edge.q, edge.d) for edge in edges]
    low = b"".join(struct.pack("<I", _float_bits(x) & layout.FRACTION | (d & 255) << 24) for x, d in values)
    return header + low + codes + _columns(records, edges, drawn=drawn)


def _check_fits(i: int, record: NodeRecord) -> None:
    meta = record.words[META]
    most_draws = max((edge.d for edge in record.edges), default=0)
    moves = len(record.codes)
    if not is_position(record.words) or meta >> META_BITS or meta >> EN_PASSANT_SHIFT & EN_PASSANT_BITS > 64:
        raise CorruptRecordError(f"record {i} of the batch has an impossible position")
    if record.d > D_SCALE or most_draws > MOST_CODE or not 0 <= record.run <= MAX_RUN:
        raise CorruptRecordError(f"record {i} of the batch has a field out of range")
    if not len(record.edges) <= moves <= MAX_MOVES:
        raise CorruptRecordError(f"record {i} of the batch has a field out of range")
    if any(not abs(x) <= 1.0 for x in (record.v, *(edge.q for edge in record.edges))):
        raise CorruptRecordError(f"record {i} of the batch has a value outside [-1, 1]")
    if any(not 1 <= code <= MAX_CODE for code in record.codes):
        raise CorruptRecordError(f"record {i} of the batch has a field out of range")


def _columns(records: Sequence[NodeRecord], edges: Sequence[Edge], *, drawn: bool) -> bytes:
    columns = [bytearray() for _ in range(layout.COLUMNS)]
    for i, record in enumerate(records):
        base, run = layout.START, 0
        columns[layout.REFERENCE].append(0)
        if i:
            j = min(range(i), key=lambda j: (changed_squares(record.words, records[j].words).bit_count(), -j))
            columns[layout.REFERENCE][-1] = i - j
            base, run = records[j].words, records[j].run
        _append_position(columns, record.words, base)
        if record.run != run:
            columns[layout.META][-1] |= layout.HAS_RUN
            columns[layout.RUN] += _varint(record.run)
        columns[layout.FLAGS].append(record.flags)
        columns[layout.EVALUATOR].append(record.evaluator)
        columns[layout.V_HIGH].append(_float_bits(record.v) >> 24)
        columns[layout.V_DRAW].append(record.d >> 8)
        columns[layout.MOVES].append(len(record.codes))
        columns[layout.EDGES].append(len(record.edges))
    columns[layout.Q_HIGH] += bytes(_float_bits(edge.q) >> 24 for edge in edges)
    columns[layout.Q_DRAW] += bytes(edge.d >> 8 for edge in edges)
    columns[layout.N] += b"".join(_varint(edge.n) for edge in edges)
    columns[layout.R] += b"".join(_varint(edge.r) for edge in edges if drawn)
    return b"".join(columns)


def _append_position(columns: list[bytearray], words: Words, base: Words) -> None:
    changed = changed_squares(words, base)
    men = words[WHITE] | words[BLACK]
    emptied, filled = (list(chess.scan_forward(changed & mask)) for mask in (~men & _U64, men))
    columns[layout.EMPTIED].append(len(emptied))
    columns[layout.FILLED].append(len(filled))
    columns[layout.EMPTIED_SQUARES] += _gaps(emptied)
    columns[layout.FILLED_SQUARES] += _gaps(filled)
    for k, square in enumerate(filled):
        left = man_at(base, emptied[k]) if k < len(emptied) else layout.NO_MAN
        columns[layout.MEN].append((man_at(words, square) - left) % layout.MEN_KINDS)
    meta = words[META]
    ep = meta >> EN_PASSANT_SHIFT & EN_PASSANT_BITS
    other = (meta ^ base[META]) >> CHESS960_SHIFT
    columns[layout.META].append(
        ((meta ^ base[META]) >> CASTLING_SHIFT & CASTLING_BITS) << layout.META_CASTLING_AT
        | (meta & BLACK_TO_MOVE) << layout.META_BLACK_AT
        | (layout.HAS_EN_PASSANT if ep else 0)
        | (layout.HAS_CHESS960 if other else 0)
    )
    columns[layout.EN_PASSANT] += bytes([ep - 1]) if ep else b""
    columns[layout.CHESS960] += other.to_bytes(layout.CHESS960_BYTES, "little") if other else b""
    columns[layout.CLOCK].append(meta >> CLOCK_SHIFT & CLOCK_BITS)


def _gaps(squares: Sequence[int]) -> bytes:
    """Returns how many squares are skipped before each one."""
    return bytes(b - a - 1 for a, b in pairwise([-1, *squares]))


def _varint(x: int) -> bytes:
    """Returns an unsigned number in groups of 7 bits, lowest first; bit 7: more follow."""
    out = bytearray()
    while x > 127:
        out.append(x & 127 | 128)
        x >>= 7
    out.append(x)
    return bytes(out)


def _float_bits(x: float) -> int:
    return int.from_bytes(np.float32(x).tobytes(), "little")


def seal(dictionaries: Dictionaries, blocks: Sequence[bytes]) -> list[bytes]:
    """Returns blocks compressed, each with its checksum; `packing_kernel.py` does so in bulk."""
    parts = []
    for block in blocks:
        codes, columns = Header.of(block).parts()
        parts.append((block[:codes], block[codes:columns], block[columns:]))
    frames = dictionaries.frames([part[1] for part in parts], [part[2] for part in parts])
    sealed = []
    for (low, _, _), first_frame, second_frame in zip(parts, frames[::2], frames[1::2], strict=True):
        first, second = (frame[len(FRAME_START) :] for frame in (first_frame, second_frame))
        length = struct.pack("<H", len(first))
        sealed.append(with_checksum(low[:HEADER] + length + low[HEADER:] + first + second))
    return sealed


def with_checksum(data: bytes) -> bytes:
    """Returns the bytes with their CRC-32 behind them."""
    return data + struct.pack("<I", zlib.crc32(data))
