"""The pass over a whole file that rewrites its records, and what compacts and prunes a file with it.

    rewrite(store, change)   reads all records in segment order, and writes `change(records)` as one segment

`compact` changes nothing, `prune` drops records, and the merge of files adds those of other files. Each step
is one transaction that leaves a sound file. After an interruption any merge of segments, or the next pass,
copies the records that are left; then the same command starts again.

What changes few records (`refresh`), or slowly (`reevaluate`), appends their new versions, as a search does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..base.answer import Answer
from ..base.errors import CorruptRecordError, InvalidParameterError
from ..position.board import key_of_text
from . import entries, merging, provenance
from .block import sound_places
from .block_kernel import BLOCK
from .file import file_bytes, sql_errors
from .index import OnCorrupt
from .ranking import visits_of
from .record import RecordBatch, keys_of, take
from .segment import passed_over
from .store import Store

STEP_SECONDS = 3.0  # a killed process loses at most these
MERGING, PRUNING, FREEING = "merging", "pruning", "freeing pages"  # stages


@dataclass(frozen=True, slots=True)
class Progress:
    """How far work on a whole file is: its stage, records or rows of this stage, and more in words."""

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


# ------------------------------------------------------------------ the pass
# the records of a step, and its range of sort keys (None: no end) -> the records to write
Change = Callable[[RecordBatch, int, int | None], RecordBatch]


def rewrite(
    store: Store,
    change: Change | None = None,
    *,
    others: Sequence[Store] = (),
    advance: Callable[[int], object] = lambda records: None,
    on_unsound: OnCorrupt = passed_over,
) -> None:
    """Rewrites all records of a file as one segment, in bounded steps.

    A merge of segments that is under way ends where it stands.

    Args:
      change: returns the records to write in place of some, all in segment order; without it all stay. It may
        drop records only if the file has one segment: of several, a step leaves blocks that the next needs.
      others: files whose records it adds.
      advance: called with the number of records of this file that a step has moved.
      on_unsound: called for each unsound record, which a `change` does not get.

    Raises:
      CorruptRecordError: naming a damaged block; everything before it is done.
      StoreError: if the file cannot be written; it stays consistent.
    """
    catalog, connection = store.catalog, store.connection
    if not catalog.segments and not others:
        return
    with store.rearranging():
        merging.end(connection)
        merging.start(connection, catalog.segments)
    low: int | None = None
    while True:
        before, blocks = _left(store), catalog.sizes.step_blocks
        with store.reading():
            step = merging.next_step(connection, catalog, low, blocks, [one.catalog for one in others])
            stored, places = step.portion.versions(None)
        records = take(stored, places)
        if change:
            sound = sound_places(stored, places, on_unsound, str(store.path))
            records = change(take(stored, sound), low or 0, step.pivot)
        with store.rearranging():
            merging.finish_step(connection, catalog, step, records)
            provenance.add_nodes(connection, len(records) - len(places))
            if change:
                store.records_changed(stored.words)
        store.shorten_log()
        advance(before - _left(store))
        if (low := step.pivot) is None:
            return


def _left(store: Store) -> int:
    """Returns the number of records in the inputs of the merge under way."""
    return sum(segment.records for segment in store.catalog.segments if segment.merged_into)


def merge_all(store: Store, on_progress: OnProgress | None, stage: str = MERGING) -> None:
    """Merges all segments into one."""
    if len(store.catalog.segments) > 1:
        rewrite(store, advance=Advance(on_progress, stage, store.catalog.records))


def append_versions(
    store: Store, versions: Iterable[RecordBatch], in_step: Callable[[], object] = lambda: None
) -> None:
    """Writes new versions of records, as a search saves them, in steps of a segment each.

    After an error of `versions` it writes those that it got before. `in_step` is called in the transaction of
    every step.
    """
    waiting: list[RecordBatch] = []
    started = time.monotonic()

    def write() -> None:
        nonlocal started
        batch = RecordBatch.concat(waiting)
        waiting.clear()
        if len(batch):
            with store.rearranging():
                in_step()
                store.append(batch, fresh=0)
            store.shorten_log()
            store.merge_step()
        started = time.monotonic()

    try:
        for batch in versions:
            waiting.append(batch)
            is_late = time.monotonic() - started >= STEP_SECONDS
            if is_late or sum(map(len, waiting)) >= store.catalog.sizes.step_blocks * BLOCK:
                write()
    finally:
        write()


# ------------------------------------------------------------------ compacting
TIDY_SECONDS = 2.0  # the CPU time that tidying a file may take
MERGED_PER_SECOND = 800_000  # records of CPU time, read and written


@dataclass(frozen=True, slots=True)
class CompactReport(Answer):
    """The result of compacting.

    Attributes:
      nodes: distinct records. dropped: those with too few visits, which are gone now.
      superseded: older versions of records that are gone now.
      runs: segments before.
      bytes_before, bytes_after: size of the file with its write-ahead log.
    """

    nodes: int
    dropped: int
    superseded: int
    runs: int
    bytes_before: int
    bytes_after: int


def compact(
    path: str | os.PathLike[str], on_progress: OnProgress | None = None, *, min_visits: int = 1
) -> CompactReport:
    """Makes a graph file as small as its nodes allow, in bounded steps; it can be interrupted at any of them.

    Damaged pieces of transposition entries stay as they are; they are reported after everything else is
    compacted.

    Args:
      on_progress: called with records, then with freed pages.
      min_visits: drop the records with fewer visits, except roots of searches. The edges that lead to them
        keep their n and q; a search that reaches such a position evaluates it again, and does not repeat the
        visits of its edges. An interruption leaves a file that is pruned in part.

    Raises:
      InvalidParameterError: if `min_visits` is below 1.
      StoreLockedError: if another process is writing the file.
      CorruptRecordError: naming records, or pieces of entries, that are damaged.
      StoreError: if it is damaged or cannot be written; it stays consistent.
    """
    if min_visits < 1:
        raise InvalidParameterError(f"min_visits is {min_visits}; it must be at least 1")
    with Store.open(path) as store:
        before, segments, nodes = file_bytes(store.path), len(store.catalog.segments), store.node_count
        superseded = store.catalog.records - nodes
        merge_all(store, on_progress)
        if min_visits > 1:
            roots = np.array([key_of_text(root.key) for root in store.roots()], np.uint64)

            def kept(batch: RecordBatch, low: int, pivot: int | None) -> RecordBatch:
                stays = (visits_of(batch) >= min_visits) | np.isin(keys_of(batch.words), roots)
                return take(batch, np.nonzero(stays)[0])

            rewrite(store, kept, advance=Advance(on_progress, PRUNING, store.catalog.records))
        with store.transaction():
            damaged = entries.rewrite(store)
        shrink(store, on_progress)
        if damaged:
            more = f", and {len(damaged) - 1:,} more" if len(damaged) > 1 else ""
            raise CorruptRecordError(
                f"{damaged[0]}{more}; left as it is, all else is compacted;"
                " `graphsearch store salvage` writes a file without it"
            )
        left, after = store.node_count, file_bytes(store.path)
        return CompactReport(left, nodes - left, superseded, segments, before, after)


def tidy(store: Store, *, seconds: float = TIDY_SECONDS) -> None:
    """Drops superseded versions from a file of moderate size, and returns their space to the file system.

    A file that would take more than `seconds` of CPU time in all is skipped.
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
