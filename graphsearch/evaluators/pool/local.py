"""Workers as processes of this machine: executors of `concurrent.futures`, one for each worker.

`ProcessPoolExecutor` is the standard library's, and breaks as a whole when one of its processes dies. With
one process in each executor that costs one worker and its part, and nothing is shared that a killed process
could leave locked or half-written. Pebble, whose pools replace dead workers and time tasks out by themselves,
has all workers on one pipe and one lock: one that is killed while it holds the lock stops the others, for
good (its issue 163) or, in later versions, until the lock times out. Loky's executor breaks as a whole too.

Processes are spawned, never forked: this one has threads, compiled kernels and an open SQLite file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Future,
    ProcessPoolExecutor,
    wait,
)
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from ...errors import EvaluatorError
from ..protocol import PositionBatch
from .dispatch import WorkerLostError
from .process import cores_per_worker, how_it_ended, prepare, signals_blocked
from .worker import Answer, Failure, Greeting, Make, Worker, failure_of

PATIENCE = 600.0  # seconds for the first worker: it may load a large network
LEAVING_SECONDS = 5.0  # to close evaluators

ADVICE = "a script that makes a pool needs `if __name__ == '__main__':`"

Reply = Future[Any]


class _Context(SpawnContext):
    """Spawns one process, and remembers it: an executor does not tell, and a hanging one has to be killed."""

    process: SpawnProcess | None = None

    def Process(self, *args: Any, **options: Any) -> SpawnProcess:  # type: ignore[override] # noqa: N802
        self.process = SpawnProcess(*args, **options)
        return self.process


class _Seat:
    """One worker's place: an executor with one process, and what it was asked last."""

    def __init__(self, make: Make, threads: int) -> None:
        self.context = _Context()
        with signals_blocked():  # it may start a process that counts semaphores
            self.executor = ProcessPoolExecutor(1, self.context, _begin, (make, threads))
        self.reply: Reply | None = None

    def ask(self, function: Any, *args: object) -> Reply:
        """Submits a call; the first one starts the process.

        Raises:
          WorkerLostError: if the process has ended.
          EvaluatorError: if no process can be started.
        """
        try:
            with signals_blocked():
                self.reply = self.executor.submit(function, *args)
        except RuntimeError as error:  # the executor is broken, or was closed by another thread
            if self.reply is None and not isinstance(error, BrokenExecutor):
                raise EvaluatorError(f"a worker process cannot be started; {ADVICE}") from None
            raise WorkerLostError(self.end()) from None
        except OSError as error:
            raise EvaluatorError(f"a worker process cannot be started: {error.strerror or error}") from None
        return self.reply

    def kill(self) -> None:
        """Ends the process at once."""
        if self.context.process is not None:
            with contextlib.suppress(ValueError):  # closed
                self.context.process.kill()

    def end(self) -> str:
        """Returns how the process ended, for a message."""
        process = self.context.process
        if process is None:
            return "a worker process ended"
        return how_it_ended(process)


class LocalCrew:
    """Processes of this machine as workers."""

    patience = PATIENCE
    advice = f"what the processes wrote to stderr says more; {ADVICE}"
    is_far = False

    def __init__(self, make: Make, workers: int) -> None:
        self.size = workers
        self._make = make
        self._threads = cores_per_worker(workers)
        self._seats: dict[int, _Seat] = {}

    def greet(self, number: int) -> Reply:
        """Starts a worker, again if it was lost; the reply is a `Greeting` or `Failure`."""
        if number in self._seats:
            self._seats.pop(number).executor.shutdown(wait=False, cancel_futures=True)
        self._seats[number] = _Seat(self._make, self._threads)
        return self._seats[number].ask(_greet)

    def send(self, number: int, part: PositionBatch) -> Reply:
        """Gives an idle worker a part; the reply is an `Answer` or `Failure`."""
        return self._seats[number].ask(_evaluate, part)

    def wait(self, replies: Sequence[Any], seconds: float) -> set[Any]:
        """Returns some replies that have come; none if none does in so many seconds."""
        return wait(replies, seconds, FIRST_COMPLETED).done

    def take(self, number: int, reply: Any) -> object:
        """Returns a reply that has come."""
        try:
            return reply.result()
        except (BrokenExecutor, CancelledError):
            raise WorkerLostError(self._seats[number].end()) from None
        except Exception as error:  # a part or an answer that does not survive the way
            return failure_of(error, "")

    def kill(self, number: int) -> None:
        """Ends a worker at once; its reply is lost."""
        self._seats[number].kill()

    def stop(self) -> None:
        """Ends all workers, busy ones at once, the others when they have closed their evaluators."""
        leaving: list[Reply] = []
        for seat in self._seats.values():
            if seat.reply is not None and not seat.reply.done():
                seat.kill()
                continue
            with contextlib.suppress(WorkerLostError):
                leaving.append(seat.ask(_leave))
        wait(leaving, LEAVING_SECONDS)
        for seat in self._seats.values():
            if seat.reply is not None and not seat.reply.done():
                seat.kill()

    def close(self) -> None:
        """Waits until all processes have ended."""
        for seat in self._seats.values():
            seat.executor.shutdown(wait=True, cancel_futures=True)


# ---------------------------------------------------------- in the worker's process
_worker: Worker | None = None


def _begin(make: Make, threads: int) -> None:
    """Prepares the process and what answers in it."""
    global _worker
    prepare(threads)
    _worker = Worker(make)


def _greet() -> Greeting | Failure:
    assert _worker is not None
    return _worker.greet()


def _evaluate(part: PositionBatch) -> Answer | Failure:
    assert _worker is not None
    return _worker.evaluate(part)


def _leave() -> None:
    assert _worker is not None
    _worker.leave()
