"""All records of a file or a cluster, portion by portion, decoded and looked at by all cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from ..workers.process import cores_per_worker
from .codec.bulk import newest_in_order, sort_keys, take
from .record.node import RecordBatch
from .scanning import Portion
from .store import Store
from .threads import let_hashes_wrap

MOST_THREADS = 8  # each holds a portion and its unpacker: some 10 MB

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def portions(
    store: Store,
    solve: Callable[[Portion], _Result],
    *,
    start: int = 0,
    threads: int | None = None,
) -> Iterator[_Result]:
    """Yields what `solve` makes of every portion of a file, in order; of a cluster shard by shard.

    The caller's thread reads the file, some portions ahead; other threads decode and solve.

    Args:
      store: only read, in the caller's thread. Others may write the file between two portions.
      solve: called on any thread, some at once.
      start: the sort key to begin with.
      threads: how many; default: one for each core, at most 8.

    Raises:
      CorruptRecordError: naming file, segment and block.
    """
    return in_order(_fetched(store, start), solve, threads or _threads())


def all_records(store: Store) -> Iterator[RecordBatch]:
    """Yields all records, decoded by all cores, in the order of one file: of a cluster too."""
    return in_file_order(portion_streams(store, Portion.records))


def portion_streams(store: Store, solve: Callable[[Portion], _Result]) -> list[Iterator[_Result]]:
    """Returns what `portions` yields, for each file of a store; together they have the threads of one."""
    threads = max(1, _threads() // len(store.parts))
    return [portions(part, solve, threads=threads) for part in store.parts]


def in_file_order(streams: Sequence[Iterator[RecordBatch]]) -> Iterator[RecordBatch]:
    """Yields the records of several files, each in its order, in the order of one file, in batches."""
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


def _threads() -> int:
    return min(MOST_THREADS, cores_per_worker(1))


def _fetched(store: Store, start: int | None) -> Iterator[Portion]:
    for part in store.parts:
        at = start
        while at is not None:
            portion = part.fetch_portion(at)
            yield portion
            at = portion.following


def in_order(items: Iterable[_Item], solve: Callable[[_Item], _Result], threads: int) -> Iterator[_Result]:
    """Yields `solve(item)` for every item in order, made by some threads; few are held at once."""
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads, "graphsearch-portion", let_hashes_wrap) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(solve, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
