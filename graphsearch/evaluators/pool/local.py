"""Workers as processes of this machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...workers.child import Child
from ...workers.process import ADVICE, cores_per_worker
from .worker import Make, serve


class LocalSite:
    """This machine, with its share of cores for each worker; see `dispatch.Site`."""

    patience = 600.0  # seconds: a worker may load a large network
    leaving_seconds = 5.0
    advice = ADVICE
    is_far = False

    def __init__(self, make: Make, workers: int) -> None:
        self._make = make
        self._threads = cores_per_worker(workers)

    def worker(self, number: int, heard: Callable[[object], None], lost: Callable[[str], None]) -> Child:
        """Returns a worker that was just started."""
        work, name = partial(serve, self._make), f"graphsearch-pool-{number}"
        return Child(work, name=name, threads=self._threads, hear=[heard], lost=lost)

    def close(self) -> None:
        """Does nothing: all workers have ended."""
