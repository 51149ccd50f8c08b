"""Walking all live records: every run in step, the newest version of each record."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ..record import RecordBatch
from .catalog import Catalog
from .runs import OnCorrupt, RunCursor, choose_pivot, merge

SCAN_BLOCKS = 512  # of all runs together: some 16,000 records


def scan(
    connection: sqlite3.Connection, catalog: Catalog, on_corrupt: OnCorrupt | None = None
) -> Iterator[RecordBatch]:
    """Yields the newest version of every record, in order, in batches of bounded size."""
    cursors = [RunCursor(catalog, segment) for segment in catalog.segments]
    held = [RecordBatch.empty(0, 0, 0) for _ in cursors]  # records read and not below the last pivot
    low: int | None = None
    while cursors:
        pivot = choose_pivot(cursors, SCAN_BLOCKS, low)
        for k, cursor in enumerate(cursors):
            end = cursor.blocks_below(pivot)
            if end > cursor.at:
                more = cursor.read(connection, cursor.at, end, on_corrupt)
                held[k] = RecordBatch.concat([held[k], more]) if len(held[k]) else more
                cursor.at = end
        batch = merge(held, low, pivot)
        if len(batch):
            yield batch
        if pivot is None:
            return
        held = [_rest(batch, pivot) for batch in held]
        low = pivot


def _rest(batch: RecordBatch, pivot: int) -> RecordBatch:
    """Returns the records at or above the pivot."""
    import numpy as np

    from .bulk import sort_keys

    first = int(np.searchsorted(sort_keys(batch.words), np.uint64(pivot), "left"))
    return batch.part(first, len(batch))
