"""An evaluator that runs in worker processes, on one or several machines."""

from __future__ import annotations

import atexit
import pickle
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import EvaluatorError, InvalidParameterError
from ..base.system import cores
from ..position.board import fen_of, unpack
from ..store.provenance import EvaluatorIdentity
from ..workers.executor import Site, Workers
from .protocol import Evaluation, Evaluator, PositionBatch, check_shapes

Make = Callable[[], Evaluator]
LOCAL, RAY = "local", "ray"
MAX_WORKERS = 1024
PART_SECONDS = 600.0  # after which a worker with a part counts as hung; it may load or compile first
PARTS = 2  # of a batch for each worker: fast workers do more than slow ones


# ---------------------------------------------------------- in a worker
_made: list[Evaluator] = []  # the evaluator of this worker process


def in_worker(
    make: Make, identity: EvaluatorIdentity | None, function: Callable[..., Any], *arguments: Any
) -> Any:
    """Returns the result of `function(evaluator, *arguments)`; the evaluator is made at the first call.

    Raises:
      EvaluatorError: if it cannot be made, or has another identity than those of other workers, if known.
    """
    if not _made:
        _made.append(make())
        atexit.register(_made[0].close)
    evaluator = _made[0]
    if identity is not None and identity != evaluator.identity:
        raise EvaluatorError(
            f"the workers' evaluators differ: {evaluator.identity.as_json()}, but {identity.as_json()};"
            " give all workers the same files and versions"
        )
    return function(evaluator, *arguments)


class Description(NamedTuple):
    """What the owner of the workers knows of their `Evaluator`."""

    identity: EvaluatorIdentity
    notes: tuple[str, ...]
    wants_lines: bool
    batch_size: int


def describe(evaluator: Evaluator) -> Description:
    """Returns the description of this process's evaluator."""
    return Description(evaluator.identity, evaluator.notes, evaluator.wants_lines, evaluator.outside_batch)


def evaluate_part(evaluator: Evaluator, part: PositionBatch) -> Evaluation:
    """Returns the evaluation of a part."""
    found = evaluator.evaluate(part)
    found = Evaluation(np.asarray(found.wdl, np.float32), np.asarray(found.priors, np.float32))
    check_shapes(part, found)
    return found


# ---------------------------------------------------------- in the process that searches
def check_pool(pool: str | None) -> None:
    """Raises InvalidParameterError unless a text names a pool: `local`, `ray` or `ray:ADDRESS`."""
    kind, sign, address = (pool or LOCAL).partition(":")
    if pool not in (None, LOCAL) and (kind != RAY or (sign and not address)):
        raise InvalidParameterError(f"the pool must be local, ray or ray:ADDRESS, not {pool!r}")


def threads_per_worker(workers: int, pool: str | None = None) -> int:
    """Returns the threads of each evaluator: here a share of the cores; an actor of Ray has reserved one CPU.

    >>> threads_per_worker(10_000), threads_per_worker(2, "ray:auto")
    (1, 1)
    """
    return max(1, cores() // workers) if pool in (None, LOCAL) else 1


def site_of(pool: str | None, count: int) -> Site:
    """Returns the place of `count` workers; EvaluatorError without Ray or its cluster."""
    check_pool(pool)
    if pool in (None, LOCAL):
        from ..workers.process import LocalSite

        return LocalSite(threads_per_worker(count))
    from ..workers.ray_workers import RaySite

    return RaySite(str(pool).partition(":")[2], count)


class Crew(Workers):
    """Workers that have the same evaluator."""

    def __init__(self, make: Make, workers: int, pool: str | None) -> None:
        """Starts nothing yet; arguments and errors are those of `PooledEvaluator`."""
        if not 1 <= workers <= MAX_WORKERS:
            raise InvalidParameterError(f"workers must be from 1 to {MAX_WORKERS}, not {workers}")
        try:
            pickle.dumps(make)
        except Exception as error:
            raise EvaluatorError(
                f"the function that makes the evaluator cannot be sent to a worker: {error}"
            ) from None
        self._make: Make = make
        self._identity: EvaluatorIdentity | None = None
        super().__init__(workers, site_of(pool, workers))

    def describe(self) -> Description:
        """Starts all workers; returns the description of the evaluator, when one worker has made it."""
        found: Description = self.ask(describe, name="the start of an evaluator").result()
        self._identity = found.identity
        return found

    def ask(
        self, function: Callable[..., Any], *arguments: Any, name: str, seconds: float = PART_SECONDS
    ) -> Future[Any]:
        """Returns the future result of `function(evaluator, *arguments)` in a worker, as `submit`."""
        call = partial(in_worker, self._make, self._identity, function, *arguments)
        return self.submit(call, seconds=seconds, name=name)


class PooledEvaluator(Evaluator):
    """Evaluates with several workers at once; results, identity and errors are those of one evaluator.

    The pool splits a batch into parts and sends them to idle workers. It replaces a worker that dies or
    hangs, and sends the part again; if three workers in a row die over one part, the batch fails.
    """

    def __init__(
        self, make: Make, workers: int, pool: str | None = LOCAL, *, timeout: float = PART_SECONDS
    ) -> None:
        """Starts the workers, and waits until the first one is ready.

        With Ray, call it on the main thread if possible: Ray changes signal handlers, and only there can they
        be restored.

        Args:
          make: returns the evaluator, in the worker; a module-level function or a `functools.partial` of one.
          workers: their number, at least 1.
          pool: `local`: processes on this machine; `ray`: actors of the Ray cluster running on this machine,
            or of a new one; `ray:HOST:PORT`, `ray:auto`: actors of a running cluster.
          timeout: seconds after which a worker with a part of a batch counts as hung.

        Raises:
          InvalidParameterError: if `workers` or `timeout` is out of range, or the pool is unknown.
          EvaluatorError: if the evaluator cannot be made, or the workers cannot be started.
        """
        if not timeout > 0:
            raise InvalidParameterError(f"timeout must be above 0 seconds, not {timeout}")
        self._crew = Crew(make, workers, pool)
        self._finalizer = weakref.finalize(self, self._crew.close)
        try:
            found = self._crew.describe()
        except BaseException:
            self.close()
            raise
        self._timeout, self._least = timeout, found.batch_size
        self.identity, self.notes, self.wants_lines = found.identity, found.notes, found.wants_lines
        self.batch_size = workers * max(PARTS, found.batch_size)

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position.

        Raises:
          EvaluatorError: if the evaluator or three workers in a row fail, no worker starts, or it is closed.
        """
        size = max(self._least, ceil(len(batch) / (PARTS * self._crew.count)))
        futures = [self._given(batch.part(at, at + size)) for at in range(0, len(batch), size)]
        try:
            return Evaluation.of_parts([future.result() for future in futures])
        finally:
            for future in futures:
                future.cancel()

    def _given(self, part: PositionBatch) -> Future[Any]:
        name = f"a part of {len(part)} positions that begins with {fen_of(unpack(part.words[0].tolist()))}"
        return self._crew.ask(evaluate_part, part, name=name, seconds=self._timeout)

    def close(self) -> None:
        """Ends the workers; a running batch fails. Safe to call from any thread, and more than once."""
        self._finalizer()

    def __enter__(self) -> PooledEvaluator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
