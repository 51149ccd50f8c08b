"""The block codec without Numba: records to blocks and back, one symbol at a time.

`schema/segment.md` is the reference of the format. `graphsearch/kernels/codec.py` does the same in bulk and
must agree byte for byte; this one serves single reads and is its oracle.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence

import chess
import chess.polyglot
import numpy as np

from ..errors import CorruptRecordError
from ..position import pack
from ..record import MAX_CODE, MAX_MOVES, Edge, NodeRecord
from ..values import D_SCALE
from .huffman import LIMIT, SINGLE, SYMBOLS, TABLES, CodeBook

BLOCK = 32  # records of a block
HEADER_BYTES = 4  # records - 1: 5 bits, P codes: 13, edges: 13, any r: 1
CHECKSUM_BYTES = 4  # CRC-32 of everything before it
OVERHEAD = HEADER_BYTES + CHECKSUM_BYTES

REF, EMPTIED, FILLED, PIECE = 0, 1, 4, 7
META, CLOCK, FLAGS, EVALUATOR, V_HIGH, V_DRAW, MOVES, EDGES = 20, 21, 22, 23, 24, 25, 26, 27
N_BITS, Q_HIGH, Q_DRAW, R_BITS, PRIOR = 28, 62, 63, 64, 65
NO_MAN, NO_EDGE = 12, 33
RAW = 224
assert PRIOR + 8 * 9 == TABLES

START = tuple(int(word) for word in pack(chess.Board()))
_U64 = (1 << 64) - 1
_UNIT = 0x3F800000  # bits of 1.0 in float32

Words = tuple[int, ...]
Token = tuple[int, int]  # table and symbol, or RAW + width and bits


def seal(payload: bytes) -> bytes:
    """Returns a block: header and bits, then their CRC-32."""
    return payload + struct.pack("<I", zlib.crc32(payload))


def unseal(block: bytes) -> bytes:
    """Returns header and bits of a block.

    Raises:
      CorruptRecordError: if the block is too short or its checksum is wrong.
    """
    if len(block) < OVERHEAD:
        raise CorruptRecordError(f"a block of {len(block)} bytes instead of at least {OVERHEAD}")
    found = int.from_bytes(block[-CHECKSUM_BYTES:], "little")
    expected = zlib.crc32(memoryview(block)[:-CHECKSUM_BYTES])
    if found != expected:
        raise CorruptRecordError(f"checksum {found:08x} instead of {expected:08x}")
    return block[:-CHECKSUM_BYTES]


def is_position(words: Sequence[int]) -> bool:
    """Returns whether each man has one kind and colour, and the numbers of men are those of chess."""
    white, black = words[6], words[7]
    kinds = 0
    for kind in words[:6]:
        if kinds & kind:
            return False
        kinds |= kind
    if kinds != white | black or white & black or words[0] & 0xFF000000000000FF:
        return False
    return all(
        side.bit_count() <= 16 and (words[0] & side).bit_count() <= 8 and (words[5] & side).bit_count() == 1
        for side in (white, black)
    )


def man_at(words: Sequence[int], square: int) -> int:
    """Returns the man on a square: 0..5 white pawn to king, 6..11 black, `NO_MAN`."""
    bit = 1 << square
    if not (words[6] | words[7]) & bit:
        return NO_MAN
    kind = next(k for k in range(6) if words[k] & bit)
    return kind + 6 if words[7] & bit else kind


def changed_squares(a: Sequence[int], b: Sequence[int]) -> int:
    """Returns the squares whose man differs, as a bitboard."""
    changed = 0
    for x, y in zip(a[:8], b[:8], strict=True):
        changed |= x ^ y
    return changed


# ------------------------------------------------------------------ records -> blocks


def encode_blocks(records: Sequence[NodeRecord]) -> tuple[CodeBook, list[bytes]]:
    """Returns the code book and the blocks (with checksums) of the records of one chunk, in their order.

    Raises:
      CorruptRecordError: if a record has no place in the format.
    """
    for i, record in enumerate(records):
        _check_fits(i, record)
    groups = [records[k : k + BLOCK] for k in range(0, len(records), BLOCK)]
    tokens = [block_tokens(group) for group in groups]
    counts = np.zeros(TABLES * SYMBOLS, np.uint32)
    for table, symbol in (token for block in tokens for token in block):
        if table < RAW:
            counts[table * SYMBOLS + symbol] += 1
    book = CodeBook.from_counts(counts)
    return book, [seal(_header(g) + _bits(t, book)) for g, t in zip(groups, tokens, strict=True)]


def _check_fits(i: int, record: NodeRecord) -> None:
    meta = record.words[8]
    draws = [record.d, *(edge.d for edge in record.edges)]
    moves = len(record.codes)
    if not is_position(record.words) or meta >> 20 or meta >> 5 & 127 > 64:
        raise CorruptRecordError(f"record {i} of the batch has an impossible position")
    if max(draws) > D_SCALE or not len(record.edges) <= moves <= MAX_MOVES:
        raise CorruptRecordError(f"record {i} of the batch has a field out of range")
    if any(not abs(x) <= 1.0 for x in (record.v, *(edge.q for edge in record.edges))):
        raise CorruptRecordError(f"record {i} of the batch has a value outside [-1, 1]")
    if any(not 1 <= code <= MAX_CODE for code in record.codes):
        raise CorruptRecordError(f"record {i} of the batch has a field out of range")


def _header(records: Sequence[NodeRecord]) -> bytes:
    moves = sum(len(record.codes) for record in records)
    edges = sum(len(record.edges) for record in records)
    return struct.pack("<I", len(records) - 1 | moves << 5 | edges << 18 | _drawn(records) << 31)


def _drawn(records: Sequence[NodeRecord]) -> bool:
    return any(edge.r for record in records for edge in record.edges)


def block_tokens(records: Sequence[NodeRecord]) -> list[Token]:
    """Returns the tokens of one block."""
    tokens: list[Token] = []
    drawn = _drawn(records)
    for i, record in enumerate(records):
        base: Words = START
        if i:
            j = min(range(i), key=lambda j: (changed_squares(record.words, records[j].words).bit_count(), -j))
            tokens.append((REF, i - 1 - j))
            base = records[j].words
        tokens += _position_tokens(record.words, base)
        tokens += [(FLAGS, record.flags), (EVALUATOR, record.evaluator)]
        tokens += [*_float_tokens(V_HIGH, record.v), *_draw_tokens(V_DRAW, record.d)]
        tokens += _prior_tokens(record.codes)
        tokens += _edge_tokens(record.edges, drawn=drawn)
    return tokens


def _position_tokens(words: Words, base: Words) -> Iterable[Token]:
    changed = changed_squares(words, base)
    men = words[6] | words[7]
    emptied, filled = (list(chess.scan_forward(changed & mask)) for mask in (~men & _U64, men))
    yield from _square_tokens(EMPTIED, emptied)
    yield from _square_tokens(FILLED, filled)
    for k, square in enumerate(filled):
        yield PIECE + (man_at(base, emptied[k]) if k < len(emptied) else NO_MAN), man_at(words, square)
    meta = words[8]
    ep = meta >> 5 & 127
    yield META, ((meta ^ base[8]) >> 1 & 15) << 2 | (meta & 1) << 1 | (ep > 0)
    if ep:
        yield RAW + 6, ep - 1
    yield CLOCK, meta >> 12 & 255


def _square_tokens(table: int, squares: Sequence[int]) -> Iterable[Token]:
    yield table, len(squares)
    for k, square in enumerate(squares):
        yield (table + 2, square - squares[k - 1] - 1) if k else (table + 1, square)


def _prior_tokens(codes: bytes) -> Iterable[Token]:
    yield MOVES, len(codes)
    context = 0
    for code in codes:
        yield PRIOR + 9 * min(len(codes) >> 3, 7) + context, code
        context = 1 + (code >> 3)


def _edge_tokens(edges: Sequence[Edge], *, drawn: bool) -> Iterable[Token]:
    yield EDGES, len(edges)
    context = NO_EDGE
    for edge in edges:
        yield from _number_tokens(N_BITS + context, edge.n)
        context = edge.n.bit_length()
        if drawn:
            yield from _number_tokens(R_BITS, edge.r)
        yield from _float_tokens(Q_HIGH, edge.q)
        yield from _draw_tokens(Q_DRAW, edge.d)


def _number_tokens(table: int, x: int) -> Iterable[Token]:
    length = x.bit_length()
    yield table, length
    if length > 1:
        yield RAW + length - 1, x - (1 << (length - 1))


def _float_tokens(table: int, x: float) -> Iterable[Token]:
    bits = int.from_bytes(np.float32(x).tobytes(), "little")
    yield table, bits >> 24
    yield RAW + 24, bits & 0xFFFFFF


def _draw_tokens(table: int, d: int) -> Iterable[Token]:
    yield table, d >> 2
    yield RAW + 2, d & 3


def _bits(tokens: Iterable[Token], book: CodeBook) -> bytes:
    held = width = 0
    for table, value in tokens:
        if table >= RAW:
            held |= value << width
            width += table - RAW
        else:
            length = int(book.lengths[table * SYMBOLS + value])
            held |= int(book.codes[table * SYMBOLS + value]) << width
            width += 0 if length == SINGLE else length
    return held.to_bytes((width + 7) // 8, "little")


# ------------------------------------------------------------------ blocks -> records


class Decoder:
    """Reads blocks with one code book."""

    def __init__(self, book: CodeBook) -> None:
        self._entries: list[dict[tuple[int, int], int]] = [{} for _ in range(TABLES)]
        for at in np.nonzero(book.lengths)[0].tolist():
            length = int(book.lengths[at])
            key = (0, 0) if length == SINGLE else (length, int(book.codes[at]))
            self._entries[at // SYMBOLS][key] = at % SYMBOLS

    def decode(self, block: bytes) -> list[NodeRecord]:
        """Returns the records of a block.

        Raises:
          CorruptRecordError: if its bytes are no block of this code book.
        """
        return _BlockReader(self._entries, unseal(block)).records()


class _BlockReader:
    """One pass over the bits of a block."""

    def __init__(self, entries: list[dict[tuple[int, int], int]], payload: bytes) -> None:
        header = int.from_bytes(payload[:HEADER_BYTES], "little")
        self.count = (header & 31) + 1
        self.codes_left = header >> 5 & 0x1FFF
        self.edges_left = header >> 18 & 0x1FFF
        self.drawn = bool(header >> 31)
        self._entries = entries
        self._bits = int.from_bytes(payload[HEADER_BYTES:], "little")
        self._at = 0
        self._end = 8 * (len(payload) - HEADER_BYTES)

    def records(self) -> list[NodeRecord]:
        found: list[NodeRecord] = []
        for _ in range(self.count):
            found.append(self._record(found))
        if self.codes_left or self.edges_left or self._end - self._at > 7:
            raise CorruptRecordError("a block does not hold what its header says")
        return found

    def _record(self, before: list[NodeRecord]) -> NodeRecord:
        base: Words = START
        if before:
            back = self._symbol(REF, len(before) - 1)
            base = before[-1 - back].words
        words = self._position(base)
        flags, evaluator = self._symbol(FLAGS), self._symbol(EVALUATOR)
        v, d = self._float(V_HIGH), self._draw(V_DRAW)
        codes = self._priors()
        return NodeRecord(words, v, d, evaluator, flags, codes, self._edges(len(codes)))

    def _position(self, base: Words) -> Words:
        emptied, filled = self._squares(EMPTIED), self._squares(FILLED)
        words = list(base)
        for square in (*emptied, *filled):
            words[:8] = (word & ~(1 << square) for word in words[:8])
        for k, square in enumerate(filled):
            man = self._symbol(PIECE + (man_at(base, emptied[k]) if k < len(emptied) else NO_MAN), 11)
            words[man % 6] |= 1 << square
            words[6 + man // 6] |= 1 << square
        if not is_position(words):
            raise CorruptRecordError("a record has an impossible position")
        words[8] = self._meta(base[8])
        words[9] = polyglot_key(words)
        return tuple(words)

    def _meta(self, base: int) -> int:
        x = self._symbol(META, 63)
        meta = x >> 1 & 1 | (x >> 2 ^ base >> 1 & 15) << 1
        if x & 1:
            meta |= (self._take(6) + 1) << 5
        return meta | self._symbol(CLOCK) << 12

    def _priors(self) -> bytes:
        moves = self._symbol(MOVES, min(MAX_MOVES, self.codes_left))
        self.codes_left -= moves
        codes = bytearray()
        context = 0
        for _ in range(moves):
            code = self._symbol(PRIOR + 9 * min(moves >> 3, 7) + context, MAX_CODE)
            if not code:
                raise CorruptRecordError("a prior code is 0")
            codes.append(code)
            context = 1 + (code >> 3)
        return bytes(codes)

    def _edges(self, moves: int) -> tuple[Edge, ...]:
        count = self._symbol(EDGES, min(moves, self.edges_left))
        self.edges_left -= count
        edges: list[Edge] = []
        context = NO_EDGE
        for _ in range(count):
            n = self._number(N_BITS + context)
            r = self._number(R_BITS) if self.drawn else 0
            edges.append(Edge(n, r, self._float(Q_HIGH), self._draw(Q_DRAW)))
            context = n.bit_length()
        return tuple(edges)

    def _squares(self, table: int) -> list[int]:
        squares: list[int] = []
        for k in range(self._symbol(table)):
            square = squares[-1] + 1 + self._symbol(table + 2) if k else self._symbol(table + 1)
            if square > 63:
                raise CorruptRecordError("a changed square is off the board")
            squares.append(square)
        return squares

    def _number(self, table: int) -> int:
        length = self._symbol(table, 32)
        return length if length < 2 else self._take(length - 1) | 1 << (length - 1)

    def _float(self, table: int) -> float:
        bits = self._symbol(table) << 24 | self._take(24)
        if bits & 0x7FFFFFFF > _UNIT:
            raise CorruptRecordError("a value is outside [-1, 1]")
        return float(np.uint32(bits).view(np.float32))

    def _draw(self, table: int) -> int:
        d = self._symbol(table) << 2 | self._take(2)
        if d > D_SCALE:
            raise CorruptRecordError(f"draws of {d} per mille")
        return d

    def _symbol(self, table: int, highest: int = SYMBOLS - 1) -> int:
        entries = self._entries[table]
        for length in range(LIMIT + 1):
            symbol = entries.get((length, self._bits >> self._at & ((1 << length) - 1)))
            if symbol is not None:
                self._at += length
                if symbol > highest or self._at > self._end:
                    break
                return symbol
        raise CorruptRecordError(f"no symbol of table {table} at bit {self._at}")

    def _take(self, width: int) -> int:
        bits = self._bits >> self._at & ((1 << width) - 1)
        self._at += width
        if self._at > self._end:
            raise CorruptRecordError("a block ends within a record")
        return bits


def polyglot_key(words: Sequence[int]) -> int:
    """Returns the Polyglot key of packed words (the last one is not read)."""
    table = chess.polyglot.POLYGLOT_RANDOM_ARRAY
    key = 0
    for kind in range(6):
        for black in (0, 1):
            for square in chess.scan_forward(words[kind] & words[6 + black]):
                key ^= table[64 * (2 * kind + 1 - black) + square]
    meta = words[8]
    for right in range(4):
        key ^= table[768 + right] if meta >> (1 + right) & 1 else 0
    ep = meta >> 5 & 127
    key ^= table[772 + (ep - 1 & 7)] if ep else 0
    return key if meta & 1 else key ^ table[780]
