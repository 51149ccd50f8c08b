"""Whole-file passes: new versions of records (`rewrite`), merges of all segments (`merge_all`), and pruning.

A pass that changes records reads them in segment order, and writes those that change as one new segment:

    rewrite(store, (changed(batch) for batch in store.all_records()))

`refresh`, `reevaluate` and the merge of files are such passes. Each step is one transaction that leaves a
sound file. After an interruption the same pass, from the beginning, writes what is still missing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..base.answer import Answer
from ..base.errors import CorruptRecordError, InvalidParameterError
from ..position.board import key_of_text
from . import entries, merging, provenance
from .block import sound_part
from .block_layout_kernel import BLOCK
from .file import file_bytes, sql_errors
from .ranking import visits_of
from .record import RecordBatch, keys_of, sort_keys, take
from .segment import NewSegment, SegmentCursor, dictionary_for, first_chunks, passed_over, write_chunks
from .store import Store

STEP_SECONDS = 3.0  # a killed process loses at most these
MERGE_STEPS = 4  # most merge steps after a small step
MERGING, PRUNING, FREEING = "merging", "pruning", "freeing pages"  # stages


@dataclass(frozen=True, slots=True)
class Progress:
    """How far work on a whole file is.

    Attributes:
      stage: in one word. done, total: records, or rows, of this stage.
      note: what else there is to say, for people.
    """

    stage: str
    done: int
    total: int
    note: str = ""


OnProgress = Callable[[Progress], object]


class Advance:
    """Counts processed records of a stage, and reports the progress."""

    def __init__(self, on_progress: OnProgress | None, stage: str, total: int) -> None:
        self._on_progress, self._stage = on_progress, stage
        self._done, self._total = 0, total

    def __call__(self, records: int) -> None:
        """Adds some records to the count, and reports it."""
        self._done = min(self._done + records, self._total)
        if self._on_progress:
            self._on_progress(Progress(self._stage, self._done, self._total))


# ------------------------------------------------------------------ new versions
class Rewrite:
    """Writes new versions of records that come in segment order, in steps of one transaction each.

    Full steps make one segment, and a new one begins where the order does. A step that is due by time is a
    small segment of its own, and some ordinary merges follow it.
    """

    def __init__(self, store: Store, in_step: Callable[[], object] = lambda: None) -> None:
        """Writes nothing yet; `in_step` is called in the transaction of every step."""
        self._store, self._in_step = store, in_step
        self._waiting: list[RecordBatch] = []
        self._fresh = self._chunks = 0
        self._at_once = store.sizes.step_blocks * BLOCK  # as in a step of a merge of segments
        self._segment: NewSegment | None = None
        self._last = -1  # sort key of the last record
        self._written_at = time.monotonic()

    def add(self, batch: RecordBatch, fresh: int = 0) -> None:
        """Adds records, `fresh` of them not in the file yet; writes all that wait if a step is due.

        Raises:
          StoreError: if the file cannot be written; it stays consistent.
        """
        if len(batch):
            keys = sort_keys(batch.words)
            if int(keys.min()) <= self._last:
                self.flush()
                self._segment = None
            self._last = int(keys.max())
            self._waiting.append(batch)
            self._fresh += fresh
        is_late = time.monotonic() - self._written_at >= STEP_SECONDS
        if is_late or sum(map(len, self._waiting)) >= self._at_once:
            self.flush()

    def flush(self) -> None:
        """Writes all waiting records."""
        batch, fresh = RecordBatch.concat(self._waiting), self._fresh
        self._waiting, self._fresh = [], 0
        self._written_at = time.monotonic()
        if not len(batch):
            return
        store, is_small = self._store, len(batch) < self._at_once
        with store.rearranging():
            self._in_step()
            self._place(batch).append(batch)
            provenance.add_nodes(store.connection, fresh)
            store.records_changed(batch.words, batch)
        store.shorten_log()
        if is_small:
            self._segment = None
            for _ in range(MERGE_STEPS):
                if not store.merge_step():
                    break

    def _place(self, batch: RecordBatch) -> NewSegment:
        """Returns the segment to append a step to."""
        store, is_small = self._store, len(batch) < self._at_once
        if self._segment is None or is_small:
            dictionary = dictionary_for(store.catalog, len(batch)) if is_small else b""
            self._segment, self._chunks = NewSegment(store.connection, store.catalog, dictionary), 0
        elif self._chunks % merging.CHUNKS_ALIKE == 0:
            self._segment.dictionary = b""
        self._chunks += 1
        return self._segment


def rewrite(store: Store, versions: Iterable[RecordBatch]) -> None:
    """Writes new versions of records of a file, which come in segment order.

    Raises:
      StoreError: if the file cannot be written; it stays consistent, and all steps so far are complete.
    """
    work = Rewrite(store)
    for batch in versions:
        work.add(batch)
    work.flush()


# ------------------------------------------------------------------ merging all segments
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


def compact(path: str | os.PathLike[str], on_progress: OnProgress | None = None) -> CompactReport:
    """Makes a graph file as small as its nodes allow, in bounded steps; it can be interrupted at any of them.

    Damaged pieces of transposition entries stay as they are; they are reported after everything else is
    compacted.

    Args:
      on_progress: called with records, then with freed pages.

    Raises:
      StoreLockedError: if another process is writing the file.
      CorruptRecordError: naming records, or pieces of entries, that are damaged.
      StoreError: if it is damaged or cannot be written; it stays consistent.
    """
    with Store.open(path) as store:
        before, segments = file_bytes(store.path), len(store.catalog.segments)
        superseded = store.catalog.records - store.node_count
        merge_all(store, Advance(on_progress, MERGING, store.catalog.records))
        with store.transaction():
            damaged = entries.rewrite(store)
        shrink(store, on_progress)
        if damaged:
            more = f", and {len(damaged) - 1:,} more" if len(damaged) > 1 else ""
            raise CorruptRecordError(
                f"{damaged[0]}{more}; left as it is, all else is compacted;"
                " `graphsearch store salvage` writes a file without it"
            )
        return CompactReport(store.node_count, superseded, segments, before, file_bytes(store.path))


def tidy(store: Store, *, seconds: float = TIDY_SECONDS) -> None:
    """Drops superseded versions from a file of moderate size, and returns their space to the file system.

    Args:
      seconds: limit of the CPU time in all; a file that would take too long is skipped.

    Raises:
      StoreError: if the file cannot be written; it stays consistent.
    """
    if store.catalog.records <= min(seconds, TIDY_SECONDS) * MERGED_PER_SECOND:
        while store.merge_step(merging.TIDY):
            store.shorten_log()
        shrink(store)


def shrink(store: Store, on_progress: OnProgress | None = None) -> None:
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
            if on_progress:
                on_progress(Progress(FREEING, total - left, total))
    store.checkpoint()


# ------------------------------------------------------------------ pruning
def keep_only(
    store: Store, keep: Callable[[RecordBatch], NDArray[np.bool_]], on_progress: OnProgress | None = None
) -> None:
    """Drops the records that a function does not keep; all segments become one.

    There are two passes, unless the file has only one segment. The first is an ordinary merge. The second
    reads the merged segment in steps of whole blocks. So no block with records from below the frontier is
    left over: those that were dropped would reappear. After an interruption an ordinary merge copies the
    rest unchanged.

    Args:
      keep: returns a mask of the records to keep among some 32,000, the newest versions in segment order.
        Unsound records are dropped and reported.
      on_progress: called with records; with several segments each counts twice.

    Raises:
      CorruptRecordError: naming a damaged block; everything before it is done.
      StoreError: if the file cannot be written; it stays consistent.
    """
    first = store.catalog.records if _has_many(store) else 0
    advance = Advance(on_progress, PRUNING, first + store.node_count)
    merge_all(store, advance)
    if not store.catalog.segments:
        return
    with store.rearranging():
        merging.start(store.connection, store.catalog.segments)
    while merging.under_way(store.catalog):
        with store.rearranging():
            moved = _keep_step(store, keep)
        store.shorten_log()
        advance(moved)


def _keep_step(store: Store, keep: Callable[[RecordBatch], NDArray[np.bool_]]) -> int:
    """Writes the kept ones of the first records of the input to the output; returns the number read."""
    output, inputs = merging.parts_of_merge(store.catalog)
    blocks = store.catalog.sizes.step_blocks
    cursor = SegmentCursor(store.catalog, first_chunks(store.catalog, inputs[0], None, blocks))
    end = min(blocks, len(cursor.keys))
    stored = cursor.read(store.connection, end)
    batch = sound_part(stored, passed_over, str(store.path))
    kept = take(batch, np.nonzero(keep(batch))[0])
    merging.drop(store.connection, cursor, end)
    write_chunks(store.connection, store.catalog, output.id, [kept])
    pivot = int(cursor.keys[end]) if end < len(cursor.keys) else None
    merging.set_frontier(store.connection, output, inputs, pivot)
    provenance.add_nodes(store.connection, len(kept) - len(stored))
    store.records_changed(stored.words, kept if len(kept) == len(stored) else None)
    return len(stored)


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
    on_progress: OnProgress | None = None,
) -> PruneReport:
    """Drops the records with fewer visits, except roots of searches, and compacts the file.

    The edges that lead to them keep their n and q. A search that reaches such a position evaluates it again,
    and does not repeat the visits of its edges. An interruption leaves a sound file that is pruned in part.

    Args:
      min_visits: node N that a record must have to stay, at least 1 (which drops nothing).
      on_progress: called with records, then with freed pages.

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

        def kept(batch: RecordBatch) -> NDArray[np.bool_]:
            return np.asarray((visits_of(batch) >= min_visits) | np.isin(keys_of(batch.words), stays))

        keep_only(store, kept, on_progress)
        shrink(store, on_progress)
        return PruneReport(nodes, store.node_count, size, file_bytes(store.path))
