"""Compacting: one segment, no superseded versions, and free pages returned to the file system."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ...base.answer import Answer
from ...base.errors import CorruptRecordError
from .. import merging
from ..file import sql_errors
from ..side_files import file_bytes
from ..store import Store
from ..transpositions import saved
from .rewrite import Advance, Progress, merge_all

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
