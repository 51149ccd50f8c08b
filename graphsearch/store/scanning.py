"""Walking all live records: every segment in step, the newest version of each record."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .codec.bulk import newest_in_order, sort_keys, take
from .codec.soundness import sound_part, sound_places
from .damage import passed_over
from .index.catalog import Catalog, Segment
from .record.node import RecordBatch
from .segments import (
    FetchedBlocks,
    OnCorrupt,
    SegmentCursor,
    choose_pivot,
    fetch_spans,
    first_chunks,
    merge,
)


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
        batch = sound_part(merge(held, low, pivot), on_corrupt or passed_over, str(catalog.path))
        if len(batch):
            yield batch
        if pivot is None:
            return
        held = [_rest(batch, pivot) for batch in held]
        low = pivot


@dataclass(frozen=True, slots=True)
class Portion:
    """Blocks that hold the next records from a sort key on; it is decoded on any thread.

    Attributes:
      name: of the file, for messages.
      start: the sort key. following: the key after them; None at the end.
      fetched: of all segments, newest first.
    """

    name: str
    start: int
    following: int | None
    fetched: FetchedBlocks

    def records(self, on_unsound: OnCorrupt = passed_over) -> RecordBatch:
        """Returns the newest versions of the records, in order; one that cannot be is left out and reported.

        Raises:
          CorruptRecordError: naming file, segment and block.
        """
        return take(*self.versions(on_unsound))

    def versions(self, on_unsound: OnCorrupt = passed_over) -> tuple[RecordBatch, NDArray[np.int64]]:
        """Returns all that the blocks hold, and which of it `records` would return, in order.

        Who needs few of the records takes these alone.

        Raises:
          CorruptRecordError: naming file, segment and block.
        """
        batch = self.fetched.decode()
        keys = sort_keys(batch.words)
        inside = keys >= np.uint64(self.start)
        if self.following is not None:
            inside &= keys < np.uint64(self.following)
        places = np.nonzero(inside)[0]
        keys = keys[places]
        if len(keys) > 1 and not (keys[1:] > keys[:-1]).all():
            places = places[newest_in_order(batch.words[places], keys)]
        return batch, sound_places(batch, places, on_unsound, self.name)


def fetch_portion(connection: sqlite3.Connection, catalog: Catalog, start: int) -> Portion:
    """Returns the blocks with the next records from a sort key on.

    Only the chunks around the portion are looked at, so that all portions of a file together cost what a scan
    does, and the file may be written between two of them.
    """
    cursors = [SegmentCursor(catalog, _around(catalog, segment, start)) for segment in catalog.segments]
    pivot = choose_pivot(cursors, catalog.sizes.scan_blocks, start) if cursors else None
    spans = []
    for cursor in cursors:  # the block before the first one from `start` on may reach into it
        first = max(0, cursor.blocks_below(start) - 1)
        spans += cursor.spans(first, cursor.blocks_below(pivot))
    return Portion(str(catalog.path), start, pivot, fetch_spans(connection, catalog, spans))


def _around(catalog: Catalog, segment: Segment, start: int) -> Segment:
    """Returns a segment with only the chunks that may hold the first `scan_blocks` blocks after a key."""
    first = max(0, bisect_left(segment.chunks, start, key=lambda chunk: chunk.first_key) - 1)
    return first_chunks(catalog, segment, start, catalog.sizes.scan_blocks, first=first)


def _rest(batch: RecordBatch, pivot: int) -> RecordBatch:
    """Returns the records at or above the pivot."""
    first = int(np.searchsorted(sort_keys(batch.words), np.uint64(pivot), "left"))
    return batch.part(first, len(batch))
