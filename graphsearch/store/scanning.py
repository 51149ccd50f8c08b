"""Scans all live records: reads every segment in step, and yields the newest version of each record.

`scan` works in one thread; `portions` and `all_records` decode and process records on all cores.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..base.deadline import check_time
from ..base.errors import CorruptRecordError, StoreError
from .codec.bulk import newest_in_order, sort_keys, take
from .codec.soundness import sound_places
from .index.catalog import Catalog, Segment
from .ordered_work import in_order, thread_count
from .protocol import OpenStore
from .record.node import RecordBatch
from .segments import (
    FetchedBlocks,
    OnCorrupt,
    SegmentCursor,
    choose_pivot,
    fetch_spans,
    first_chunks,
)

_Result = TypeVar("_Result")

MAX_NOTES = 20  # logged by one process; `store verify` lists all damage

_log = logging.getLogger("graphsearch")
_said: set[str] = set()


def passed_over(error: CorruptRecordError) -> None:
    """Logs skipped damage, each line once, to the logger `graphsearch` (by default stderr)."""
    line = str(error)
    if line in _said or len(_said) > MAX_NOTES:
        return
    _said.add(line)
    if len(_said) > MAX_NOTES:
        line = "and more; `graphsearch store verify` lists all"
    _log.warning("damaged, and left out: %s", line)


def scan(store: OpenStore, *, on_corrupt: OnCorrupt | None = None) -> Iterator[RecordBatch]:
    """Yields the newest version of every record, in batches of some 16,000, in segment order.

    An unsound record is left out and reported.

    Args:
      on_corrupt: called for each damaged block, which is then left out; without it the scan raises.

    Raises:
      CorruptRecordError: naming file, segment and block.
      StoreError: if this store writes during the scan.
    """
    said: set[str] = set()

    def note(error: CorruptRecordError) -> None:
        """Reports a block once, although the portions on both its sides read it."""
        if on_corrupt is None:
            raise error
        if str(error) not in said:
            said.add(str(error))
            on_corrupt(error)

    start: int | None = 0
    with store.reading(), store.snapshot():
        generation = store.catalog.generation
        while start is not None:
            found = fetch_portion(store, start)
            batch = take(*found.versions(on_corrupt or passed_over, note))
            start = found.following
            if not len(batch):
                continue
            check_time()
            yield batch
            if store.catalog.generation != generation:
                raise StoreError(f"{store.path} was written to during a scan; start the scan again")


@dataclass(frozen=True, slots=True)
class Portion:
    """Blocks with the next records from a sort key on; any thread may decode them.

    Attributes:
      name: of the file, for messages.
      start: the first sort key. following: the sort key of the next portion, None at the end.
      fetched: the blocks of all segments, newest first.
    """

    name: str
    start: int
    following: int | None
    fetched: FetchedBlocks

    def records(self, on_unsound: OnCorrupt = passed_over) -> RecordBatch:
        """Returns the newest versions of the records, in order; unsound ones are left out and reported.

        Raises:
          CorruptRecordError: naming file, segment and block.
        """
        return take(*self.versions(on_unsound))

    def versions(
        self, on_unsound: OnCorrupt = passed_over, on_corrupt: OnCorrupt | None = None
    ) -> tuple[RecordBatch, NDArray[np.int64]]:
        """Returns all decoded records, and the indices of those that `records` would return, in order.

        It is cheaper for a caller that needs few of the records. `on_corrupt`: as in `FetchedBlocks.decode`.

        Raises:
          CorruptRecordError: naming file, segment and block.
        """
        batch = self.fetched.decode(on_corrupt)
        keys = sort_keys(batch.words)
        inside = keys >= np.uint64(self.start)
        if self.following is not None:
            inside &= keys < np.uint64(self.following)
        places = np.nonzero(inside)[0]
        keys = keys[places]
        if len(keys) > 1 and not (keys[1:] > keys[:-1]).all():
            places = places[newest_in_order(batch.words[places], keys)]
        return batch, sound_places(batch, places, on_unsound, self.name)


def portion(store: OpenStore, start: int = 0) -> tuple[RecordBatch, int | None]:
    """Returns some 16,000 records from a sort key on, newest versions, in order; and the next sort key.

    Begin with 0 and pass the returned key until it is None: this scan lets the file be written between two
    portions. It may or may not return records that are added or deleted meanwhile.

    Raises:
      CorruptRecordError: naming file, segment and block.
    """
    found = fetch_portion(store, start)
    return found.records(), found.following


def fetch_portion(store: OpenStore, start: int = 0) -> Portion:
    """Returns the same portion as `portion`, still encoded, so that another thread can decode it.

    It reads only the chunks around the portion, so that all portions of a file together cost as much as a
    scan.
    """
    with store.reading() as connection, store.snapshot():
        catalog = store.catalog
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


# ------------------------------------------------------------------ on all cores
def portions(
    store: OpenStore,
    solve: Callable[[Portion], _Result],
    *,
    start: int = 0,
    threads: int | None = None,
) -> Iterator[_Result]:
    """Yields `solve(portion)` for every portion of a file, in order; those of a cluster shard by shard.

    The caller's thread reads the file, some portions ahead; other threads decode and solve.

    Args:
      store: only read, in the caller's thread. Other connections may write between two portions.
      solve: called on any thread, several at once.
      start: the sort key to begin with.
      threads: how many; default: one for each core, at most 8.

    Raises:
      CorruptRecordError: naming file, segment and block.
    """
    return in_order(_fetched(store, start), solve, threads or thread_count())


def all_records(store: OpenStore) -> Iterator[RecordBatch]:
    """Yields all records in segment order, decoded on all cores; the shards of a cluster are merged."""
    return in_file_order(portion_streams(store, Portion.records))


def portion_streams(store: OpenStore, solve: Callable[[Portion], _Result]) -> list[Iterator[_Result]]:
    """Returns the iterator of `portions` for each file of a store; they share the threads of one."""
    threads = max(1, thread_count() // len(store.parts))
    return [portions(part, solve, threads=threads) for part in store.parts]


def in_file_order(streams: Sequence[Iterator[RecordBatch]]) -> Iterator[RecordBatch]:
    """Merges streams of records, each in segment order; yields batches in segment order."""
    filled = [(batch for batch in stream if len(batch)) for stream in streams]
    held: list[RecordBatch | None] = [None] * len(filled)
    while True:
        held = [next(filled[k], None) if batch is None else batch for k, batch in enumerate(held)]
        ends = [int(sort_keys(batch.words[-1:])[0]) for batch in held if batch is not None]
        if not ends:
            return
        parts = []
        for k, batch in enumerate(held):
            if batch is not None:
                end = int(np.searchsorted(sort_keys(batch.words), np.uint64(min(ends)), "right"))
                parts.append(batch.part(0, end))
                held[k] = batch.part(end, len(batch)) if end < len(batch) else None
        merged = RecordBatch.concat([part for part in parts if len(part)])
        yield take(merged, newest_in_order(merged.words, sort_keys(merged.words)))


def _fetched(store: OpenStore, start: int | None) -> Iterator[Portion]:
    for part in store.parts:
        at = start
        while at is not None:
            portion = fetch_portion(part, at)
            yield portion
            at = portion.following
