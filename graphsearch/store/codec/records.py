"""Decodes blocks without Numba, one record at a time.

`layout.py` has the layout of a block. `decoding_kernel.py` does the same in bulk; this module serves single
reads, and is the oracle of the other one's tests.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import chess
import chess.polyglot
import numpy as np

from ...base.errors import CorruptRecordError
from ...position.board import FREE_CLOCK, clock_of_words
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
    KINGS,
    META,
    PAWNS,
    WHITE,
    WITHOUT_CLOCK,
)
from ..record.bounds import MOST_CODE
from ..record.node import MAX_CODE, MAX_MOVES, MAX_RUN, MAX_VISITS, Edge, NodeRecord
from . import layout
from .compression import Header

_U64 = (1 << 64) - 1

KEPT_BLOCKS = 64  # some 4 MB

Words = tuple[int, ...]


def is_position(words: Sequence[int]) -> bool:
    """Returns whether each man has one kind and colour, and the numbers of men are those of chess."""
    white, black = words[WHITE], words[BLACK]
    kinds = 0
    for kind in words[:6]:
        if kinds & kind:
            return False
        kinds |= kind
    if kinds != white | black or white & black or words[PAWNS] & 0xFF000000000000FF:
        return False
    return all(
        side.bit_count() <= 16
        and (words[PAWNS] & side).bit_count() <= 8
        and (words[KINGS] & side).bit_count() == 1
        for side in (white, black)
    )


def man_at(words: Sequence[int], square: int) -> int:
    """Returns the man on a square: 0..5 white pawn to king, 6..11 black, `NO_MAN`."""
    bit = 1 << square
    if not (words[WHITE] | words[BLACK]) & bit:
        return layout.NO_MAN
    kind = next(k for k in range(6) if words[k] & bit)
    return kind + 6 if words[BLACK] & bit else kind


# ------------------------------------------------------------------ blocks -> records


def decode_block(plain: bytes) -> list[NodeRecord]:
    """Returns the records of an uncompressed block.

    Raises:
      CorruptRecordError: if its bytes are not records.
    """
    return _BlockReader(plain).records()


def find_in_block(plain: bytes, identity: Words) -> NodeRecord | None:
    """Returns the record of a position in an uncompressed block, or None.

    It stops at that record, and reads only the positions of earlier ones. It caches the last KEPT_BLOCKS
    blocks as far as it read them, since positions requested together are stored together.

    Args:
      plain: the block.
      identity: the position's row of `order.identities`.

    Raises:
      CorruptRecordError: if the bytes read are not records.
    """
    return _cached_reader(plain).find(identity)


def _identity(words: Words) -> Words:
    """Returns the identity of a position, as `order.identities`."""
    meta = words[META]
    return (*words[:8], meta if clock_of_words(words) > FREE_CLOCK else meta & WITHOUT_CLOCK)


class _Place(NamedTuple):
    """The position of a record, and where its run, P codes and edges are in the block."""

    words: Words
    run: int  # number in the block's list of runs, from 1; 0: none
    moves_at: int
    edges_at: int


class _BlockReader:
    """Reads the columns of a block once, as far as requested; thread-safe."""

    def __init__(self, plain: bytes) -> None:
        self._header = header = Header.of(plain)
        codes_at, columns_at = header.parts()
        if len(plain) < columns_at:
            raise CorruptRecordError("a block is too short")
        self._low = np.frombuffer(plain[layout.HEADER : codes_at], "<u4").tolist()
        self._codes = plain[codes_at:columns_at]
        self._bytes = plain[columns_at:]
        self._columns = self._split()
        self._at = [0] * layout.COLUMNS
        self._places: list[_Place] = []
        self._found: dict[Words, int] = {}  # by identity
        self._records: dict[int, NodeRecord] = {}
        self._runs = 0  # listed so far
        self._error: CorruptRecordError | None = None
        self._lock = threading.Lock()

    def _split(self) -> list[bytes]:
        """Returns the columns up to the men, then the varints of runs, n and r as one column."""
        header = self._header
        sizes = [header.records] * layout.FIXED + [header.edges] * layout.BY_EDGE
        fixed = sum(sizes)
        size = header.records
        count = [self._bytes[size * c : size * (c + 1)] for c in range(layout.FIXED)]
        emptied, filled = sum(count[layout.EMPTIED]), sum(count[layout.FILLED])
        other = layout.CHESS960_BYTES * sum(x // layout.HAS_CHESS960 for x in count[layout.META])
        sizes += [sum(x & layout.HAS_EN_PASSANT for x in count[layout.META]), other, emptied, filled, filled]
        ends = np.cumsum([0, *sizes]).tolist()
        if len(self._bytes) < max(fixed, ends[-1]):
            raise CorruptRecordError("a block is too short")
        if sum(count[layout.MOVES]) != header.codes or sum(count[layout.EDGES]) != header.edges:
            raise CorruptRecordError("a block does not match its header")
        columns = [self._bytes[a:b] for a, b in pairwise(ends)]
        return [*columns, self._bytes[ends[-1] :]]

    def records(self) -> list[NodeRecord]:
        with self._lock:
            while self._has_more():
                self._read_next()
            return [self._read(i) for i in range(len(self._places))]

    def find(self, wanted: Words) -> NodeRecord | None:
        """Returns the record of a position, given by its row of `order.identities`, or None."""
        with self._lock:
            while wanted not in self._found and self._has_more():
                self._read_next()
            if wanted not in self._found:
                return None
            i = self._found[wanted]
            self._records[i] = self._records.get(i) or self._read(i)
            return self._records[i]

    def _has_more(self) -> bool:
        if self._error is not None:
            raise self._error
        return len(self._places) < self._header.records

    def _read_next(self) -> None:
        """Reads the position of the next record."""
        try:
            place = self._next_place()
        except CorruptRecordError as error:
            self._error = error
            raise
        self._found.setdefault(_identity(place.words), len(self._places))
        self._places.append(place)

    def _next_place(self) -> _Place:
        i = len(self._places)
        byte = self._byte(i)
        if byte[layout.REFERENCE] > i:
            raise CorruptRecordError("a record refers to none of its block")
        base = None if byte[layout.REFERENCE] == 0 else self._places[i - byte[layout.REFERENCE]]
        words = self._position(byte, base.words if base else layout.START)
        own = byte[layout.META] & layout.HAS_RUN
        self._runs += own > 0
        run = self._runs if own else base.run if base else 0
        place = _Place(words, run, self._at[layout.MOVES], self._at[layout.EDGES])
        self._at[layout.MOVES] += byte[layout.MOVES]
        self._at[layout.EDGES] += byte[layout.EDGES]
        return place

    def _byte(self, i: int) -> list[int]:
        """Returns a record's bytes in the columns of one byte per record."""
        return [column[i] for column in self._columns[: layout.FIXED]]

    @cached_property
    def _numbers(self) -> tuple[list[int], list[tuple[int, int]]]:
        """A 0 and the block's list of runs, and (n, r) of every edge."""
        runs = sum((x & layout.HAS_RUN) > 0 for x in self._columns[layout.META])
        wanted = runs + self._header.edges * (1 + self._header.drawn)
        found = _read_varints(self._columns[layout.RUN], wanted)
        if any(run > MAX_RUN for run in found[:runs]):
            raise CorruptRecordError("the number of a run is out of range")
        n, r = found[runs : runs + self._header.edges], found[runs + self._header.edges :]
        return [0, *found[:runs]], list(zip(n, r or [0] * len(n), strict=True))

    def _read(self, i: int) -> NodeRecord:
        byte, place = self._byte(i), self._places[i]
        codes = self._codes[place.moves_at : place.moves_at + byte[layout.MOVES]]
        if byte[layout.MOVES] > MAX_MOVES or byte[layout.EDGES] > byte[layout.MOVES]:
            raise CorruptRecordError(f"{byte[layout.EDGES]} edges of {byte[layout.MOVES]} moves")
        if any(not 1 <= code <= MAX_CODE for code in codes):
            raise CorruptRecordError("a prior code is out of range")
        v, d = _value(self._low[i], byte[layout.V_HIGH], byte[layout.V_DRAW], D_SCALE)
        runs, numbers = self._numbers
        edges = tuple(
            self._edge(e, *numbers[e]) for e in range(place.edges_at, place.edges_at + byte[layout.EDGES])
        )
        words = (*place.words[:KEY], polyglot_key(place.words))
        run = runs[place.run]
        return NodeRecord(words, v, d, byte[layout.EVALUATOR], byte[layout.FLAGS], codes, edges, run)

    def _edge(self, e: int, n: int, r: int) -> Edge:
        low = self._low[self._header.records + e]
        return Edge(
            n, r, *_value(low, self._columns[layout.Q_HIGH][e], self._columns[layout.Q_DRAW][e], MOST_CODE)
        )

    def _position(self, byte: list[int], base: Words) -> Words:
        emptied = _squares(
            self._next(self._columns[layout.EMPTIED_SQUARES], layout.EMPTIED, byte[layout.EMPTIED])
        )
        filled = _squares(
            self._next(self._columns[layout.FILLED_SQUARES], layout.FILLED, byte[layout.FILLED])
        )
        kept = ~sum(1 << square for square in {*emptied, *filled})
        words = [word & kept for word in base[:8]] + [0, 0]
        men = self._next(self._columns[layout.MEN], layout.MEN, len(filled))
        for k, (square, x) in enumerate(zip(filled, men, strict=True)):
            man = ((man_at(base, emptied[k]) if k < len(emptied) else layout.NO_MAN) + x) % layout.MEN_KINDS
            if x >= layout.MEN_KINDS or man == layout.NO_MAN:
                raise CorruptRecordError("a man is of an unknown kind")
            words[man % 6] |= 1 << square
            words[WHITE + man // 6] |= 1 << square
        if not is_position(words):
            raise CorruptRecordError("a record has an impossible position")
        words[META] = self._meta(byte, base[META])
        return tuple(words)

    def _meta(self, byte: list[int], base: int) -> int:
        x = byte[layout.META]
        castling = (x >> layout.META_CASTLING_AT ^ base >> CASTLING_SHIFT) & CASTLING_BITS
        meta = x >> layout.META_BLACK_AT & BLACK_TO_MOVE | castling << CASTLING_SHIFT
        meta |= byte[layout.CLOCK] << CLOCK_SHIFT
        ep = self._next(self._columns[layout.EN_PASSANT], layout.META, x & layout.HAS_EN_PASSANT)
        wanted = layout.CHESS960_BYTES * (x // layout.HAS_CHESS960)
        other = int.from_bytes(self._next(self._columns[layout.CHESS960], layout.CHESS960, wanted), "little")
        if any(square > 63 for square in ep) or other > CHESS960_BITS:
            raise CorruptRecordError("a square is off the board")
        meta |= (base >> CHESS960_SHIFT ^ other) << CHESS960_SHIFT
        return meta | (ep[0] + 1) << EN_PASSANT_SHIFT if ep else meta

    def _next(self, column: bytes, name: int, count: int) -> bytes:
        """Returns the next `count` bytes of a column, and advances the place of column `name`."""
        first = self._at[name]
        self._at[name] += count
        return column[first : self._at[name]]


_cached_reader = lru_cache(maxsize=KEPT_BLOCKS)(_BlockReader)


def _squares(gaps: bytes) -> list[int]:
    squares = [end - 1 for end in accumulate(gap + 1 for gap in gaps)]
    if squares and squares[-1] > 63:
        raise CorruptRecordError("a changed square is off the board")
    return squares


def _read_varints(data: bytes, wanted: int) -> list[int]:
    """Returns the varints that fill the data, lowest groups of 7 bits first."""
    groups = np.frombuffer(data, np.uint8)
    ends = np.nonzero(groups < 128)[0] + 1
    lengths = np.diff(ends, prepend=0)
    if len(ends) < wanted or (lengths > 5).any():
        raise CorruptRecordError("a number does not end")
    if len(ends) > wanted or (wanted and ends[-1] != len(data)) or (not wanted and len(data)):
        raise CorruptRecordError("a block is too long")
    if not wanted:
        return []
    shifts = np.arange(len(data)) - np.repeat(ends - lengths, lengths)
    found = np.add.reduceat((groups & np.uint8(127)).astype(np.int64) << 7 * shifts, ends - lengths)
    if int(found.max()) > MAX_VISITS:
        raise CorruptRecordError(f"{found.max()} visits")
    return found.tolist()  # type: ignore[no-any-return]


def _value(low: int, high: int, draw: int, most: int) -> tuple[float, int]:
    """Returns a value in [-1, 1] and its draw field, at most `most`."""
    bits, d = high << 24 | low & layout.FRACTION, draw << 8 | low >> 24
    if bits & layout.MAGNITUDE > layout.UNIT:
        raise CorruptRecordError("a value is outside [-1, 1]")
    if d > most:
        raise CorruptRecordError(f"draws of {d} per mille")
    return float(np.uint32(bits).view(np.float32)), d


def polyglot_key(words: Sequence[int]) -> int:
    """Returns the Polyglot key of packed words (the last one is not read)."""
    table = chess.polyglot.POLYGLOT_RANDOM_ARRAY
    key = 0
    for kind in range(6):
        for black in (0, 1):
            for square in chess.scan_forward(words[kind] & words[WHITE + black]):
                key ^= table[64 * (2 * kind + 1 - black) + square]
    meta = words[META]
    for right in range(4):
        key ^= table[768 + right] if meta >> (CASTLING_SHIFT + right) & 1 else 0
    ep = meta >> EN_PASSANT_SHIFT & EN_PASSANT_BITS
    key ^= table[772 + (ep - 1 & 7)] if ep else 0
    return key if meta & BLACK_TO_MOVE else key ^ table[780]
