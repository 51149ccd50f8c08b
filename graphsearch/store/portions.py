"""All records of a file, portion by portion, decoded and looked at by all cores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from ..workers.process import cores_per_worker
from .scanning import Portion
from .store import Store

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
    chosen = threads or min(MOST_THREADS, cores_per_worker(1))
    return in_order(_fetched(store, start), solve, chosen)


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
    with ThreadPoolExecutor(threads, "graphsearch-portion", _let_hashes_wrap) as pool:
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


def _let_hashes_wrap() -> None:
    """Does for a thread what `jit/compiler.py` does for the first one, where kernels run as plain Python."""
    np.seterr(over="ignore")
