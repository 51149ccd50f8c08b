"""Runs calls in worker processes, here or on a Ray cluster; replaces workers that die or hang.

    submit -> queue -> idle worker -> Future
      ^                   | dies, or is killed because it hangs
      +----- again -------+---- the third in a row over one call ----> an error in the Future

Each worker runs one call at a time, and has a thread here that waits for the result. A `Site` says where the
workers run. An error is sent as text and becomes an exception again at the receiver: exceptions with
arguments of their own cannot be unpickled, and a worker that sent one would look dead.
"""

from __future__ import annotations

import atexit
import os
import platform
import threading
import traceback
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, InvalidStateError
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Protocol

from ..base import errors
from ..base.errors import EvaluatorDefectError, EvaluatorError, GraphSearchError, InvalidParameterError
from ..base.system import cores
from ..base.version import __version__

LOCAL, RAY = "local", "ray"
SAME_VERSION = "install the same version of graphsearch on all machines"
MOST_LOST = 3  # workers in a row over one call, or at their start
LEAVING_SECONDS = 5.0  # for the last call of each worker


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
    """An exception.

    Attributes:
      kind: name of a class of `graphsearch.base.errors`. text: its message. place: host name and process.
      trace: the traceback of an unexpected exception.
    """

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

    def kill(self) -> None:
        """Ends the process at once."""


