"""Sorted segments: reads blocks, traverses several segments in step, and writes new ones."""

from __future__ import annotations

import logging
import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CorruptRecordError
from .block import EncodedChunk, decode_stored, encode_chunk, joined, padded, sound_places
from .block_kernel import BLOCK
from .index import SIZES, Catalog, Chunk, ChunkIndex, OnCorrupt, Segment, bloom_of, chunk_name, signed
from .ordered_work import in_order, thread_count
from .record import RecordBatch, keys_of, newest_in_order, sort_keys, take
from .tables.rows import MAX_BLOCK_BYTES

CHUNK_BLOCKS = SIZES.chunk_blocks  # most blocks of a chunk in a sound file

U64s = NDArray[np.uint64]
Places = NDArray[np.int64]

MAX_NOTES = 20  # logged by one process; `store verify` lists all damage

_log = logging.getLogger("graphsearch")
_said: set[str] = set()

# one row for all blocks: each row that SQLite returns costs two switches of Python's lock, which are slow
# while another thread writes; the casts keep the bytes of a BLOB
_BY_ID = """
SELECT CAST(group_concat(CAST(b.data AS TEXT), '') AS BLOB), group_concat(length(b.data)), group_concat(b.id)
FROM json_each(?) AS wanted CROSS JOIN block AS b ON b.id = wanted.value
WHERE typeof(b.data) = 'blob' AND length(b.data) <= ?
"""

_ONE = "SELECT data FROM block WHERE id = ? AND typeof(data) = 'blob' AND length(data) <= ?"


def passed_over(error: CorruptRecordError) -> None:
    """Logs skipped damage, each line once, to the logger `graphsearch` (by default stderr)."""
    line = str(error)
    if line in _said or len(_said) > MAX_NOTES:
        return
    _said.add(line)
    if len(_said) > MAX_NOTES:
        line = "and more; `graphsearch store verify` lists all"
    _log.warning("damaged, and left out: %s", line)


def fetch(connection: sqlite3.Connection, ids: Places) -> tuple[NDArray[np.uint8], Places]:
    """Returns the data of blocks, concatenated and padded, and the end offset of each.

    A block that is missing, too large or not a BLOB is empty, and so is one that SQLite cannot read while it
    can read others; if it can read none, its error is raised. `ids`: `[blocks]` rows of `block`.
    """
    wanted = ",".join(map(str, ids.tolist()))
    with suppress(sqlite3.DatabaseError):
        data, lengths, found = connection.execute(_BY_ID, (f"[{wanted}]", MAX_BLOCK_BYTES)).fetchone()
        if found == wanted and data:
            ends = np.cumsum(np.array(lengths.split(","), np.int64))
            if ends[-1] == len(data):
                return padded(data), ends
    blocks: list[bytes] = []  # one by one
    failure: sqlite3.DatabaseError | None = None
    for row in ids.tolist():
        try:
            found = connection.execute(_ONE, (row, MAX_BLOCK_BYTES)).fetchone()
            blocks.append(found[0] if found else b"")
        except sqlite3.DatabaseError as error:
            failure = error
            blocks.append(b"")
    if failure is not None and not any(blocks):
        raise failure
    return joined(blocks)


@dataclass(frozen=True, slots=True)
class Portion:
    """Blocks as they are stored, which any thread may decode.

    Attributes:
      path: of the file.
      spans: the origin of the blocks, in order: of all segments, newest first. dictionaries: those of each
        span, as stored. data, ends: the blocks, as `fetch` returns them.
      start: the first sort key. following: the sort key of the next portion, None at the end.
    """

    path: Path
    spans: list[Span]
    dictionaries: list[bytes]
    data: NDArray[np.uint8]
    ends: NDArray[np.int64]
    start: int = 0
    following: int | None = None

    def decode(self, on_corrupt: OnCorrupt | None = None) -> RecordBatch:
        """Returns the records; raises CorruptRecordError, naming segment and block.

        If `on_corrupt` is given, it is called with the error instead, and the block is left out.
        """
        which = np.repeat(np.arange(len(self.spans)), [span.last - span.first for span in self.spans])

        def refuse(i: int, reason: str) -> None:
            span = self.spans[which[i]]
            number = span.first + int(i - np.searchsorted(which, which[i]))
            error = CorruptRecordError(f"{chunk_name(self.path, span.chunk, number)}: {reason}")
            if on_corrupt is None:
                raise error
            on_corrupt(error)

        return decode_stored(self.data, self.ends, self.dictionaries, which, refuse)[0]

    def records(self, on_unsound: OnCorrupt = passed_over) -> RecordBatch:
        """Returns the newest versions of the records, in order; unsound ones are left out and reported.

        It raises CorruptRecordError, naming file, segment and block.
        """
        return take(*self.versions(on_unsound))

    def versions(
        self, on_unsound: OnCorrupt | None = passed_over, on_corrupt: OnCorrupt | None = None
    ) -> tuple[RecordBatch, NDArray[np.int64]]:
        """Returns all decoded records, and the indices of those that `records` would return, in order.

        It is cheaper for a caller that needs few of the records. Without `on_unsound` unsound ones stay.
        `on_corrupt`, and the error without it: as in `decode`.
        """
        batch = self.decode(on_corrupt)
        keys = sort_keys(batch.words)
        inside = keys >= np.uint64(self.start)
        if self.following is not None:
            inside &= keys < np.uint64(self.following)
        places = np.nonzero(inside)[0]
        keys = keys[places]
        if len(keys) > 1 and not (keys[1:] > keys[:-1]).all():
            places = places[newest_in_order(batch.words[places], keys)]
        return batch, sound_places(batch, places, on_unsound, str(self.path)) if on_unsound else places


