"""The index of segments, held in RAM: the chunks of each segment, and the keys that they hold."""

from __future__ import annotations

import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...base.errors import CorruptRecordError
from ..codec.compression import Dictionaries
from ..sizes import SIZES, Sizes
from ..tables.rows import rows

_U64 = (1 << 64) - 1
KEPT_DICTIONARIES = 16  # of chunks, some 60 kB each

CHUNK_COLUMNS = ("id", "segment", "first_block", "blocks", "gone", "records", "first_key")

U64s = NDArray[np.uint64]
Bits = NDArray[np.uint8]


@dataclass(frozen=True)
class ChunkIndex:
    """The index of a chunk, to find and read its blocks; immutable, kept by chunk id.

    Attributes:
      keys: `[blocks]` sort key of the first record of each block.
      dictionary: the dictionaries of its blocks as stored.
      bloom: filter over the keys of all its records; empty in an index that is kept without it.
    """

    keys: U64s
    dictionary: bytes
    bloom: Bits

    @property
    def checksum(self) -> int:
        """CRC-32 over keys, dictionary and bloom filter as stored."""
        keys = self.keys.astype("<u8").tobytes()
        return zlib.crc32(self.bloom.tobytes(), zlib.crc32(self.dictionary, zlib.crc32(keys)))

    @property
    def nbytes(self) -> int:
        """Bytes in RAM."""
        return self.keys.nbytes + len(self.dictionary) + self.bloom.nbytes


@dataclass(frozen=True, slots=True)
class Chunk:
    """One row of `chunk`; blocks below `gone` have moved into a merged segment."""

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
    """One sorted segment; a younger one has the greater age number."""

    id: int
    age: int
    merged_into: int | None
    frontier: int | None
    chunks: list[Chunk] = field(default_factory=list)

    @property
    def records(self) -> int:
        """Records in its blocks."""
        return sum(chunk.records for chunk in self.chunks)


def read_segments(connection: sqlite3.Connection, path: Path) -> list[Segment]:
    """Returns all segments, newest first, with their chunks.

    Raises:
      CorruptRecordError: if a row is invalid, or a chunk belongs to no segment.
    """
    segments = _segments(connection)
    ids = {segment.id for segment in segments}
    for segment in segments:
        if segment.merged_into is not None and segment.merged_into not in ids:
            into = segment.merged_into
            raise CorruptRecordError(f"{path}: segment {segment.id} goes into {into}, which is missing")
    return _with_chunks(connection, path, segments, after=-(1 << 63))


def _segments(connection: sqlite3.Connection) -> list[Segment]:
    """Returns all segments, newest first, without chunks."""
    names = ("id", "age", "merged_into", "frontier")
    found = rows(connection, "segment", names, "ORDER BY age DESC, id DESC")
    return [Segment(own, age, into, None if at is None else at & _U64) for own, age, into, at in found]


def _with_chunks(
    connection: sqlite3.Connection, path: Path, segments: list[Segment], *, after: int
) -> list[Segment]:
    """Adds the chunks with ids above `after` to their segments; returns all segments."""
    by_id = {segment.id: segment for segment in segments}
    for row in rows(connection, "chunk", CHUNK_COLUMNS, "WHERE id > ? ORDER BY id", (after,)):
        if row[1] not in by_id:
            raise CorruptRecordError(f"{path}: chunk {row[0]} belongs to segment {row[1]}, which is missing")
        chunk = Chunk.of_row(row)
        if chunk.gone > chunk.blocks:
            raise CorruptRecordError(f"{path}: chunk {row[0]} has lost {chunk.gone} of {chunk.blocks} blocks")
        by_id[chunk.segment].chunks.append(chunk)
    return segments


def chunk_name(path: Path, chunk: Chunk, block: int | None = None) -> str:
    """Returns the name of a chunk or a block in messages."""
    where = f"{path}: segment {chunk.segment}, chunk {chunk.id}"
    return where if block is None else f"{where}, block {chunk.block_id(block)}"


