"""Writes batches of records as one sorted segment: records -> chunks of blocks -> rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CorruptRecordError, StoreError, UnfitRecordError
from ..position.board import fen_of, key_of_words, key_text_of_words, unpack
from .block import EncodedChunk, encode_chunk, encode_plain
from .block_layout_kernel import BLOCK
from .index import Catalog, ChunkIndex, bloom_of, signed
from .ordered_work import one_ahead
from .reading import read_one
from .record import RecordBatch, keys_of, newest_in_order, sort_keys, take

# a smaller segment uses the dictionaries of the segment before, until merges train new ones: training takes
# 50 ms, as long as compressing this many records
FEW_RECORDS = 65_536

Unfit = tuple[NDArray[np.uint64], str]  # the packed position of a record, and the reason
OnUnfit = Callable[[NDArray[np.uint64], str], None]

# one statement for all blocks: each statement costs two switches of Python's lock, which are slow while
# another thread writes; a place is offset << 20 | length
_INSERT_BLOCKS = """
INSERT INTO block SELECT ? + key, substr(?, (value >> 20) + 1, value & 1048575) FROM json_each(?)
"""
_INSERT_CHUNK = """
INSERT INTO chunk (segment, first_block, blocks, records, first_key, checksum, keys, dictionary, bloom)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class NewSegment:
    """A new segment, the newest of all, to append records to; use it within transactions.

    Attributes:
      id: its row. dictionary: dictionaries of its last chunk as stored, which the next one shares; empty: new
        ones are trained.
    """

    def __init__(self, connection: sqlite3.Connection, catalog: Catalog, dictionary: bytes = b"") -> None:
        """Inserts the segment; its first chunk uses the given dictionaries."""
        self._connection = connection
        self._catalog = catalog
        age = max((segment.age for segment in catalog.segments), default=0) + 1
        self.id = connection.execute("INSERT INTO segment (age) VALUES (?)", (age,)).lastrowid
        self.dictionary = dictionary

    def append(self, *batches: RecordBatch, on_unfit: OnUnfit | None = None) -> None:
        """Writes batches of records, each in any order; each batch must sort after all earlier ones.

        Of two records with one position the later one counts. `on_unfit`: as in `write_chunks`.
        """
        assert self.id is not None
        ordered = map(in_order, batches)
        self.dictionary = write_chunks(
            self._connection, self._catalog, self.id, ordered, dictionary=self.dictionary, on_unfit=on_unfit
        )

    def drop_if_empty(self) -> None:
        """Deletes the segment if all of its records were left out."""
        unused = "DELETE FROM segment WHERE id = ? AND id NOT IN (SELECT segment FROM chunk)"
        self._connection.execute(unused, (self.id,))


def in_order(batch: RecordBatch) -> RecordBatch:
    """Returns the records of a batch in segment order, the last one of each position."""
    words = batch.words[::-1]
    return take(batch, len(batch) - 1 - newest_in_order(words, sort_keys(words)))


def dictionary_for(catalog: Catalog, records: int) -> bytes:
    """Returns the dictionaries for a new segment: those of the newest one if it is small, else none."""
    chunks = catalog.segments[0].chunks if catalog.segments and records < FEW_RECORDS else []
    try:
        return catalog.index(chunks[-1]).dictionary if chunks else b""
    except CorruptRecordError:
        return b""


