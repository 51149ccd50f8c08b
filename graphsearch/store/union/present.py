"""Looks up the target file's records for batches in segment order."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ..codec.bulk import owned, sound_places, take
from ..index.catalog import Catalog
from ..order import newest_in_order, sort_keys
from ..record.node import RecordBatch
from ..segments import OnCorrupt, SegmentCursor, Span, fetch_spans

MOST_BLOCKS = 1024  # decoded at once: some 32,000 records

U64s = NDArray[np.uint64]
Places = NDArray[np.int64]


class Present:
    """The records of a file at the time of construction; later segments are ignored.

    It reads only blocks that may have a requested record: one or two per segment for a record far from all
    others, each block once for records close together.

    Args:
      on_unsound: called for each unsound record, which counts as missing.
      translated: returns records with the numbers of another file.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        catalog: Catalog,
        on_unsound: OnCorrupt,
        translated: Callable[[RecordBatch], RecordBatch] = lambda batch: batch,
    ) -> None:
        self._connection = connection
        self._catalog = catalog
        self._translated = translated
        self._cursors = [SegmentCursor(catalog, segment) for segment in catalog.segments]
        self._on_unsound = on_unsound

    def overlaps(self, batch: RecordBatch) -> Iterator[tuple[RecordBatch, RecordBatch, Places]]:
        """Yields records, in segment order, with the file's records around them, in bounded parts.

        The third array has, for each record, the index of its position among those of the file, -1 for none.

        Raises:
          CorruptRecordError: naming file, segment and block.
        """
        from ..order_kernel import pair

        keys = sort_keys(batch.words)
        ranges = [_blocks(cursor.keys, keys) for cursor in self._cursors]
        if sum(len(blocks) for blocks in ranges) > MOST_BLOCKS and len(batch) > 1:
            middle = len(batch) // 2
            yield from self.overlaps(batch.part(0, middle))
            yield from self.overlaps(batch.part(middle, len(batch)))
            return
        spans = [
            span
            for cursor, blocks in zip(self._cursors, ranges, strict=True)
            for some in np.split(blocks, np.nonzero(np.diff(blocks) > 1)[0] + 1)
            if len(some)
            for span in cursor.spans(int(some[0]), int(some[-1]) + 1)
        ]
        old, old_keys = self._newest(spans)
        places = np.empty(len(batch), np.int64)
        words = [owned(some.words, np.uint64).reshape(-1) for some in (old, batch)]
        pair(words[0], old_keys, words[1], keys, places)
        yield batch, old, places

    def _newest(self, spans: list[Span]) -> tuple[RecordBatch, U64s]:
        """Returns the newest versions of records in `spans`, newest segment first, and their sort keys."""
        if not spans:
            return RecordBatch.empty(0, 0, 0), np.zeros(0, np.uint64)
        batch = fetch_spans(self._connection, self._catalog, spans).decode()
        keys = sort_keys(batch.words)
        places = np.arange(len(batch))
        if not (keys[1:] > keys[:-1]).all():
            places = newest_in_order(batch.words, keys)
        places = sound_places(batch, places, self._on_unsound, str(self._catalog.path))
        return self._translated(take(batch, places)), keys[places]


def _blocks(firsts: U64s, keys: U64s) -> Places:
    """Returns the blocks that may hold some ascending sort keys; `firsts`: first key of each block."""
    lows = np.maximum(np.searchsorted(firsts, keys, "left") - 1, 0)
    ends = np.searchsorted(firsts, keys, "right")
    begins = np.maximum(lows, np.append(0, ends[:-1]))  # those before are listed already
    counts = np.maximum(ends - begins, 0)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.asarray(np.repeat(begins, counts) + within, np.int64)
