"""The worker's side of a pool: one evaluator, made when it is first needed, that answers part by part."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...workers.child import Pipe
from ...workers.messages import Failure, Leave, Ready, failure_of, own_place
from ..lines import Lines
from ..protocol import Evaluator, PositionBatch

Make = Callable[[], Evaluator]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEvaluation:
    """A part's evaluation: WDL `[n, 3]`, priors `[m]`, the seconds it took, and whose it is."""

    wdl: NDArray[np.float32]
    priors: NDArray[np.float32]
    seconds: float
    identity: str
    place: str


def serve(make: Make, pipe: Pipe) -> None:
    """Evaluates what comes by a pipe until it is told to leave; the process's main function."""
    worker = Worker(make)
    ready = worker.greet()
    pipe.send(ready)
    if isinstance(ready, Ready):
        while not isinstance(part := pipe.recv(), Leave):
            pipe.send(worker.evaluate(part))
        worker.leave()


class Worker:
    """One evaluator in a process of its own. It has one caller at a time."""

    def __init__(self, make: Make) -> None:
        """Takes what makes the evaluator; making it is left to the first call, which can say what fails."""
        self._make = make
        self._evaluator: Evaluator | None = None
        self._identity = ""
        self._place = own_place()

    def greet(self) -> Ready | Failure:
        """Makes the evaluator, and says which it is."""
        try:
            evaluator = self._ready()
        except BaseException as error:  # SystemExit too: the caller must not end for it
            return failure_of(error, self._place)
        return Ready(
            self._place, self._identity, evaluator.notes, evaluator.wants_lines, evaluator.batch_size
        )

    def evaluate(self, part: PositionBatch) -> PartEvaluation | Failure:
        """Evaluates some positions."""
        try:
            evaluator = self._ready()
            with compiling_alone(evaluator):
                begin = time.perf_counter()
                found = evaluator.evaluate(writable(part))
                seconds = time.perf_counter() - begin
            wdl, priors = np.asarray(found.wdl, np.float32), np.asarray(found.priors, np.float32)
        except BaseException as error:
            return failure_of(error, self._place)
        return PartEvaluation(
            wdl=wdl, priors=priors, seconds=seconds, identity=self._identity, place=self._place
        )

    def leave(self) -> None:
        """Closes an evaluator that can be closed."""
        if self._evaluator is not None:
            self._evaluator.close()

    def _ready(self) -> Evaluator:
        if self._evaluator is None:
            self._evaluator = self._make()
            self._identity = self._evaluator.identity.as_json()
        return self._evaluator


def writable(part: PositionBatch) -> PositionBatch:
    """Returns the part with arrays as every evaluator gets them; what Ray has unpickled is read-only.

    For such arrays a kernel would be compiled anew.
    """
    lines = part.lines and Lines(_writable(part.lines.words), _writable(part.lines.repeated))
    return PositionBatch(_writable(part.words), _writable(part.moves), _writable(part.offsets), lines)


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    return np.require(array, requirements=["C", "W"])


def compiling_alone(evaluator: Evaluator) -> AbstractContextManager[None]:
    """Lets one process of a machine at a time evaluate, until the evaluator's kernels are compiled."""
    return compiled_once(f"pool-{evaluator.identity.kind}") if evaluator.calls_kernels else nullcontext()


@contextmanager
def compiled_once(purpose: str) -> Iterator[None]:
    """Has the body compile the kernels of a purpose unless that is done; meanwhile others wait here.

    So workers that start together on a machine do not all compile the same; they share the cache on disk.
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
