"""Writing batches of records as one sorted segment."""

from __future__ import annotations

import sqlite3

import numpy as np

from ..errors import CorruptRecordError
from . import order
from .codec.bulk import sort_keys, take
from .index.catalog import Catalog
from .record.node import RecordBatch
from .segments import OnUnfit, write_chunks

# fewer get the dictionaries of the segment before, until merges train new ones: training takes 50 ms, as long
# as compressing so many
FEW_RECORDS = 65_536


class NewSegment:
    """A new segment, the newest of all, that records are appended to; within transactions.

    Attributes:
      id: its row. dictionary: dictionaries of its last chunk as stored, which the next one shares; empty: new
        ones are trained.
    """

    def __init__(self, connection: sqlite3.Connection, catalog: Catalog, dictionary: bytes = b"") -> None:
        """Adds the segment, whose first chunk has the given dictionaries."""
        self._connection = connection
        self._catalog = catalog
        age = max((segment.age for segment in catalog.segments), default=0) + 1
        self.id = connection.execute("INSERT INTO segment (age) VALUES (?)", (age,)).lastrowid
        self.dictionary = dictionary

    def append(self, batch: RecordBatch, on_unfit: OnUnfit | None = None) -> None:
        """Writes records, in any order, behind those before, which must lie before them.

        Of two with one position the later one counts.

        Args:
          on_unfit: called for each record that has no place in the format, and the others are written;
            without it such a record raises.
        """
        assert self.id is not None
        rank = -np.arange(len(batch))
        batch = take(batch, order.newest_in_order(batch.words, sort_keys(batch.words), rank))
        self.dictionary = write_chunks(
            self._connection, self._catalog, self.id, batch, dictionary=self.dictionary, on_unfit=on_unfit
        )

    def drop_if_empty(self) -> None:
        """Deletes the segment if all of its records were left out."""
        unused = "DELETE FROM segment WHERE id = ? AND id NOT IN (SELECT segment FROM chunk)"
        self._connection.execute(unused, (self.id,))


def dictionary_for(catalog: Catalog, records: int) -> bytes:
    """Returns the dictionaries for a segment of so many records: those of the newest if few, else none."""
    chunks = catalog.segments[0].chunks if catalog.segments and records < FEW_RECORDS else []
    try:
        return catalog.index(chunks[-1]).dictionary if chunks else b""
    except CorruptRecordError:
        return b""
