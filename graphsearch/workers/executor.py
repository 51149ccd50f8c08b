"""Runs calls in worker processes, here or on a Ray cluster; replaces workers that die or hang.

    submit -> queue -> idle worker -> Future
      ^                   | dies, or is killed because it hangs
      +----- again -------+---- the third in a row over one call ----> an error in the Future

Each worker runs one call at a time; each call has a thread here that waits for a worker, then for a result.
An error is sent as text and becomes an exception again at the receiver: exceptions with own arguments cannot
be unpickled, and a worker that sent one would look dead.
"""

from __future__ import annotations

import atexit
import os
import platform
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Protocol

from ..base import errors
from ..base.errors import EvaluatorDefectError, EvaluatorError, GraphSearchError
from ..base.version import __version__

SAME_VERSION = "install the same version of graphsearch on all machines"
MOST_LOST = 3  # workers in a row over one call, or at their start
LEAVING_SECONDS = 5.0  # for an idle worker to close its evaluator


# ---------------------------------------------------------- in a worker
class WorkerLostError(Exception):
    """Raised if a worker has ended; the message says how."""


STOPPING = threading.Event()  # of this process: the owner wants calls to end soon; as the `stop` of a search


def require_version(version: str) -> None:
    """Raises EvaluatorError unless this worker has the owner's version of graphsearch."""
    if version != __version__:
        raise EvaluatorError(f"it has graphsearch {__version__}, this machine has {version}; {SAME_VERSION}")


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception: its class in `base.errors`, its text, its host and process, the traceback of a defect."""

    kind: str
    text: str
    place: str = ""
    trace: str = ""

    def as_error(self, *, placed: bool = False) -> GraphSearchError:
        """Returns the exception, with the place in its text if `placed`.

        >>> Failure("EvaluatorError", "no such network", "pc, process 7").as_error(placed=True)
        EvaluatorError('no such network (pc, process 7)')
        """
        kind: type[GraphSearchError] = getattr(errors, self.kind)
        text = f"{self.text} ({self.place})" if placed and self.place else self.text
        return EvaluatorDefectError(text, self.trace) if self.trace else kind(text)


def failure_of(error: BaseException) -> Failure:
    """Returns the message for an exception in this process.

    >>> failure_of(ZeroDivisionError("division by zero")).text
    'the evaluator failed: ZeroDivisionError: division by zero'
    """
    place = f"{platform.node()}, process {os.getpid()}"
    if not isinstance(error, GraphSearchError):
        trace = "".join(traceback.format_exception(error))
        text = f"the evaluator failed: {type(error).__name__}: {error}"
        return Failure(EvaluatorDefectError.__name__, text, place, trace)
    ours = next(base for base in type(error).__mro__ if base.__module__ == errors.__name__)
    trace = error.trace if isinstance(error, EvaluatorDefectError) else ""
    return Failure(ours.__name__, str(error), place, trace)


def guarded(call: Callable[[], Any]) -> Any:
    """Returns the result of a call, or its Failure; SystemExit too: the caller needs the reason."""
    try:
        return call()
    except BaseException as error:
        return failure_of(error)


# ---------------------------------------------------------- the owner of the workers
class Worker(Protocol):
    """A process that runs calls; it is never restarted: the executor starts another one."""

    def run(self, call: Callable[[], Any], seconds: float = inf) -> Any:
        """Returns the result of a call there.

        Raises:
          TimeoutError: if it takes longer.
          WorkerLostError: if the worker has ended.
        """

    def stop(self) -> None:
        """Sets `STOPPING` there."""

    def leave(self) -> None:
        """Tells the process, which runs no call, to end in order."""

    def kill(self, seconds: float = 0.0) -> None:
        """Ends the process, unless it ends by itself within some seconds."""


class Site(Protocol):
    """The place of workers.

    Attributes:
      patience: seconds until a worker can be called. advice: if none starts.
      is_remote: whether messages name the machines of workers.
    """

    patience: float
    advice: str
    is_remote: bool

    def start(self) -> Worker:
        """Returns a worker that starts now, or as soon as a machine has room.

        Raises:
          EvaluatorError: if no worker can be started.
        """

    def close(self) -> None:
        """Releases all resources, when no worker is needed any more."""


class Workers:
    """An executor with a fixed number of worker processes; all start with the first call.

    Attributes:
      count: the number of workers.
    """

    def __init__(self, count: int, site: Site) -> None:
        """Starts nothing yet."""
        self.count, self._site = count, site
        self._all: list[Worker] = []
        self._idle: deque[Worker] = deque()
        self._places = self._ready = 0  # of workers, also of those that start; workers that can be called
        self._waiting = 0  # calls, for a worker
        self._problem: GraphSearchError | None = None  # why no worker comes for them
        self._threads: list[threading.Thread] = []
        self._changed = threading.Condition(threading.RLock())
        self._is_over = False
        atexit.register(self.close)  # before Python waits for the end of child processes

    # ---------------------------------------------------------- for callers
    def submit(self, call: Callable[[], Any], *, seconds: float = inf, name: str = "a call") -> Future[Any]:
        """Returns the future result of a call, which must be picklable.

        The future has the GraphSearchError that the call raises, an EvaluatorDefectError for another
        exception, or an EvaluatorError if three workers in a row end over it, or none can be started.

        Args:
          seconds: after which its worker counts as hung, and is replaced.
          name: for messages.
        """
        future: Future[Any] = Future()
        self._begin(self._serve, future, call, seconds, name)
        return future

    def stop(self) -> None:
        """Asks calls under way to end soon, with what they have; `STOPPING` is set there."""
        with self._changed:
            for worker in self._all:
                worker.stop()

    def close(self) -> None:
        """Ends all workers; their calls, and those that wait, fail. Any thread may call it, and twice."""
        with self._changed:
            if self._is_over:
                return
            self._is_over = True
            atexit.unregister(self.close)
            idle = list(self._idle)
            for worker in self._all:
                worker.leave() if worker in idle else worker.kill()
            self._changed.notify_all()
        until = time.monotonic() + LEAVING_SECONDS
        for worker in idle:
            worker.kill(max(0.0, until - time.monotonic()))
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(2 * LEAVING_SECONDS)
        self._site.close()

    # ---------------------------------------------------------- threads: one for each call, and each start
    def _begin(self, work: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=work, args=arguments, name="graphsearch-workers", daemon=True)
        with self._changed:
            thread.start()
            self._threads = [*filter(threading.Thread.is_alive, self._threads), thread]

    def _serve(self, future: Future[Any], call: Callable[[], Any], seconds: float, name: str) -> None:
        """Settles the future of a call."""
        with suppress(InvalidStateError):  # it was cancelled
            try:
                future.set_result(self._result(future, call, seconds, name))
            except GraphSearchError as error:
                future.set_exception(error)

    def _result(self, future: Future[Any], call: Callable[[], Any], seconds: float, name: str) -> Any:
        """Returns the result of a call, from the first worker that survives it; None if it was cancelled."""
        how = ""
        for _ in range(MOST_LOST):
            worker = self._take()
            if not how and not future.set_running_or_notify_cancel():
                return self._put(worker)
            try:
                found = worker.run(partial(guarded, call), seconds)
            except (TimeoutError, WorkerLostError) as lost:
                how = str(lost) or f"a worker did not answer within {seconds:.0f} s"
                self._drop(worker)
                with self._changed:
                    self._places, self._ready = self._places - 1, self._ready - 1
                    self._fill_places()
                continue
            except Exception as error:  # the call cannot be sent
                found = failure_of(error)
            self._put(worker)
            if isinstance(found, Failure):
                raise found.as_error(placed=self._site.is_remote)
            return found
        raise EvaluatorError(f"{MOST_LOST} workers in a row ended over {name}: {how}")

    def _take(self) -> Worker:
        """Returns an idle worker, once there is one."""
        with self._changed:
            self._fill_places()
            self._waiting += 1
            self._changed.wait_for(lambda: self._is_over or self._problem or self._idle)
            self._waiting -= 1
            problem = EvaluatorError("the pool of workers is closed") if self._is_over else self._problem
            if not self._waiting:
                self._problem = None
            if problem is not None:
                raise problem
            return self._idle.popleft()

    def _put(self, worker: Worker) -> None:
        with self._changed:
            self._idle.append(worker)
            self._changed.notify_all()

    def _drop(self, worker: Worker) -> None:
        worker.kill()
        with self._changed:
            self._all.remove(worker)

    def _fill_places(self) -> None:
        while self._places < self.count and not self._is_over:
            self._places += 1
            self._begin(self._start)

    def _start(self) -> None:
        """Starts a worker, and waits until it can be called; else the calls that wait for one may fail."""
        for _ in range(MOST_LOST):
            is_final = False
            if self._is_over:
                return None
            try:
                return self._put(self._started())
            except WorkerLostError as lost:
                text = f"{MOST_LOST} workers in a row ended as they started: {lost}; {self._site.advice}"
                problem: GraphSearchError = EvaluatorError(text)
            except TimeoutError:
                text = f"no worker has started in {self._site.patience:.0f} s; {self._site.advice}"
                problem = EvaluatorError(text)
                break
            except Exception as error:
                problem, is_final = failure_of(error).as_error(), True
                break
        with self._changed:
            self._places -= 1
            if is_final or not self._ready:
                self._problem = problem
            self._changed.notify_all()
        return None

    def _started(self) -> Worker:
        """Returns a new worker that can be called."""
        worker = self._site.start()
        with self._changed:
            self._all.append(worker)
            if self._is_over:  # `close` may not have seen it
                worker.kill()
        try:
            answer = worker.run(partial(guarded, partial(require_version, __version__)), self._site.patience)
            if isinstance(answer, Failure):
                raise answer.as_error(placed=True)
        except BaseException:
            self._drop(worker)
            raise
        with self._changed:
            self._ready += 1
        return worker
