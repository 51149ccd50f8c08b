"""The index of runs, held in RAM: which segment has which chunks, and what is in them by key."""

from __future__ import annotations

import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptRecordError
from .codec import Decoder
from .huffman import CodeBook

if TYPE_CHECKING:
    from .bulk import ChunkDecoder

_U64 = (1 << 64) - 1
KEPT_DECODERS = 32  # of bulk decoders, 0.6 MB each

U64s = NDArray[np.uint64]


@dataclass(frozen=True)
class ChunkIndex:
    """What is needed to find and read the blocks of a chunk; immutable, kept by chunk id.

    Attributes:
      keys: `[blocks]` sort key of the first record of each block.
      book: the code book as stored.
      bloom: filter over the keys of all its records.
    """

    keys: U64s
    book: bytes
    bloom: NDArray[np.uint8]

    @cached_property
    def code_book(self) -> CodeBook:
        """The code book."""
        return CodeBook.from_bytes(self.book)

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder that needs no Numba."""
        return Decoder(self.code_book)

    @property
    def checksum(self) -> int:
        """CRC-32 over keys, book and bloom filter as stored."""
        return zlib.crc32(
            self.bloom.tobytes(), zlib.crc32(self.book, zlib.crc32(self.keys.astype("<u8").tobytes()))
        )


@dataclass(frozen=True, slots=True)
class Chunk:
    """One row of `chunk`; blocks below `gone` have moved on into a merged run."""

    id: int
    segment: int
    first_block: int
    blocks: int
    gone: int
    records: int
    first_key: int

    @classmethod
    def of_row(cls, row: Sequence[int]) -> Chunk:
        """Returns the chunk of a row, in the order of the attributes."""
        chunk_id, segment, first_block, blocks, gone, records, first_key = row
        return cls(chunk_id, segment, first_block, blocks, gone, records, first_key & _U64)

    def block_id(self, i: int) -> int:
        """Returns the row of block `i` of the chunk."""
        return self.first_block + i


@dataclass(frozen=True, slots=True)
class Segment:
    """One sorted run; a younger one has the greater age number."""

    id: int
    age: int
    merged_into: int | None
    frontier: int | None
    chunks: list[Chunk] = field(default_factory=list)

    @property
    def records(self) -> int:
        """Records in its blocks."""
        return sum(chunk.records for chunk in self.chunks)


class Catalog:
    """All runs, newest first, as of the last `load`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._indexes: dict[int, ChunkIndex] = {}
        self._decoders: OrderedDict[int, ChunkDecoder] = OrderedDict()
        self.generation = 0  # grows with every load
        self.segments: list[Segment] = []
        self.load()

    def load(self, *, forget: bool = False) -> None:
        """Reads the lists of runs and chunks again; `forget` drops the indexes too (after a rollback)."""
        rows = self._connection.execute(
            "SELECT id, age, merged_into, frontier FROM segment ORDER BY age DESC, id DESC"
        ).fetchall()
        by_id = {row[0]: Segment(row[0], row[1], row[2], _unsigned(row[3])) for row in rows}
        for row in self._connection.execute(
            "SELECT id, segment, first_block, blocks, gone, records, first_key FROM chunk ORDER BY id"
        ):
            if row[1] not in by_id:
                raise CorruptRecordError(
                    f"{self._path}: chunk {row[0]} belongs to run {row[1]}, which is missing"
                )
            by_id[row[1]].chunks.append(Chunk.of_row(row))
        self.segments = list(by_id.values())
        ids = set() if forget else {chunk.id for segment in self.segments for chunk in segment.chunks}
        self._indexes = {k: v for k, v in self._indexes.items() if k in ids}
        self._decoders = OrderedDict((k, v) for k, v in self._decoders.items() if k in ids)
        self.generation += 1

    @property
    def records(self) -> int:
        """Records in all runs, superseded versions included."""
        return sum(segment.records for segment in self.segments)

    def index(self, chunk: Chunk) -> ChunkIndex:
        """Returns the index of a chunk, read on first use.

        Raises:
          CorruptRecordError: if it is not what was written.
        """
        found = self._indexes.get(chunk.id)
        if found is None:
            found = self._indexes[chunk.id] = self._read_index(chunk)
        return found

    def _read_index(self, chunk: Chunk) -> ChunkIndex:
        checksum, keys, book, bloom = self._connection.execute(
            "SELECT checksum, keys, book, bloom FROM chunk WHERE id = ?", (chunk.id,)
        ).fetchone()
        if zlib.crc32(bloom, zlib.crc32(book, zlib.crc32(keys))) != checksum or len(keys) != 8 * chunk.blocks:
            raise CorruptRecordError(f"{self.name(chunk)}: its index is damaged")
        return ChunkIndex(
            np.frombuffer(keys, "<u8").astype(np.uint64), book, np.frombuffer(bytearray(bloom), np.uint8)
        )

    def name(self, chunk: Chunk, block: int | None = None) -> str:
        """Returns how messages call a chunk or a block."""
        where = f"{self._path}: run {chunk.segment}, chunk {chunk.id}"
        return where if block is None else f"{where}, block {chunk.block_id(block)}"

    def bulk_decoder(self, chunk: Chunk) -> ChunkDecoder:
        """Returns the kernels' decoder of a chunk."""
        from .bulk import ChunkDecoder

        decoder = self._decoders.pop(chunk.id, None)
        if decoder is None:
            decoder = ChunkDecoder(self.index(chunk).code_book)
        self._decoders[chunk.id] = decoder
        while len(self._decoders) > KEPT_DECODERS:
            self._decoders.popitem(last=False)
        return decoder


def _unsigned(x: int | None) -> int | None:
    return None if x is None else x & _U64


def signed(x: int) -> int:
    """Returns a 64-bit word as SQLite's signed integer.

    >>> signed(1), signed((1 << 64) - 1)
    (1, -1)
    """
    return x - (1 << 64) if x >> 63 else x
