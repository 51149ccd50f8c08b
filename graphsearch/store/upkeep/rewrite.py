"""Passes every record of a file through a function, while all segments are merged into one: `rewrite`.

There are two passes, unless the file has only one segment. The first is an ordinary merge. The second reads
the merged segment in steps of whole blocks. So no block with records from below the frontier is left over:
those that the function has dropped would reappear.

`compact` is the first pass alone, and `prune` a rewrite that drops records; both then give the space back.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...base.answer import Answer
from ...base.errors import CorruptRecordError, InvalidParameterError, StoreError
from ...position.board import key_of_text
from .. import merging, order
from ..codec.bulk import take
from ..codec.soundness import sound_part
from ..file import sql_errors
from ..record.node import RecordBatch
from ..record.ranking import visits_of
from ..scanning import passed_over
from ..segments import SegmentCursor, first_chunks, keys_of
from ..side_files import file_bytes
from ..store import Store
from ..tables import provenance
from ..transpositions import saved
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


# ------------------------------------------------------------------ compacting
TIDY_SECONDS = 2.0  # the CPU time that tidying a file may take
MERGED_PER_SECOND = 800_000  # records of CPU time, read and written


@dataclass(frozen=True, slots=True)
class CompactReport(Answer):
    """The result of compacting.

    Attributes:
      nodes: distinct records.
      superseded: older versions of records that are gone now.
      runs: segments before.
      bytes_before, bytes_after: size of the file with its write-ahead log.
    """

    nodes: int
    superseded: int
    runs: int
    bytes_before: int
    bytes_after: int


def compact(path: str | os.PathLike[str], progress: Progress | None = None) -> CompactReport:
    """Makes a graph file as small as its nodes allow, in bounded steps; it can be interrupted at any of them.

    Damaged pieces of transposition entries stay as they are; they are reported after everything else is
    compacted.

    Args:
      progress: called with records done and records in all, then with pages freed and pages in all.

    Raises:
      StoreLockedError: if another process is writing the file.
      CorruptRecordError: naming records, or pieces of entries, that are damaged.
      StoreError: if it is damaged or cannot be written; it stays consistent.
    """
    with Store.open(path) as store:
        before, segments = file_bytes(store.path), len(store.catalog.segments)
        superseded = store.catalog.records - store.node_count
        merge_all(store, Advance(progress, store.catalog.records))
        damaged = saved.tidy(store)
        shrink(store, progress)
        if damaged:
            more = f", and {len(damaged) - 1:,} more" if len(damaged) > 1 else ""
            raise CorruptRecordError(
                f"{damaged[0]}{more}; left as it is, all else is compacted;"
                " `graphsearch store salvage` writes a file without it"
            )
        return CompactReport(store.node_count, superseded, segments, before, file_bytes(store.path))


def tidy(store: Store, *, seconds: float = TIDY_SECONDS, progress: Progress | None = None) -> None:
    """Drops superseded versions from a file of moderate size, and returns their space to the file system.

    Args:
      progress: called as by `compact`.
      seconds: limit of the CPU time in all; a file that would take too long is skipped.

    Raises:
      StoreError: if the file cannot be written; it stays consistent.
    """
    if store.catalog.records <= min(seconds, TIDY_SECONDS) * MERGED_PER_SECOND:
        while store.merge_step(merging.TIDY):
            store.shorten_log()
            if progress:
                progress(0, store.catalog.records)
        shrink(store, progress)


def shrink(store: Store, progress: Progress | None = None) -> None:
    """Frees unused pages to the file system and empties the write-ahead log.

    It moves pages in steps of 1024, each a transaction. The log stays as long as a reader needs it.
    """
    connection = store.connection
    with sql_errors(store.path, "write to it"):
        total = left = int(connection.execute("PRAGMA freelist_count").fetchone()[0])
        while left:
            # a script, because it has to be stepped once a page, and `execute` steps once
            connection.executescript(f"PRAGMA incremental_vacuum({store.catalog.sizes.vacuum_pages})")
            before, left = left, int(connection.execute("PRAGMA freelist_count").fetchone()[0])
            if left == before:  # a file that was made without `auto_vacuum`
                break
            store.shorten_log()
            if progress:
                progress(total - left, total)
    store.checkpoint()


# ------------------------------------------------------------------ pruning
@dataclass(frozen=True, slots=True)
class PruneReport(Answer):
    """The result of pruning; bytes are those of the file with its write-ahead log."""

    nodes_before: int
    nodes_after: int
    bytes_before: int
    bytes_after: int


def prune(
    path: str | os.PathLike[str],
    min_visits: int,
    progress: Progress | None = None,
) -> PruneReport:
    """Drops the records with fewer visits, except roots of searches, and compacts the file.

    The edges that lead to them keep their n and q. A search that reaches such a position evaluates it again,
    and does not repeat the visits of its edges. An interruption leaves a sound file that is pruned in part.

    Args:
      min_visits: node N that a record must have to stay, at least 1 (which drops nothing).
      progress: called with records done and records in all, then with pages freed and pages in all.

    Raises:
      InvalidParameterError: if `min_visits` is below 1.
      StoreLockedError: if another process is writing the file.
      StoreError: if it is damaged or cannot be written; it stays consistent.
    """
    if min_visits < 1:
        raise InvalidParameterError(f"min_visits is {min_visits}; it must be at least 1")
    with Store.open(path) as store:
        nodes, size = store.node_count, file_bytes(store.path)
        stays = np.array([key_of_text(root.key) for root in store.roots()], np.uint64)

        def kept(batch: RecordBatch) -> RecordBatch:
            stay = (visits_of(batch) >= min_visits) | np.isin(keys_of(batch.words), stays)
            return take(batch, np.nonzero(stay)[0])

        rewrite(store, kept, progress)
        shrink(store, progress)
        return PruneReport(nodes, store.node_count, size, file_bytes(store.path))
