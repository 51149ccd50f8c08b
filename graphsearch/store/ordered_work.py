"""Runs a function over items on several threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np

from ..base.system import cores

MOST_THREADS = 8  # each holds an item and working memory: some 10 MB

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def thread_count() -> int:
    """Returns the number of threads that read or write a file: one for each core, at most 8."""
    return min(MOST_THREADS, cores())


def in_order(items: Iterable[_Item], solve: Callable[[_Item], _Result], threads: int) -> Iterator[_Result]:
    """Yields `solve(item)` for every item in order; few results wait at once.

    A pool computes them if `threads` is above 1.
    """
    if threads < 2:
        yield from map(solve, items)
        return
    waiting: deque[Future[_Result]] = deque()
    quiet = partial(np.seterr, over="ignore")  # hashes wrap around where kernels run as plain Python
    with ThreadPoolExecutor(threads, "graphsearch-file", quiet) as pool:
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
