"""Chunks of a damaged file: finds the blocks that can be read and trusted."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...base.errors import CorruptRecordError
from .. import order
from ..codec.bulk import bloom_of, decode_stored, joined, take
from ..codec.compression import Dictionaries
from ..codec.unpacking import own_unpacker
from ..record.node import RecordBatch
from ..segments import CHUNK_BLOCKS, keys_of
from ..tables.schema import MAX_INTEGER
from .damaged import Row, bisected, pieces_by_id, rows_by_id

PIECE = 512  # blocks that are read at once
KEY_BYTES = 8  # of a sort key in an index
ORPHAN_WINDOW = 1 << 18  # ids of blocks that are read at once
ORPHAN_SLICE = 64  # of blocks that no chunk owns: ids given up together around an unreadable one

U64s = NDArray[np.uint64]


@dataclass(slots=True)
class DamagedChunk:
    """One row of `chunk`, without its blobs.

    Attributes:
      lost: number of blocks that could not be read or trusted; `records` sets it.
      problems: what is wrong, one line each.
    """

    id: int
    segment: int
    first_block: int
    blocks: int
    gone: int
    checksum: int
    lost: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"segment {self.segment}, chunk {self.id}"

    def records(self, connection: sqlite3.Connection) -> RecordBatch:
        """Returns the records of all blocks that can be verified to be unchanged."""
        index = _Index.read(connection, self)
        if index.is_intact(self.checksum):
            of_index = len(index.keys())  # its checksum is right, so it counts, not the row
            if of_index != self.blocks:
                says = f"its row says {self.blocks} blocks, its index has {of_index}; those are saved"
                self.problems.append(f"{self.name}: {says}")
            self.blocks = of_index
        batch, owners = self._read(connection, index)
        return self._trusted(index, batch, owners)

    def _read(self, connection: sqlite3.Connection, index: _Index) -> tuple[RecordBatch, NDArray[np.int64]]:
        """Returns the records of the blocks that decode, and for each record the number of its block."""
        dictionary = index.sound_dictionary()
        if dictionary is None:
            self.lost = self.blocks - self.gone
            self.problems.append(
                f"{self.name}: its dictionaries are damaged, and all its blocks lost with them"
            )
            return RecordBatch.empty(0, 0, 0), np.zeros(0, np.int64)
        blocks = list(_fetch(connection, self))
        unpacker = own_unpacker()
        slots = np.full(len(blocks), unpacker.slot(dictionary), np.int64)

        def lose(i: int, why: str) -> None:
            self._lose(self.gone + i, why if blocks[i] else "it is missing")

        batch, records = decode_stored(unpacker, *joined(blocks), slots, lambda _: dictionary, lose)
        return batch, self.gone + np.repeat(np.arange(len(blocks)), records)

    def _lose(self, number: int, why: str) -> None:
        self.lost += 1
        self.problems.append(f"{self.name}, block {self.first_block + number}: {why}")

    def _trusted(self, index: _Index, batch: RecordBatch, owners: NDArray[np.int64]) -> RecordBatch:
        """Returns the records that belong to this chunk and were decoded with the right dictionaries."""
        firsts = np.nonzero(np.diff(owners, prepend=-1))[0]
        keys = order.sort_keys(batch.words[firsts])
        if index.is_intact(self.checksum):
            strangers = owners[firsts][index.keys()[owners[firsts]] != keys].tolist()
            for number in strangers:
                self._lose(number, "it does not begin with the key of the index")
            return take(batch, np.nonzero(~np.isin(owners, strangers))[0])
        if index.dictionary and not index.is_proved(self, batch, owners[firsts], keys):
            self.lost = self.blocks - self.gone
            self.problems.append(
                f"{self.name}: its index is damaged, and its dictionaries may be too, so its blocks are"
                " left out"
            )
            return RecordBatch.empty(0, 0, 0)
        self.problems.append(f"{self.name}: its index is damaged, its blocks are not")
        return batch


@dataclass(frozen=True, slots=True)
class _Index:
    """The blobs of a chunk, None where one cannot be read."""

    stored_keys: bytes | None
    dictionary: bytes | None
    bloom: bytes | None

    @classmethod
    def read(cls, connection: sqlite3.Connection, chunk: DamagedChunk) -> _Index:
        if not chunk.id:  # blocks that no chunk owns
            return cls(None, b"", None)
        return cls(*(_blob(connection, chunk.id, name) for name in ("keys", "dictionary", "bloom")))

    def sound_dictionary(self) -> bytes | None:
        """Returns the dictionaries as stored; None if they cannot be read or are invalid."""
        with suppress(CorruptRecordError):
            if self.dictionary is not None:
                Dictionaries.from_bytes(self.dictionary)
                return self.dictionary
        return None

    def keys(self) -> U64s:
        return np.frombuffer(self.stored_keys or b"", "<u8").astype(np.uint64)

    def is_intact(self, checksum: int) -> bool:
        """Returns whether the index matches its checksum."""
        if self.stored_keys is None or len(self.stored_keys) % KEY_BYTES or self.bloom is None:
            return False
        return self._sum(self.stored_keys, self.bloom) == checksum

    def is_proved(
        self, chunk: DamagedChunk, batch: RecordBatch, numbers: NDArray[np.int64], keys: U64s
    ) -> bool:
        """Returns whether the checksum matches with keys or a bloom filter rebuilt from the records.

        One wrong bit is accepted: it may be in the checksum itself.
        """
        made = np.zeros(chunk.blocks, np.uint64)
        if self.stored_keys is not None and len(self.stored_keys) == KEY_BYTES * chunk.blocks:
            made = self.keys()
        made[numbers] = keys
        filters = {self.bloom, bloom_of(batch, keys_of(batch.words)).tobytes()}
        sums = [self._sum(made.astype("<u8").tobytes(), bloom) for bloom in filters if bloom is not None]
        return any((found ^ chunk.checksum).bit_count() <= 1 for found in sums)

    def _sum(self, keys: bytes, bloom: bytes) -> int:
        return zlib.crc32(bloom, zlib.crc32(self.dictionary or b"", zlib.crc32(keys)))


def _blob(connection: sqlite3.Connection, chunk: int, name: str) -> bytes | None:
    try:
        row = connection.execute(f"SELECT {name} FROM chunk WHERE id = ?", (chunk,)).fetchone()  # noqa: S608
    except sqlite3.DatabaseError:
        return None
    return row[0] if row and isinstance(row[0], bytes) else None


def _fetch(connection: sqlite3.Connection, chunk: DamagedChunk) -> Iterator[bytes]:
    """Yields the blocks of a chunk as stored, empty bytes for an unreadable one."""
    begin, end = chunk.first_block + chunk.gone, chunk.first_block + chunk.blocks

    def fetch(low: int, high: int) -> list[tuple[int, bytes]]:
        return connection.execute(
            "SELECT id, data FROM block WHERE id >= ? AND id < ?", (low, high)
        ).fetchall()

    for low in range(begin, end, PIECE):
        high = min(low + PIECE, end)
        found: dict[int, object] = dict(row for rows, _ in bisected(fetch, low, high) for row in rows)
        for number in range(low, high):
            block = found.get(number)
            yield block if isinstance(block, bytes) else b""


def damaged_chunks(
    connection: sqlite3.Connection, tick: Callable[[], None]
) -> tuple[list[DamagedChunk], list[str]]:
    """Returns the chunks of a file, those of the oldest segment first, and the tables with unreadable rows.

    A segment with a lost row counts as older than the others. Blocks that no chunk owns become chunks with
    id 0; they can be read if they were written without dictionaries. `tick` is called regularly.
    """
    segments, segments_lost = rows_by_id(connection, "segment", "id, age")
    rows, chunks_lost = rows_by_id(connection, "chunk", "id, segment, first_block, blocks, gone, checksum")
    ages = {segment: age for segment, age in segments if isinstance(age, int)}
    good = [DamagedChunk(*row) for row in rows if _is_chunk(row)]
    good.sort(key=lambda chunk: (ages.get(chunk.segment, 0), chunk.segment, chunk.id))
    orphans, blocks_lost = _orphans(connection, good, tick)
    flags = {"segment": segments_lost or not {c.segment for c in good} <= set(ages)}
    flags |= {"chunk": chunks_lost or len(good) < len(rows), "block": blocks_lost}
    return [*orphans, *good], [table for table, lost in flags.items() if lost]


def _is_chunk(row: Row) -> bool:
    """Returns whether a row can be that of a chunk."""
    if not all(isinstance(x, int) for x in row):
        return False
    _, _, first_block, blocks, gone, _ = row
    in_reach = 0 < first_block <= MAX_INTEGER - CHUNK_BLOCKS
    return bool(in_reach and 0 <= gone <= blocks and 0 < blocks <= CHUNK_BLOCKS)


def _orphans(
    connection: sqlite3.Connection, chunks: list[DamagedChunk], tick: Callable[[], None]
) -> tuple[list[DamagedChunk], bool]:
    """Returns ranges of blocks that no chunk owns, and whether any ids of blocks could not be read."""
    begins, ends = _owned(chunks)
    last = int(ends[-1]) if len(ends) else 0
    strays, any_lost = [np.zeros(0, np.int64)], False
    for rows, lost in pieces_by_id(
        connection, "block", "id", bound=last, least=ORPHAN_SLICE, window=ORPHAN_WINDOW
    ):
        ids = np.array([row[0] for row in rows], np.int64)
        place = np.searchsorted(begins, ids, "right") - 1
        strays.append(ids[(place < 0) | (ids >= ends[place])] if len(ends) else ids)
        any_lost |= lost
        tick()
    ids = np.concatenate(strays)
    starts = np.nonzero(np.diff(ids, prepend=-1) != 1)[0]
    found = []
    for start, end in pairwise([*starts.tolist(), len(ids)]):
        for first in range(start, end, CHUNK_BLOCKS):
            blocks = min(CHUNK_BLOCKS, end - first)
            found.append(DamagedChunk(0, 0, int(ids[first]), blocks, 0, 0))
    return found, any_lost


def _owned(chunks: list[DamagedChunk]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the first blocks of chunks, sorted, and for each the end of all chunks up to it."""
    spans = sorted((c.first_block + c.gone, c.first_block + c.blocks) for c in chunks)
    begins, ends = np.array(spans, np.int64).reshape(-1, 2).T
    return begins, np.maximum.accumulate(ends) if len(ends) else ends
