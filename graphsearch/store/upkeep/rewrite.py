"""Passes every record of a file through a function, while all segments are merged into one.

There are two passes, unless the file has only one segment. The first is an ordinary merge. The second reads
the merged segment in steps of whole blocks. So no block with records from below the frontier is left over:
those that the function has dropped would reappear.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...base.errors import StoreError
from .. import merging, order
from ..codec.soundness import sound_part
from ..record.node import RecordBatch
from ..scanning import passed_over
from ..segments import SegmentCursor, first_chunks
from ..store import Store
from ..tables import provenance
from ..writing import write_chunks

Transform = Callable[[RecordBatch], RecordBatch]
Progress = Callable[[int, int], None]


def rewrite(store: Store, transform: Transform, on_progress: Progress | None = None) -> None:
    """Passes every record once through `transform`, in bounded steps of one transaction each.

    All segments become one. Unsound records are left out and reported. After an interruption the file is
    sound: the records so far are transformed, and an ordinary merge copies the others unchanged.

    Args:
      transform: gets the newest versions of some 65,000 records in segment order; it may change values and
        drop records, but must not add positions or change the order.
      on_progress: called with (records done, records in all); with several segments each record counts twice.

    Raises:
      CorruptRecordError: naming a damaged block; everything before it is done.
      StoreError: if the file cannot be written; it stays consistent.
    """
    advance = Advance(on_progress, store.catalog.records if _has_many(store) else 0, store.node_count)
    merge_all(store, advance)
    if not store.catalog.segments:
        return
    with store.rearranging():
        merging.start(store.connection, store.catalog.segments)
    while merging.under_way(store.catalog):
        with store.rearranging():
            moved = _step(store, transform)
        store.shorten_log()
        advance(moved)


class Advance:
    """Counts processed records and reports the progress."""

    def __init__(self, on_progress: Progress | None, *totals: int) -> None:
        self._on_progress = on_progress
        self._done, self._total = 0, sum(totals)

    def __call__(self, records: int) -> None:
        """Adds some records to the count, and reports it."""
        self._done = min(self._done + records, self._total)
        if self._on_progress:
            self._on_progress(self._done, self._total)


def _has_many(store: Store) -> bool:
    return len(store.catalog.segments) > 1


def merge_all(store: Store, advance: Advance) -> None:
    """Merges all segments into one, in bounded steps; finishes a merge that is under way first."""
    _finish_merge(store, advance)
    if _has_many(store):
        with store.rearranging():
            merging.start(store.connection, store.catalog.segments)
        _finish_merge(store, advance)


def _finish_merge(store: Store, advance: Advance) -> None:
    while merging.under_way(store.catalog):
        before = _left(store)
        store.merge_step()
        store.shorten_log()
        advance(before - _left(store))


def _left(store: Store) -> int:
    """Returns the number of records in the inputs of the merge under way."""
    return sum(segment.records for segment in store.catalog.segments if segment.merged_into)


def _step(store: Store, transform: Transform) -> int:
    """Transforms the first records of the input and writes them to the output; returns the number read."""
    output, inputs = merging.parts_of_merge(store.catalog)
    blocks = store.catalog.sizes.step_blocks
    cursor = SegmentCursor(store.catalog, first_chunks(store.catalog, inputs[0], None, blocks))
    end = min(blocks, len(cursor.keys))
    stored = cursor.read(store.connection, end)
    batch = sound_part(stored, passed_over, str(store.path))
    pivot = int(cursor.keys[end]) if end < len(cursor.keys) else None
    kept = _checked(store, batch, transform(batch)) if len(batch) else batch
    merging.drop(store.connection, cursor, end)
    write_chunks(store.connection, store.catalog, output.id, [kept])
    merging.set_frontier(store.connection, output, inputs, pivot)
    provenance.add_nodes(store.connection, len(kept) - len(stored))
    store.records_changed(stored.words, kept if len(kept) == len(stored) else None)
    return len(stored)


def _checked(store: Store, before: RecordBatch, after: RecordBatch) -> RecordBatch:
    """Returns a transformed batch after checking it.

    Raises:
      StoreError: if records were added or moved; nothing of the step is written.
    """
    old, new = order.sort_keys(before.words), order.sort_keys(after.words)
    if len(after) > len(before) or (new[1:] < new[:-1]).any() or not np.isin(new, old).all():
        raise StoreError(f"{store.path}: a rewrite may drop and change records, but not move or add any")
    return after
