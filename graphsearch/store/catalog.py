"""The index of runs, held in RAM: which segment has which chunks, and what is in them by key."""

from __future__ import annotations

import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptRecordError
from .compression import Dictionaries

_U64 = (1 << 64) - 1
KEPT_DICTIONARIES = 256  # of chunks, some 60 kB each

U64s = NDArray[np.uint64]


@dataclass(frozen=True)
class ChunkIndex:
    """What is needed to find and read the blocks of a chunk; immutable, kept by chunk id.

    Attributes:
      keys: `[blocks]` sort key of the first record of each block.
      dictionary: the dictionaries of its blocks as stored.
      bloom: filter over the keys of all its records.
    """

    keys: U64s
    dictionary: bytes
    bloom: NDArray[np.uint8]

    @property
    def checksum(self) -> int:
        """CRC-32 over keys, dictionary and bloom filter as stored."""
        keys = self.keys.astype("<u8").tobytes()
        return zlib.crc32(self.bloom.tobytes(), zlib.crc32(self.dictionary, zlib.crc32(keys)))


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
        self._dictionaries: OrderedDict[int, Dictionaries] = OrderedDict()
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
        self._dictionaries = OrderedDict((k, v) for k, v in self._dictionaries.items() if k in ids)
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
        checksum, keys, dictionary, bloom = self._connection.execute(
            "SELECT checksum, keys, dictionary, bloom FROM chunk WHERE id = ?", (chunk.id,)
        ).fetchone()
        found = zlib.crc32(bloom, zlib.crc32(dictionary, zlib.crc32(keys)))
        if found != checksum or len(keys) != 8 * chunk.blocks:
            raise CorruptRecordError(f"{self.name(chunk)}: its index is damaged")
        return ChunkIndex(
            np.frombuffer(keys, "<u8").astype(np.uint64),
            dictionary,
            np.frombuffer(bytearray(bloom), np.uint8),
        )

    def name(self, chunk: Chunk, block: int | None = None) -> str:
        """Returns how messages call a chunk or a block."""
        where = f"{self._path}: run {chunk.segment}, chunk {chunk.id}"
        return where if block is None else f"{where}, block {chunk.block_id(block)}"

    def dictionaries(self, chunk: Chunk) -> Dictionaries:
        """Returns the dictionaries of a chunk, of those last used without loading them again.

        Raises:
          CorruptRecordError: if they are none.
        """
        found = self._dictionaries.pop(chunk.id, None)
        if found is None:
            found = self._load_dictionaries(chunk)
        self._dictionaries[chunk.id] = found
        while len(self._dictionaries) > KEPT_DICTIONARIES:
            self._dictionaries.popitem(last=False)
        return found

    def _load_dictionaries(self, chunk: Chunk) -> Dictionaries:
        stored = self.index(chunk).dictionary
        try:
            return Dictionaries.from_bytes(stored)
        except CorruptRecordError as error:
            raise CorruptRecordError(f"{self.name(chunk)}: {error}") from None


def _unsigned(x: int | None) -> int | None:
    return None if x is None else x & _U64


def signed(x: int) -> int:
    """Returns a 64-bit word as SQLite's signed integer.

    >>> signed(1), signed((1 << 64) - 1)
    (1, -1)
    """
    return x - (1 << 64) if x >> 63 else x