@dataclass(frozen=True, slots=True)
class Span:
    """Blocks `first` to `last` (exclusive) of a chunk."""

    chunk: Chunk
    first: int
    last: int


class SegmentCursor:
    """The blocks of one segment, in order, that a step from a sort key on needs.

    These are the chunk in which it begins, and more than `blocks` blocks above `low`, or all the others.

    Attributes:
      keys: sort key of the first record of each block.
    """

    def __init__(self, catalog: Catalog, segment: Segment, low: int | None, blocks: int) -> None:
        """Reads the index of the chunks; `low`: the sort key, None: any."""
        chunks, found = segment.chunks, 0
        first = max(0, bisect_left(chunks, low or 0, key=lambda chunk: chunk.first_key) - 1)
        self._chunks, keys = list[Chunk](), [np.zeros(0, np.uint64)]
        for chunk in chunks[first:]:
            if found > blocks:
                break
            if chunk.gone < chunk.blocks:
                self._chunks.append(chunk)
                keys.append(catalog.index(chunk).keys[chunk.gone :])
                found += len(keys[-1]) if low is None else int((keys[-1] > np.uint64(low)).sum())
        self._starts = np.cumsum([0, *map(len, keys[1:])])
        self.keys: U64s = np.concatenate(keys)

    def blocks_below(self, pivot: int | None) -> int:
        """Returns the number of first blocks that may hold a sort key below the pivot (None: all)."""
        if pivot is None:
            return len(self.keys)
        return int(np.searchsorted(self.keys, np.uint64(pivot), "left"))

    def spans(self, first: int, last: int) -> list[Span]:
        """Returns blocks `first` to `last` (exclusive) of the segment as one span per chunk."""
        found = []
        at = max(0, int(np.searchsorted(self._starts, first, "right")) - 1)
        while first < last and at < len(self._chunks):
            chunk, start = self._chunks[at], int(self._starts[at])
            end = min(last, int(self._starts[at + 1]))
            offset = chunk.gone - start
            found.append(Span(chunk, first + offset, end + offset))
            first, at = end, at + 1
        return found


def fetch_spans(
    connection: sqlite3.Connection,
    catalog: Catalog,
    spans: list[Span],
    start: int = 0,
    following: int | None = None,
) -> Portion:
    """Returns the blocks of spans as they are stored; `start`, `following`: as in `Portion`."""
    ids = [np.arange(span.chunk.block_id(span.first), span.chunk.block_id(span.last)) for span in spans]
    data, ends = fetch(connection, np.concatenate([*ids, np.zeros(0, np.int64)]))
    dictionaries = [catalog.index(span.chunk).dictionary for span in spans]
    return Portion(catalog.path, spans, dictionaries, data, ends, start, following)


def fetch_portion(
    connection: sqlite3.Connection,
    catalog: Catalog,
    cursors: Sequence[SegmentCursor],
    start: int,
    pivot: int | None,
) -> Portion:
    """Returns the blocks of some segments, newest first, from a sort key to another (None: the end)."""
    spans = []
    for cursor in cursors:  # the block before the first one from `start` on may reach into it
        spans += cursor.spans(max(0, cursor.blocks_below(start) - 1), cursor.blocks_below(pivot))
    return fetch_spans(connection, catalog, spans, start, pivot)


def cursors_from(
    catalog: Catalog, segments: Sequence[Segment], low: int | None, blocks: int
) -> list[SegmentCursor]:
    """Returns the cursors of some segments; the arguments are as for `SegmentCursor`."""
    return [SegmentCursor(catalog, segment, low, blocks) for segment in segments]


