"""A few threads that process a sequence: each item goes to an idle helper, else to the caller's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from .codec.unpacking import Unpacker
from .ordered_work import let_hashes_wrap

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class ReadingThreads:
    """The caller's thread and its helpers, each with an unpacker; helpers start with the first long batch.

    Attributes:
      count: of threads, the caller's included.
    """

    def __init__(self, threads: int) -> None:
        self.count = threads
        self._own = Unpacker()
        self._idle = [Unpacker() for _ in range(threads - 1)]
        self._pool: ThreadPoolExecutor | None = None
        if threads > 1:
            self._pool = ThreadPoolExecutor(threads - 1, "graphsearch-read", let_hashes_wrap)

    def close(self) -> None:
        """Stops the helpers."""
        if self._pool:
            self._pool.shutdown()

    def work(
        self,
        items: Iterable[_Item],
        solve: Callable[[Unpacker, _Item], _Result],
        take: Callable[[_Result], None],
    ) -> None:
        """Solves every item and passes the results to `take`, in the caller's thread and in any order.

        Args:
          items: produced in the caller's thread, while helpers work.
          solve: called on any thread, with an unpacker that no other thread uses.
        """
        busy: dict[Future[Any], Unpacker] = {}
        try:
            ahead = None  # the last item never goes to a helper: the caller would only wait for it
            for item in items:
                if ahead is not None:
                    self._give(ahead[0], solve, take, busy)
                ahead = (item,)
            if ahead is not None:
                take(solve(self._own, ahead[0]))
        finally:
            wait(busy)
            self._idle += busy.values()
        for future in busy:
            take(future.result())

    def _give(
        self,
        item: _Item,
        solve: Callable[[Unpacker, _Item], _Result],
        take: Callable[[_Result], None],
        busy: dict[Future[Any], Unpacker],
    ) -> None:
        if not self._idle and any(future.done() for future in busy):
            for future in [future for future in busy if future.done()]:
                self._idle.append(busy.pop(future))
                take(future.result())
        if self._pool and self._idle:
            unpacker = self._idle.pop()
            busy[self._pool.submit(solve, unpacker, item)] = unpacker
        else:
            take(solve(self._own, item))
