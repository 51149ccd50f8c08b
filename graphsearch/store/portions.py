"""Decodes and processes all records of a file or a cluster in portions, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from .codec.bulk import newest_in_order, sort_keys, take
from .ordered_work import in_order, thread_count
from .record.node import RecordBatch
from .scanning import Portion
from .store import Store

_Result = TypeVar("_Result")


def portions(
    store: Store,
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


def all_records(store: Store) -> Iterator[RecordBatch]:
    """Yields all records in segment order, decoded on all cores; the shards of a cluster are merged."""
    return in_file_order(portion_streams(store, Portion.records))


def portion_streams(store: Store, solve: Callable[[Portion], _Result]) -> list[Iterator[_Result]]:
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


def _fetched(store: Store, start: int | None) -> Iterator[Portion]:
    for part in store.parts:
        at = start
        while at is not None:
            portion = part.fetch_portion(at)
            yield portion
            at = portion.following
