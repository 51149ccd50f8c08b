"""The index of segments: their chunks, and the keys, dictionaries and filters of these."""

from __future__ import annotations

import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CorruptRecordError
from .index_kernel import BITS_PER_KEY, FilterArrays, add_to_bloom, find_held
from .tables.rows import rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of the portions in which a store works; the records of a file do not depend on them.

    Attributes:
      chunk_blocks: most blocks of a chunk, which share a bloom filter; 2048 blocks are 65,536 records.
      fan_out: segments of one tier that are merged into one of the next.
      unread_fan_out: the same while their writer reads none of them; a search of an hour makes fewer.
      waste_from: records; a smaller file is not merged only because it holds superseded versions.
      step_blocks: blocks moved by one step of a merge, which fills one chunk: 50 MB and a tenth of a second.
      scan_blocks: blocks of all segments together that a scan reads at once: some 16,000 records.
      piece_blocks: blocks that a thread decodes at once for a lookup: some 1.5 MB of records.
      vacuum_pages: pages freed in one transaction: 16 MiB, which some of the file's last pages fill.
    """

    chunk_blocks: int = 2048
    fan_out: int = 8
    unread_fan_out: int = 128
    waste_from: int = 16_384
    step_blocks: int = 1024
    scan_blocks: int = 512
    piece_blocks: int = 256
    vacuum_pages: int = 1024


SIZES = Sizes()


# ------------------------------------------------------------------ chunks and segments
_U64 = (1 << 64) - 1
KEPT = 512  # indexes of chunks in memory, some 120 kB each: a query reads many chunks of a large file
KEPT_WRITING = 64  # beside the memory of a search

U64s = NDArray[np.uint64]
Places = NDArray[np.int64]
Bits = NDArray[np.uint8]
OnCorrupt = Callable[[CorruptRecordError], object]


@dataclass(frozen=True)
class ChunkIndex:
    """The index of a chunk, to find and read its blocks.

    It has the sort key of the first record of each block, `[blocks]`, the dictionaries of the blocks as
    stored, and a filter over the keys of all records.
    """

    keys: U64s
    dictionary: bytes
    bloom: Bits

    def may_hold(self, keys: U64s) -> NDArray[np.bool_]:
        """Returns which of some keys the filter may hold."""
        held = np.empty(len(keys), bool)
        find_held(self.bloom, keys, held)
        return held

    def stored(self) -> tuple[int, bytes, bytes, bytes]:
        """Returns its columns in the table `chunk`: checksum, keys, dictionary, bloom."""
        parts = self.keys.astype("<u8").tobytes(), self.dictionary, self.bloom.tobytes()
        return checksum_of(*parts), *parts


def checksum_of(keys: bytes, dictionary: bytes, bloom: bytes) -> int:
    """Returns the checksum of a chunk's index as it is stored."""
    return zlib.crc32(bloom, zlib.crc32(dictionary, zlib.crc32(keys)))


