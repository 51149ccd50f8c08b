"""Where a book's workers are: processes of this machine, or actors of a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Protocol

from ...errors import InvalidParameterError
from ...evaluators.pool.evaluator import LOCAL, check_place
from ...store.sharded.manifest import is_sharded
from ...workers.child import Child, Hear, Talker
from ...workers.process import ADVICE, cores_per_worker
from .worker import Setup, work

MOST_WORKERS = 256


class Site(Protocol):
    """Where workers are started.

    Attributes:
      reads_files: whether they can open the graph file.
      has_own_memory: whether theirs is that of other machines.
      threads: of each worker.
      patience: seconds to wait while none is there.
      advice: what to do if none starts.
      is_far: whether a message has to say on which machine something failed.
    """

    reads_files: bool
    has_own_memory: bool
    threads: int
    patience: float
    advice: str
    is_far: bool

    def worker(
        self,
        number: int,
        setup: Setup,
        *,
        hear: Sequence[Hear],
        died: Callable[[], None],
        lost: Callable[[str], None],
    ) -> Talker:
        """Returns a worker that was just started; the rest as `Talker` has it.

        Raises:
          EvaluatorError: if none can be.
        """

    def close(self) -> None:
        """Gives back what is left, once nobody waits for workers any more."""


class LocalSite:
    """This machine, with its share of cores for each worker."""

    has_own_memory = False
    patience = inf
    advice = ADVICE
    is_far = False

    def __init__(self, workers: int, *, reads_files: bool) -> None:
        self.threads = cores_per_worker(workers)
        self.reads_files = reads_files

    def worker(
        self,
        number: int,
        setup: Setup,
        *,
        hear: Sequence[Hear],
        died: Callable[[], None],
        lost: Callable[[str], None],
    ) -> Talker:
        """Returns a worker that was just started."""
        name = f"graphsearch-book-{number}"
        return Child(partial(work, setup), name=name, threads=self.threads, hear=hear, died=died, lost=lost)

    def close(self) -> None:
        """Does nothing: processes end with this one."""


def site_for(path: str | os.PathLike[str], workers: int, pool: str | None = None) -> Site:
    """Returns the place that `--pool` names: `local`, `ray` or `ray:ADDRESS`.

    Args:
      path: of the graph; processes of this machine can open it if it is one file.

    Raises:
      InvalidParameterError: if the pool is none, or for a number of workers out of range.
      EvaluatorError: if Ray is not installed, or there is no such cluster.
    """
    if not 1 <= workers <= MOST_WORKERS:
        raise InvalidParameterError(f"workers must be from 1 to {MOST_WORKERS}, not {workers}")
    where = pool or LOCAL
    check_place(where)
    if where == LOCAL:
        return LocalSite(workers, reads_files=not is_sharded(path))
    from .ray_site import RaySite

    return RaySite(where.partition(":")[2], workers)
