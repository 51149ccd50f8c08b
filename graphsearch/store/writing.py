"""Writing a batch of records as one sorted segment."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import numpy as np

from ..errors import CorruptRecordError
from . import order
from .codec.bulk import sort_keys, take
from .index.catalog import Catalog
from .record.node import RecordBatch
from .segments import OnUnfit, write_records

# of a segment that gets the dictionaries of the one before, until merges train new ones: training takes
# 50 ms, as long as compressing so many
FEW_RECORDS = 65_536


def append_segment(
    connection: sqlite3.Connection,
    catalog: Catalog,
    batches: Sequence[RecordBatch],
    on_unfit: OnUnfit | None,
) -> None:
    """Writes records as the newest segment; of two with one position the later one of a batch counts.

    Args:
      batches: each in any order; all sort keys of one lie before those of the next, or no batch but one is
        given.
      on_unfit: is called for each record that has no place in the format, and the others are written; without
        it such a record raises.
    """
    few = sum(map(len, batches)) < FEW_RECORDS
    dictionary = _newest_dictionary(catalog) if few else b""
    segment = begin_segment(connection, catalog)
    for batch in batches:
        dictionary = add_to_segment(
            connection, catalog, segment, batch, dictionary=dictionary, on_unfit=on_unfit
        )
    if on_unfit:  # all of them may be left out
        unused = "DELETE FROM segment WHERE id = ? AND id NOT IN (SELECT segment FROM chunk)"
        connection.execute(unused, (segment,))


def _newest_dictionary(catalog: Catalog) -> bytes:
    """Returns the dictionaries of the newest records, nothing if there are none."""
    chunks = catalog.segments[0].chunks if catalog.segments else []
    if not chunks:
        return b""
    try:
        return catalog.index(chunks[-1]).dictionary
    except CorruptRecordError:
        return b""


def begin_segment(connection: sqlite3.Connection, catalog: Catalog) -> int:
    """Returns the number of a new segment without records, the newest of all."""
    age = max((segment.age for segment in catalog.segments), default=0) + 1
    segment = connection.execute("INSERT INTO segment (age) VALUES (?)", (age,)).lastrowid
    assert segment is not None
    return segment


def add_to_segment(
    connection: sqlite3.Connection,
    catalog: Catalog,
    segment: int,
    batch: RecordBatch,
    *,
    dictionary: bytes = b"",
    on_unfit: OnUnfit | None = None,
) -> bytes:
    """Writes records, in any order, at the end of a segment, whose own records must lie before them.

    `dictionary` and what is returned: as `write_records`.
    """
    rank = -np.arange(len(batch))
    batch = take(batch, order.newest_in_order(batch.words, sort_keys(batch.words), rank))
    return write_records(connection, catalog, segment, batch, dictionary=dictionary, on_unfit=on_unfit)