def bloom_of(keys: U64s) -> Bits:
    """Returns the bloom filter of some keys."""
    bloom = np.zeros(max(8, (len(keys) * BITS_PER_KEY + 7) // 8), np.uint8)
    add_to_bloom(keys, bloom)
    return bloom


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


def _segments(connection: sqlite3.Connection, path: Path) -> list[Segment]:
    """Returns all segments with their chunks, newest first; the error is that of `Catalog.load`."""
    columns = ("id", "age", "merged_into", "frontier")
    found = rows(connection, "segment", columns, "ORDER BY age DESC, id DESC")
    by_id = {own: Segment(own, age, into, None if at is None else at & _U64) for own, age, into, at in found}
    for own, one in by_id.items():
        if (into := one.merged_into) is not None and into not in by_id:
            raise CorruptRecordError(f"{path}: segment {own} goes into {into}, which is missing")
    names = tuple(one.name for one in fields(Chunk))
    for *numbers, first_key in rows(connection, "chunk", names, "ORDER BY id"):
        chunk, fault = Chunk(*(*numbers, first_key & _U64)), ""
        if chunk.segment not in by_id:
            fault = f"belongs to segment {chunk.segment}, which is missing"
        elif chunk.gone > chunk.blocks:
            fault = f"has lost {chunk.gone} of {chunk.blocks} blocks"
        if fault:
            raise CorruptRecordError(f"{path}: chunk {chunk.id} {fault}")
        by_id[chunk.segment].chunks.append(chunk)
    return list(by_id.values())


def chunk_name(path: Path, chunk: Chunk, block: int | None = None) -> str:
    """Returns the name of a chunk or a block in messages."""
    where = f"{path}: segment {chunk.segment}, chunk {chunk.id}"
    return where if block is None else f"{where}, block {chunk.block_id(block)}"


# ------------------------------------------------------------------ flat, for kernels
class _Addresses(bytearray):
    """Addresses of arrays as int64, which keep the arrays alive."""

    arrays: tuple[NDArray[Any], ...]


def _addresses(arrays: Sequence[NDArray[Any]]) -> Places:
    """Returns the addresses of arrays, `[A]`. The result, or a view of it, keeps them alive."""
    memory = _Addresses(8 * max(1, len(arrays)))
    memory.arrays = tuple(arrays)
    found = np.frombuffer(memory, np.int64)[: len(arrays)]
    found[:] = [array.ctypes.data for array in arrays]
    return found


@dataclass(frozen=True)
class Index:
    """Chunks of one state of a file as flat arrays, segment by segment, newest first; immutable.

    `filter` has the sort keys and bloom filters of the chunks, and the sort keys and rows of their blocks;
    `dictionaries` are those of each chunk, as stored.
    """

    path: Path
    chunks: tuple[Chunk, ...]
    filter: FilterArrays
    dictionaries: tuple[bytes, ...]

    @classmethod
    def of(cls, path: Path, found: Sequence[Sequence[tuple[Chunk, ChunkIndex]]]) -> Index:
        """Returns the index of some chunks, in a list for each segment."""
        pairs = [pair for segment in found for pair in segment]
        blooms = [index.bloom for _, index in pairs]
        keys = [index.keys[chunk.gone :] for chunk, index in pairs]
        starts = _offsets([len(part) for part in keys])
        firsts = np.array([chunk.block_id(chunk.gone) for chunk, _ in pairs], np.int64)
        return cls(
            path,
            tuple(chunk for chunk, _ in pairs),
            FilterArrays(
                firsts=np.array([chunk.first_key for chunk, _ in pairs], np.uint64),
                segments=_offsets([len(segment) for segment in found]),
                blooms=_addresses(blooms),
                sizes=np.array([len(bloom) for bloom in blooms], np.int64),
                starts=starts,
                keys=np.concatenate([*keys, np.zeros(0, np.uint64)]),
                shifts=firsts - starts[:-1],
            ),
            tuple(index.dictionary for _, index in pairs),
        )

    def owners(self, blocks: Places) -> Places:
        """Returns the index of each block's chunk."""
        return np.searchsorted(self.filter.starts, blocks, "right") - 1

    def name(self, block: int) -> str:
        """Returns the name of a block in messages."""
        owner = int(self.owners(np.array([block]))[0])
        chunk = self.chunks[owner]
        return chunk_name(self.path, chunk, block + int(self.filter.shifts[owner]) - chunk.first_block)


def _offsets(lengths: Sequence[int]) -> Places:
    return np.fromiter(accumulate(lengths, initial=0), np.int64, len(lengths) + 1)


class Catalog:
    """All segments, newest first, as of the last `load`."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, sizes: Sizes = SIZES, *, kept: int = KEPT
    ) -> None:
        """Knows no segment before the first `load`; `kept`: most indexes of chunks that stay in memory."""
        self.sizes, self.path = sizes, path
        self._connection, self._kept = connection, kept
        self._indexes: OrderedDict[int, ChunkIndex] = OrderedDict()

    def load(self, *, forget: bool = False) -> None:
        """Reads segments and chunks again; `forget`: after a rollback, which frees ids for reuse.

        It raises CorruptRecordError if a row is invalid, or a chunk belongs to no segment.
        """
        self.segments = _segments(self._connection, self.path)
        self._places = [(i, chunk) for i, segment in enumerate(self.segments) for chunk in segment.chunks]
        ids = set() if forget else {chunk.id for _, chunk in self._places}
        self._indexes = OrderedDict((k, v) for k, v in self._indexes.items() if k in ids)
        firsts = [[chunk.first_key for chunk in segment.chunks] for segment in self.segments]
        # a chunk may end in the sort key that the next one of its segment begins with
        lasts = [[*keys[1:], _U64] for keys in firsts if keys]
        self._firsts, self._lasts = (np.array([*chain(*keys)], np.uint64) for keys in (firsts, lasts))
        self._around = Index.of(self.path, ())

    @property
    def records(self) -> int:
        """Records in all segments, superseded versions included."""
        return sum(segment.records for segment in self.segments)

    def add(self, chunk_id: int, index: ChunkIndex) -> None:
        """Keeps the index of a chunk, the most recently used of all."""
        self._indexes[chunk_id] = index
        if len(self._indexes) > self._kept:
            self._indexes.popitem(last=False)

    def index(self, chunk: Chunk) -> ChunkIndex:
        """Returns the index of a chunk; raises CorruptRecordError if it is missing or damaged."""
        if chunk.id not in self._indexes:
            self.add(chunk.id, self._read(chunk))
        self._indexes.move_to_end(chunk.id)
        return self._indexes[chunk.id]

    def _read(self, chunk: Chunk) -> ChunkIndex:
        row = self._connection.execute(
            "SELECT checksum, keys, dictionary, bloom FROM chunk WHERE id = ?", (chunk.id,)
        ).fetchone()
        if row is not None and all(isinstance(part, bytes) for part in row[1:]):
            checksum, keys, dictionary, bloom = row
            if checksum_of(keys, dictionary, bloom) == checksum and len(keys) == 8 * chunk.blocks:
                words = np.frombuffer(keys, "<u8").astype(np.uint64)
                return ChunkIndex(words, dictionary, np.frombuffer(bytearray(bloom), np.uint8))
        raise CorruptRecordError(f"{chunk_name(self.path, chunk)}: its index is damaged")

    def around(self, sort_keys: U64s) -> Index:
        """Returns the index of the chunks that may hold some sort keys; raises as `index` does."""
        held = (self._firsts[:, None] <= sort_keys) & (sort_keys <= self._lasts[:, None])
        found: list[list[Chunk]] = [[] for _ in self.segments]
        for place in np.flatnonzero(held.any(1)).tolist():
            owner, chunk = self._places[place]
            found[owner].append(chunk)
        if self._around.chunks != tuple(chain(*found)):
            self._around = self.flat(
                [replace(one, chunks=its) for one, its in zip(self.segments, found, strict=True)]
            )
        return self._around

    def flat(self, segments: Sequence[Segment], on_damage: OnCorrupt | None = None) -> Index:
        """Returns the flat index of some segments, newest first; chunks without blocks are left out.

        A chunk with a damaged index is left out, too, and `on_damage` called; without it CorruptRecordError
        is raised.
        """
        found: list[list[tuple[Chunk, ChunkIndex]]] = []
        for segment in segments:
            found.append([])
            for chunk in segment.chunks:
                try:
                    if chunk.gone < chunk.blocks:
                        found[-1].append((chunk, self.index(chunk)))
                except CorruptRecordError as error:
                    if on_damage is None:
                        raise
                    on_damage(error)
        return Index.of(self.path, found)


def signed(x: int) -> int:
    """Returns a 64-bit word as SQLite's signed integer.

    >>> signed(1), signed((1 << 64) - 1)
    (1, -1)
    """
    return x - (1 << 64) if x >> 63 else x