def write_chunks(
    connection: sqlite3.Connection,
    catalog: Catalog,
    segment: int,
    batches: Iterable[RecordBatch],
    *,
    dictionary: bytes = b"",
    on_unfit: OnUnfit | None = None,
) -> bytes:
    """Appends records, sorted and distinct, to a segment as new chunks; returns their dictionaries as stored.

    Call it within a transaction. While a chunk is written, another thread encodes the next one.

    Args:
      catalog: receives the indexes of the new chunks, so that they need not be read back.
      dictionary: dictionaries to write with, as stored; the chunks share one pair, trained if none is given.
      on_unfit: called for each record that does not fit the format, which is then left out.

    Raises:
      UnfitRecordError: if a record does not fit the format, and there is no `on_unfit`.
    """
    size = catalog.sizes.chunk_blocks * BLOCK
    parts = (
        batch.part(first, min(first + size, len(batch)))
        for batch in batches
        for first in range(0, len(batch), size)
    )
    for part, encoded, unfit in one_ahead(_encoded(parts, dictionary, strict=on_unfit is None)):
        for words, reason in unfit:
            assert on_unfit, "else an unfit record raises"
            on_unfit(words, reason)
        if encoded:
            dictionary = encoded.dictionary
            _insert(connection, catalog, segment, part, encoded)
    return dictionary


def _encoded(
    parts: Iterable[RecordBatch], dictionary: bytes, *, strict: bool
) -> Iterator[tuple[RecordBatch, EncodedChunk | None, list[Unfit]]]:
    """Yields for each chunk the records that fit the format, their encoding if there are any, the others."""
    for part in parts:
        encoded: EncodedChunk | None
        unfit: list[Unfit] = []
        try:
            encoded = encode_chunk(part, dictionary)
        except UnfitRecordError:
            if strict:
                raise
            part, unfit = _fitting(part)
            encoded = encode_chunk(part, dictionary) if len(part) else None
        dictionary = encoded.dictionary if encoded else dictionary
        yield part, encoded, unfit


def _fitting(batch: RecordBatch) -> tuple[RecordBatch, list[Unfit]]:
    unfit: list[Unfit] = []
    while True:
        try:
            encode_plain(batch)
        except UnfitRecordError as error:
            unfit.append((batch.words[error.index], error.reason))
            batch = take(batch, np.delete(np.arange(len(batch)), error.index))
        else:
            return batch, unfit


def _insert(
    connection: sqlite3.Connection, catalog: Catalog, segment: int, batch: RecordBatch, chunk: EncodedChunk
) -> None:
    first = (connection.execute("SELECT max(id) FROM block").fetchone()[0] or 0) + 1
    places = ",".join(str(a << 20 | b - a) for a, b in pairwise([0, *chunk.ends]))
    connection.execute(_INSERT_BLOCKS, (first, chunk.data, f"[{places}]"))
    keys = sort_keys(batch.words[::BLOCK])
    index = ChunkIndex(keys, chunk.dictionary, bloom_of(keys_of(batch.words)))
    row = connection.execute(
        _INSERT_CHUNK, (segment, first, len(chunk.ends), len(batch), signed(int(keys[0])), *index.stored())
    ).lastrowid
    assert row is not None
    catalog.add(row, index)


class LeftOut:
    """The records that do not fit the format and are left out, so that the others can be written.

    Attributes:
      keys: keys of all of them, in hexadecimal; the plain tables list none of them.
      count: number of records. unknown: number of those that have no earlier version in the file.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, catalog: Catalog) -> None:
        self._path, self._connection, self._catalog = path, connection, catalog
        self.keys: set[str] = set()
        self.count = self.unknown = 0
        self._names: dict[int, str] = {}

    def add(self, words: NDArray[np.uint64], reason: str) -> None:
        """Adds the packed position of a record and the reason why it was left out."""
        self.count += 1
        with suppress(CorruptRecordError):
            row = words.reshape(1, -1)
            self.unknown += read_one(self._connection, self._catalog.around(sort_keys(row)), row) is None
        self.keys.add(key_text_of_words(words))
        self._names[key_of_words(words)] = f"{fen_of(unpack(words))} has {reason}"

    def error(self) -> StoreError | None:
        """Returns an error that names the records added since the last call, None if there are none."""
        names, self._names = [*self._names.values()], {}
        if not names:
            return None
        more = f" and {len(names) - 1:,} more" if len(names) > 1 else ""
        return StoreError(
            f"{self._path}: a record cannot be written and is lost: {names[0]}{more}; all others are saved"
        )
