"""The worker of a pool: one evaluator that answers part by part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...workers.child import Pipe
from ...workers.messages import Leave, Ready, failure_of, own_place
from ..protocol import Evaluator, PositionBatch

Make = Callable[[], Evaluator]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEvaluation:
    """The evaluation of a part.

    Attributes:
      wdl: `[n, 3]`. priors: `[m]`. seconds: of the evaluation.
      identity: of the evaluator, as JSON. place: host name and process of the worker.
    """

    wdl: NDArray[np.float32]
    priors: NDArray[np.float32]
    seconds: float
    identity: str
    place: str


def serve(make: Make, pipe: Pipe) -> None:
    """Makes the evaluator and evaluates the parts that come by a pipe; the main function of a worker."""
    place = own_place()
    try:
        evaluator = make()
        identity = evaluator.identity.as_json()
    except BaseException as error:  # SystemExit too: the reason must get through
        pipe.send(failure_of(error, place))
        return
    pipe.send(Ready(place, identity, evaluator.notes, evaluator.wants_lines, evaluator.batch_size))
    while not isinstance(part := pipe.recv(), Leave):
        try:
            pipe.send(_evaluated(evaluator, part, identity, place))
        except BaseException as error:
            pipe.send(failure_of(error, place))
    evaluator.close()


def _evaluated(evaluator: Evaluator, part: PositionBatch, identity: str, place: str) -> PartEvaluation:
    with compiling_alone(evaluator):
        begin = time.perf_counter()
        found = evaluator.evaluate(part)
        seconds = time.perf_counter() - begin
    wdl, priors = np.asarray(found.wdl, np.float32), np.asarray(found.priors, np.float32)
    return PartEvaluation(wdl=wdl, priors=priors, seconds=seconds, identity=identity, place=place)


def compiling_alone(evaluator: Evaluator) -> AbstractContextManager[None]:
    """Returns a context for one process of a machine at a time until the evaluator's kernels are compiled."""
    return compiled_once(f"pool-{evaluator.identity.kind}") if evaluator.calls_kernels else nullcontext()


@contextmanager
def compiled_once(purpose: str) -> Iterator[None]:
    """Runs the body alone on this machine if the kernels of a purpose are not compiled yet.

    Workers that start together wait here and then use the cache on disk, instead of compiling all at once.
    """
    from ...jit.compiler import alone, is_compiled, mark_compiled

    if is_compiled(purpose):
        yield
        return
    with alone(purpose):
        if not is_compiled(purpose):
            yield
            mark_compiled(purpose)
            return
    yield