def choose_pivot(cursors: Sequence[SegmentCursor], blocks: int, low: int | None) -> int | None:
    """Returns a sort key above `low` with about `blocks` blocks between them; None if there are no more.

    Blocks that begin at or below `low` do not count; if they did, a window could end where it began. Only the
    next blocks of each segment are examined, so that a step takes the same time in a file of any size.
    """
    nexts = []
    for cursor in cursors:
        first = 0 if low is None else int(np.searchsorted(cursor.keys, np.uint64(low), "right"))
        nexts.append(cursor.keys[first : first + blocks + 1])
    keys = np.concatenate([*nexts, np.zeros(0, np.uint64)])
    return int(np.partition(keys, blocks)[blocks]) if len(keys) > blocks else None


# ------------------------------------------------------------------ writing
# a segment of up to so many times the records of the one before uses its dictionaries: training takes 50 ms,
# as long as compressing 65,536 records
ALIKE = 16

# one statement for all blocks: each statement costs two switches of Python's lock, which are slow while
# another thread writes; a place is offset << 20 | length
_INSERT_BLOCKS = """
INSERT INTO block SELECT ? + key, substr(?, (value >> 20) + 1, value & 1048575) FROM json_each(?)
"""
_INSERT_CHUNK = """
INSERT INTO chunk (segment, first_block, blocks, records, first_key, checksum, keys, dictionary, bloom)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


def write_segment(
    connection: sqlite3.Connection, catalog: Catalog, batches: Iterable[RecordBatch], records: int
) -> list[ChunkIndex]:
    """Writes batches of records, each in any order, as the newest segment; call it within a transaction.

    Each batch must sort after all earlier ones. Of two records with one position the later one counts.
    `records`: their number. It returns and raises as `write_chunks` does.
    """
    chunks = catalog.segments[0].chunks if catalog.segments else []
    dictionary = b""
    if chunks and records < ALIKE * catalog.segments[0].records:
        with suppress(CorruptRecordError):
            dictionary = catalog.index(chunks[-1]).dictionary
    age = max((segment.age for segment in catalog.segments), default=0) + 1
    segment = connection.execute("INSERT INTO segment (age) VALUES (?)", (age,)).lastrowid
    assert segment is not None
    written = write_chunks(connection, catalog, segment, map(sorted_records, batches), dictionary=dictionary)
    if not written:
        connection.execute("DELETE FROM segment WHERE id = ?", (segment,))
    return written


def sorted_records(batch: RecordBatch) -> RecordBatch:
    """Returns the records of a batch in segment order, the last one of each position."""
    words = batch.words[::-1]
    return take(batch, len(batch) - 1 - newest_in_order(words, sort_keys(words)))


def write_chunks(
    connection: sqlite3.Connection,
    catalog: Catalog,
    segment: int,
    batches: Iterable[RecordBatch],
    *,
    dictionary: bytes = b"",
) -> list[ChunkIndex]:
    """Appends records, sorted and distinct, to a segment as new chunks; returns their indexes.

    Call it within a transaction. Several threads encode the chunks.

    Args:
      catalog: receives the indexes of the new chunks, so that they need not be read back.
      dictionary: dictionaries to write with, as stored; the chunks share one pair, trained if none is given.

    Raises:
      UnfitRecordError: if a record does not fit the format.
    """
    size = catalog.sizes.chunk_blocks * BLOCK
    parts = (
        batch.part(first, min(first + size, len(batch)))
        for batch in batches
        for first in range(0, len(batch), size)
    )

    def encoded(part: RecordBatch) -> tuple[EncodedChunk, ChunkIndex, int]:
        chunk, bloom = encode_chunk(part, dictionary), bloom_of(keys_of(part.words))
        return chunk, ChunkIndex(sort_keys(part.words[::BLOCK]), chunk.dictionary, bloom), len(part)

    written = list[ChunkIndex]()
    first_part = map(encoded, islice(parts, 0 if dictionary else 1))  # whose dictionaries the others share
    for chunk, index, records in chain(first_part, in_order(parts, encoded, thread_count())):
        dictionary = dictionary or chunk.dictionary
        first = (connection.execute("SELECT max(id) FROM block").fetchone()[0] or 0) + 1
        places = ",".join(str(a << 20 | b - a) for a, b in pairwise([0, *chunk.ends]))
        connection.execute(_INSERT_BLOCKS, (first, chunk.data, f"[{places}]"))
        row = (segment, first, len(chunk.ends), records, signed(int(index.keys[0])), *index.stored())
        number = connection.execute(_INSERT_CHUNK, row).lastrowid
        assert number is not None
        catalog.add(number, index)
        written.append(index)
    return written