def read_index(connection: sqlite3.Connection, path: Path, chunk: Chunk) -> ChunkIndex:
    """Returns the index of a chunk from the file.

    Raises:
      CorruptRecordError: if it is missing or damaged.
    """
    row = connection.execute(
        "SELECT checksum, keys, dictionary, bloom FROM chunk WHERE id = ?", (chunk.id,)
    ).fetchone()
    if row is not None and all(isinstance(part, bytes) for part in row[1:]):
        checksum, keys, dictionary, bloom = row
        found = zlib.crc32(bloom, zlib.crc32(dictionary, zlib.crc32(keys)))
        if found == checksum and len(keys) == 8 * chunk.blocks:
            words = np.frombuffer(keys, "<u8").astype(np.uint64)
            return ChunkIndex(words, dictionary, np.frombuffer(bytearray(bloom), np.uint8))
    raise CorruptRecordError(f"{chunk_name(path, chunk)}: its index is damaged")


class Indexes:
    """Indexes of chunks by id, shared by the writer and the readers of one process.

    Committed ids are never reused, so an entry is never stale; a missing one is read from the file. Every
    change is one operation on a dict, which concurrent threads may make.
    """

    def __init__(self) -> None:
        self._kept: dict[int, ChunkIndex] = {}
        self._fresh: dict[int, ChunkIndex] = {}  # of the open transaction, visible to the writer only
        self.keep_blooms = False  # of new chunks, until a reader has taken them
        self._committed = 0  # the largest id that no rollback can free for reuse

    def get(self, chunk: Chunk) -> ChunkIndex | None:
        """Returns the index of a committed chunk, with or without its filter, or None."""
        return self._kept.get(chunk.id)

    def keep(self, chunk_id: int, index: ChunkIndex, *, bloom: bool = False) -> ChunkIndex:
        """Keeps the index of a committed chunk, without its filter unless `bloom`; returns it unchanged."""
        if chunk_id <= self._committed:
            self._kept[chunk_id] = index if bloom else replace(index, bloom=index.bloom[:0].copy())
        return index

    def add(self, chunk_id: int, index: ChunkIndex) -> None:
        """Keeps the index of a chunk that the open transaction writes, for readers once it is committed."""
        self._fresh[chunk_id] = index

    def fresh(self, chunk: Chunk) -> ChunkIndex | None:
        """Returns the index of a chunk that the open transaction has written, or None."""
        return self._fresh.get(chunk.id)

    def forget(self) -> None:
        """Drops the indexes of the open transaction: its ids may be reused."""
        self._fresh = {}

    def commit(self, ids: set[int]) -> None:
        """Gives the transaction's indexes to readers, and drops those of chunks that are not in `ids`."""
        self._committed = max(self._committed, *ids, 0)
        fresh, self._fresh = self._fresh, {}
        for chunk_id in fresh.keys() & ids:
            self.keep(chunk_id, fresh[chunk_id], bloom=self.keep_blooms)
        for chunk_id in self._kept.keys() - ids:
            self._kept.pop(chunk_id, None)

    @property
    def nbytes(self) -> int:
        """Bytes in RAM, without those of the open transaction."""
        return sum(index.nbytes for index in list(self._kept.values()))


