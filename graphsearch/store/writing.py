"""Writing a batch of records as one sorted segment."""

from __future__ import annotations

import sqlite3

import numpy as np

from ..record.node import RecordBatch
from . import order
from .codec.bulk import sort_keys, take
from .index.catalog import Catalog
from .segments import write_records


def append_run(connection: sqlite3.Connection, catalog: Catalog, batch: RecordBatch) -> None:
    """Writes records, in any order, as the newest segment; of two with one position the later one counts."""
    add_to_run(connection, catalog, begin_run(connection, catalog), batch)


def begin_run(connection: sqlite3.Connection, catalog: Catalog) -> int:
    """Returns the number of a new segment without records, the newest of all."""
    age = max((segment.age for segment in catalog.segments), default=0) + 1
    segment = connection.execute("INSERT INTO segment (age) VALUES (?)", (age,)).lastrowid
    assert segment is not None
    return segment


def add_to_run(connection: sqlite3.Connection, catalog: Catalog, segment: int, batch: RecordBatch) -> None:
    """Writes records, in any order, at the end of a segment, whose own records must lie before them."""
    rank = -np.arange(len(batch))
    batch = take(batch, order.newest_in_order(batch.words, sort_keys(batch.words), rank))
    write_records(connection, catalog, segment, batch)
