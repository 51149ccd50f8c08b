"""Runs a function over items on several threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from ..base.system import cores

MOST_THREADS = 8  # each holds an item and working memory: some 10 MB

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def let_hashes_wrap() -> None:
    """Lets hashes wrap around without a warning in this thread, where kernels run as plain Python.

    `jit/pointers.py` does the same for the main thread.
    """
    np.seterr(over="ignore")


def thread_count() -> int:
    """Returns the number of threads that read or write a file: one for each core, at most 8."""
    return min(MOST_THREADS, cores())


def in_order(items: Iterable[_Item], solve: Callable[[_Item], _Result], threads: int) -> Iterator[_Result]:
    """Yields `solve(item)` for every item in order, computed by a thread pool; few results wait at once."""
    waiting: deque[Future[_Result]] = deque()
    with ThreadPoolExecutor(threads, "graphsearch-file", let_hashes_wrap) as pool:
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


def shared_out(items: Iterable[_Item], solve: Callable[[_Item], _Result], threads: int) -> Iterator[_Result]:
    """Yields `solve(item)` for every item in order; a pool computes them if `threads` is above 1."""
    return in_order(items, solve, threads) if threads > 1 else map(solve, items)


def one_ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """Yields items in order; another thread produces the next one while the caller uses one."""
    with ThreadPoolExecutor(1, "graphsearch-ahead", let_hashes_wrap) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item