class Directory:
    """The chunks of all segments, newest segment first, by the sort keys that they may hold."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._chunks = [chunk for segment in segments for chunk in segment.chunks]
        firsts = [[chunk.first_key for chunk in segment.chunks] for segment in segments]
        self._firsts = np.array([key for segment in firsts for key in segment], np.uint64)
        # a chunk may end in the sort key that the next one of its segment begins with
        following = [key for segment in firsts for key in [*segment[1:], *([_U64] if segment else [])]]
        self._following = np.array(following, np.uint64)

    def around(self, sort_key: int) -> Iterator[Chunk]:
        """Yields the chunks that may hold a sort key, those of the newest segment first."""
        key = np.uint64(sort_key)
        for place in np.nonzero((self._firsts <= key) & (key <= self._following))[0].tolist():
            yield self._chunks[place]

    def __iter__(self) -> Iterator[tuple[Chunk, np.uint64, np.uint64]]:
        """Yields every chunk with the least and the largest sort key that it may hold."""
        return zip(self._chunks, self._firsts, self._following, strict=True)


class Catalog:
    """All segments, newest first, as of the last `load`."""

    def __init__(self, connection: sqlite3.Connection, path: Path, sizes: Sizes = SIZES) -> None:
        self.sizes = sizes
        self._connection = connection
        self.path = path
        self._dictionaries: OrderedDict[int, Dictionaries] = OrderedDict()
        self._sound: set[int] = set()  # chunks whose dictionaries were loaded once
        self.indexes = Indexes()
        self.generation = 0  # grows with every load
        self.segments: list[Segment] = []
        self._directory: Directory | None = None
        self.load()
        self.committed()

    def load(self, *, forget: bool = False) -> None:
        """Reads segments and chunks again; `forget` drops the indexes of a rolled back transaction."""
        self.segments = read_segments(self._connection, self.path)
        self._drop_stale(set() if forget else self._ids())
        if forget:
            self.indexes.forget()

    def follow(self) -> None:
        """Updates the catalog after its own process has written; reads only new chunks, not the whole list.

        Such writes add chunks, and remove blocks only from the beginning of a segment. (Reading the list of
        10^8 nodes, on 3,000 pages, would take 16 ms for each step.)
        """
        before = {segment.id: segment.chunks for segment in self.segments}
        newest = max((chunks[-1].id for chunks in before.values() if chunks), default=-(1 << 63))
        segments = _segments(self._connection)
        for segment in segments:
            known = before.get(segment.id, [])
            for i, chunk in enumerate(known):
                row = next(rows(self._connection, "chunk", CHUNK_COLUMNS, "WHERE id = ?", (chunk.id,)), None)
                if row is not None:
                    segment.chunks.extend([Chunk.of_row(row), *known[i + 1 :]])
                    break
        self.segments = _with_chunks(self._connection, self.path, segments, after=newest)
        self._drop_stale(self._ids())

    def _drop_stale(self, ids: set[int]) -> None:
        self._dictionaries = OrderedDict((k, v) for k, v in self._dictionaries.items() if k in ids)
        self._sound &= ids
        self.generation += 1
        self._directory = None

    def committed(self) -> None:
        """Gives the indexes of the loaded chunks to readers, after a commit."""
        self.indexes.commit(self._ids())

    def _ids(self) -> set[int]:
        return {chunk.id for segment in self.segments for chunk in segment.chunks}

    @property
    def directory(self) -> Directory:
        """The directory of all chunks, built on first use."""
        if self._directory is None:
            self._directory = Directory(self.segments)
        return self._directory

    @property
    def records(self) -> int:
        """Records in all segments, superseded versions included."""
        return sum(segment.records for segment in self.segments)

    def index(self, chunk: Chunk) -> ChunkIndex:
        """Returns the index of a chunk, read on first use and kept; its filter may be missing.

        Raises:
          CorruptRecordError: if it is missing or damaged.
        """
        found = self.indexes.fresh(chunk) or self.indexes.get(chunk)
        return found or self.indexes.keep(chunk.id, read_index(self._connection, self.path, chunk))

    def full_index(self, chunk: Chunk) -> ChunkIndex:
        """Returns the index of a chunk with its filter, read on first use and kept.

        Raises:
          CorruptRecordError: if it is missing or damaged.
        """
        found = self.indexes.fresh(chunk) or self.indexes.get(chunk)
        if found is None or not len(found.bloom):
            found = read_index(self._connection, self.path, chunk)
            self.indexes.keep(chunk.id, found, bloom=True)
        return found

    def name(self, chunk: Chunk, block: int | None = None) -> str:
        """Returns the name of a chunk or a block in messages."""
        return chunk_name(self.path, chunk, block)

    def dictionary(self, chunk: Chunk) -> bytes:
        """Returns the dictionaries of a chunk as stored.

        Raises:
          CorruptRecordError: if they are damaged; checked once for each chunk.
        """
        stored = self.index(chunk).dictionary
        if chunk.id not in self._sound:
            self._load_dictionaries(chunk)
            self._sound.add(chunk.id)
        return stored

    def dictionaries(self, chunk: Chunk) -> Dictionaries:
        """Returns the loaded dictionaries of a chunk; the last KEPT_DICTIONARIES used stay loaded.

        Raises:
          CorruptRecordError: if they are damaged.
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


def signed(x: int) -> int:
    """Returns a 64-bit word as SQLite's signed integer.

    >>> signed(1), signed((1 << 64) - 1)
    (1, -1)
    """
    return x - (1 << 64) if x >> 63 else x
