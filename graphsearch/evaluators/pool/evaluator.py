"""The pool as an evaluator: several processes or machines give the answers of one evaluator."""

from __future__ import annotations

import pickle
import weakref

from ...errors import EvaluatorError, InvalidParameterError
from ...store.record.provenance import EvaluatorIdentity
from ...workers.launcher import LOCAL, launcher_for
from ..protocol import OUTSIDE_BATCH, Evaluation, Evaluator, PositionBatch
from .dispatch import Dispatcher
from .worker import Make

MOST_WORKERS = 1024


class PooledEvaluator(Evaluator):
    """Evaluates with several workers at once; answers, identity and errors are those of one evaluator.

    A batch is split into parts, which go to idle workers. A worker that dies or hangs is replaced, and its
    part goes to another one; it is an error if three workers in a row die over one part.

    Attributes:
      identity: of the workers' evaluator; it is the same for all.
      notes: of the evaluator, for the user.
    """

    def __init__(
        self, make: Make, *, workers: int, pool: str = LOCAL, timeout: float | None = None, cpus: int = 1
    ) -> None:
        """Starts the workers, and waits until the first one is ready.

        With Ray this is best called on the main thread: Ray changes signal handlers, and they are set back.

        Args:
          make: returns the evaluator, in the worker; a function of a module or a `functools.partial` of one.
          workers: their number, at least 1.
          pool: `local`: processes of this machine; `ray`: actors of the Ray cluster that runs on this
            machine, or of a new one; `ray:HOST:PORT`, `ray:auto`: of a cluster that runs.
          timeout: seconds after which a worker with a part counts as hung; None: the larger of 60 s and
            twenty times the expected time, and ten minutes for a worker's first part.
          cpus: with Ray, CPUs of a machine to reserve for a worker.

        Raises:
          InvalidParameterError: for a number of workers, CPUs or seconds out of range, or an unknown pool.
          EvaluatorError: if the evaluator cannot be made, or the workers cannot be started.
        """
        _check(make, workers, timeout, cpus)
        self._dispatcher = Dispatcher(make, launcher_for(pool, workers, cpus=cpus), workers, timeout=timeout)
        self._finalizer = weakref.finalize(self, self._dispatcher.leave)
        try:
            greeting = self._dispatcher.start()
        except BaseException:
            self.close()
            raise
        self.workers, self.pool = workers, pool
        self.identity = EvaluatorIdentity.from_json(greeting.identity)
        self.notes = greeting.notes
        self.wants_lines = greeting.wants_lines
        self.batch_size = workers * max(OUTSIDE_BATCH, greeting.batch_size)

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns WDL and priors of every position.

        Raises:
          EvaluatorError: if the evaluator fails, no worker starts, or the pool is closed.
        """
        return self._dispatcher.run(batch)

    def close(self) -> None:
        """Ends the workers; a batch under way fails. It may be called from any thread, and again."""
        self._finalizer()

    def __enter__(self) -> PooledEvaluator:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def pooled(make: Make, workers: int, pool: str = LOCAL) -> PooledEvaluator:
    """Returns a pool of so many workers with the evaluator of `make`; see `PooledEvaluator`."""
    return PooledEvaluator(make, workers=workers, pool=pool)


def _check(make: Make, workers: int, timeout: float | None, cpus: int) -> None:
    if not 1 <= workers <= MOST_WORKERS:
        raise InvalidParameterError(f"workers must be from 1 to {MOST_WORKERS}, not {workers}")
    if timeout is not None and not timeout > 0:
        raise InvalidParameterError(f"timeout must be above 0 seconds, not {timeout}")
    if cpus < 1:
        raise InvalidParameterError(f"cpus must be at least 1, not {cpus}")
    try:
        pickle.dumps(make)
    except Exception as error:
        raise EvaluatorError(
            f"the function that makes the evaluator cannot be sent to a worker: {error}"
        ) from None