class Site(Protocol):
    """The place of workers.

    Attributes:
      patience: seconds until a worker can be called. advice: if none starts.
      is_remote: whether workers may be on other machines, which messages name then.
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


@dataclass(eq=False)
class _Call:
    """A call; `name` is for messages, `lost` the workers in a row that have ended over it."""

    function: Callable[[], Any]
    future: Future[Any]
    seconds: float
    name: str
    lost: int = 0


@dataclass(eq=False)
class _Seat:
    """A worker, its replacements, and their thread.

    Attributes:
      worker: None: the next call starts one. call: under way. is_ready: whether the worker runs calls.
    """

    worker: Worker | None = None
    call: _Call | None = None
    is_ready: bool = False


class Workers(Executor):
    """An executor with a fixed number of worker processes, started when they are needed.

    Attributes:
      count: the number of workers.
    """

    closed = "the pool of workers is closed"

    def __init__(self, count: int, site: Site, last: Callable[[], Any] | None = None) -> None:
        """Starts nothing yet; `last` is called in each idle worker at the end."""
        self.count, self._site, self._last = count, site, last
        self._seats: list[_Seat] = []
        self._threads: list[threading.Thread] = []
        self._waiting: deque[_Call] = deque()
        self._changed = threading.Condition(threading.RLock())
        self._is_over = False
        atexit.register(self.close)  # before Python waits for the end of child processes

    # ---------------------------------------------------------- for callers
    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Returns the future result of a call; functions and arguments must be picklable."""
        return self.give(partial(function, *args, **kwargs))

    def start(self) -> None:
        """Starts all workers, before calls need them."""
        with self._changed:
            while len(self._seats) < self.count:
                self._add_seat()

    def give(self, call: Callable[[], Any], *, seconds: float = inf, name: str = "a call") -> Future[Any]:
        """Returns the future result of a call.

        The future has the GraphSearchError that the call raises, an EvaluatorDefectError for another
        exception, or an EvaluatorError if three workers in a row end over it, or none can be started.

        Args:
          seconds: after which its worker counts as hung, and is replaced.
          name: for messages.
        """
        found = _Call(call, Future(), seconds, name)
        with self._changed:
            if self._is_over:
                found.future.set_exception(EvaluatorError(self.closed))
                return found.future
            self._waiting.append(found)
            idle = sum(seat.call is None for seat in self._seats)
            if idle < len(self._waiting) and len(self._seats) < self.count:
                self._add_seat()
            self._changed.notify_all()
        return found.future

    def stop(self) -> None:
        """Asks calls under way to end soon, with what they have; `STOPPING` is set there."""
        with self._changed:
            for seat in self._seats:
                if seat.worker is not None:
                    seat.worker.stop()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends all workers; waits for calls that wait or are under way unless `cancel_futures`."""
        if wait and not cancel_futures:
            with self._changed:
                self._changed.wait_for(
                    lambda: not self._waiting and not any(seat.call for seat in self._seats)
                )
        self.close()

    def close(self) -> None:
        """Ends all workers; their calls, and those that wait, fail. Any thread may call it, and twice."""
        with self._changed:
            if self._is_over:
                return
            self._is_over = True
            atexit.unregister(self.close)
            busy = [seat for seat in self._seats if seat.call or not seat.is_ready]
            self._fail_waiting(EvaluatorError(self.closed))
            for seat in busy:
                if seat.call is not None:
                    _settle(seat.call.future, error=EvaluatorError(self.closed))
                if seat.worker is not None:
                    seat.worker.kill()
            self._changed.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(2 * LEAVING_SECONDS)
        self._site.close()

    # ---------------------------------------------------------- the thread of a seat
    def _add_seat(self) -> None:
        seat = _Seat()
        self._seats.append(seat)
        thread = threading.Thread(target=self._serve, args=(seat,), name="graphsearch-workers", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self, seat: _Seat) -> None:
        """Runs waiting calls with one worker after another, until all is over."""
        self._start(seat)
        while (call := self._next_call(seat)) is not None:
            self._run(seat, call)
            del call  # it refers to the caller
        if seat.worker is not None and seat.is_ready and self._last is not None:
            _finish(seat.worker, self._last)
        if seat.worker is not None:
            seat.worker.kill()

    def _next_call(self, seat: _Seat) -> _Call | None:
        """Returns the next call, once there is a worker for it; None if all is over."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or self._waiting)
                if self._is_over:
                    return None
                if seat.is_ready:
                    seat.call = self._waiting.popleft()
                    if seat.call.lost or seat.call.future.set_running_or_notify_cancel():
                        return seat.call
                    seat.call = None
                    continue
            self._start(seat)

    def _start(self, seat: _Seat) -> None:
        """Starts the worker of a seat, and waits until it can be called; else all that waits fails."""
        greeting = partial(guarded, partial(require_version, __version__))
        for _ in range(MOST_LOST):
            if self._is_over:
                return
            try:
                seat.worker = self._site.start()
                if self._is_over:  # `close` may not have seen it
                    return
                answer = seat.worker.run(greeting, self._site.patience)
                if isinstance(answer, Failure):
                    raise answer.as_error(placed=True)
                seat.is_ready = True
                return
            except WorkerLostError as lost:
                problem = f"{MOST_LOST} workers in a row ended as they started: {lost}"
            except TimeoutError:
                self._lose(seat)
                problem = f"no worker has started in {self._site.patience:.0f} s"
                break
            except Exception as error:
                self._lose(seat)
                self._fail_waiting(failure_of(error).as_error())
                return
        if not any(other.is_ready for other in self._seats):
            self._fail_waiting(EvaluatorError(f"{problem}; {self._site.advice}"))

    def _run(self, seat: _Seat, call: _Call) -> None:
        """Runs a call and settles its future; if the worker is lost, the call waits again."""
        assert seat.worker is not None
        how, found = "", None
        try:
            found = seat.worker.run(partial(guarded, call.function), call.seconds)
        except TimeoutError:
            how = f"a worker did not answer within {call.seconds:.0f} s"
        except WorkerLostError as lost:
            how = str(lost)
        except Exception as error:  # the call cannot be sent
            found = failure_of(error)
        with self._changed:
            seat.call = None
            if how:
                self._lose(seat)
                self._give_again(call, how)
            self._changed.notify_all()
        if isinstance(found, Failure):
            _settle(call.future, error=found.as_error(placed=self._site.is_remote))
        elif not how:
            _settle(call.future, found)

    def _lose(self, seat: _Seat) -> None:
        if seat.worker is not None:
            seat.worker.kill()
        seat.worker, seat.is_ready = None, False

    def _give_again(self, call: _Call, how: str) -> None:
        call.lost += 1
        if call.lost < MOST_LOST and not self._is_over:
            self._waiting.appendleft(call)
        else:
            text = f"{call.lost} workers in a row ended over {call.name}: {how}"
            _settle(call.future, error=EvaluatorError(text))

    def _fail_waiting(self, error: GraphSearchError) -> None:
        with self._changed:
            calls, self._waiting = list(self._waiting), deque()
        for call in calls:
            _settle(call.future, error=error)


def _finish(worker: Worker, last: Callable[[], Any]) -> None:
    """Makes the last call of a worker, unless it has ended or takes long."""
    try:
        worker.run(partial(guarded, last), LEAVING_SECONDS)
    except (TimeoutError, WorkerLostError):
        return


def _settle(future: Future[Any], result: Any = None, *, error: BaseException | None = None) -> None:
    """Sets the result of a future, unless it was cancelled or has one."""
    try:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
    except InvalidStateError:
        return


def check_pool(pool: str | None) -> None:
    """Raises InvalidParameterError unless a text names a pool: `local`, `ray` or `ray:ADDRESS`."""
    kind, sign, address = (pool or LOCAL).partition(":")
    if pool not in (None, LOCAL) and (kind != RAY or (sign and not address)):
        raise InvalidParameterError(f"the pool must be local, ray or ray:ADDRESS, not {pool!r}")


def threads_per_worker(workers: int, pool: str | None = None) -> int:
    """Returns the number of threads of each evaluator with so many workers.

    On this machine it is a share of the cores. An actor of Ray has reserved one CPU.

    >>> threads_per_worker(10_000), threads_per_worker(2, "ray:auto")
    (1, 1)
    """
    return max(1, cores() // workers) if pool in (None, LOCAL) else 1
