"""Walking all live records: every segment in step, the newest version of each record."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator

from ..record.node import RecordBatch
from .damage import passed_over
from .index.catalog import Catalog, Segment
from .segments import OnCorrupt, SegmentCursor, choose_pivot, first_chunks, merge


def scan(
    connection: sqlite3.Connection, catalog: Catalog, on_corrupt: OnCorrupt | None = None
) -> Iterator[RecordBatch]:
    """Yields the newest version of every record, in order, in batches of bounded size.

    A record that cannot be is left out and reported.
    """
    cursors = [SegmentCursor(catalog, segment) for segment in catalog.segments]
    held = [RecordBatch.empty(0, 0, 0) for _ in cursors]  # records read and not below the last pivot
    low: int | None = None
    while cursors:
        pivot = choose_pivot(cursors, catalog.sizes.scan_blocks, low)
        for k, cursor in enumerate(cursors):
            end = cursor.blocks_below(pivot)
            if end > cursor.at:
                more = cursor.read(connection, cursor.at, end, on_corrupt)
                held[k] = RecordBatch.concat([held[k], more]) if len(held[k]) else more
                cursor.at = end
        batch = _sound(catalog, merge(held, low, pivot), on_corrupt)
        if len(batch):
            yield batch
        if pivot is None:
            return
        held = [_rest(batch, pivot) for batch in held]
        low = pivot


def portion(connection: sqlite3.Connection, catalog: Catalog, start: int) -> tuple[RecordBatch, int | None]:
    """Returns the newest versions of the next records from a sort key on, and the key after them.

    That is None at the end. Only the chunks around the portion are looked at, so that all portions of a file
    together cost what a scan does, and the file may be written between two of them.
    """
    cursors = [SegmentCursor(catalog, _around(catalog, segment, start)) for segment in catalog.segments]
    if not cursors:
        return RecordBatch.empty(0, 0, 0), None
    pivot = choose_pivot(cursors, catalog.sizes.scan_blocks, start)
    batches = []
    for cursor in cursors:  # the block before the first one from `start` on may reach into it
        first = max(0, cursor.blocks_below(start) - 1)
        batches.append(cursor.read(connection, first, cursor.blocks_below(pivot)))
    return _sound(catalog, merge(batches, start, pivot)), pivot


def _sound(catalog: Catalog, batch: RecordBatch, on_corrupt: OnCorrupt | None = None) -> RecordBatch:
    from .codec.soundness import sound_part

    return sound_part(batch, on_corrupt or passed_over, lambda _: str(catalog.path))


def _around(catalog: Catalog, segment: Segment, start: int) -> Segment:
    """Returns a segment with only the chunks that may hold the first `scan_blocks` blocks after a key."""
    first = max(0, bisect_left(segment.chunks, start, key=lambda chunk: chunk.first_key) - 1)
    return first_chunks(catalog, segment, start, catalog.sizes.scan_blocks, first=first)


def _rest(batch: RecordBatch, pivot: int) -> RecordBatch:
    """Returns the records at or above the pivot."""
    import numpy as np

    from .codec.bulk import sort_keys

    first = int(np.searchsorted(sort_keys(batch.words), np.uint64(pivot), "left"))
    return batch.part(first, len(batch))
