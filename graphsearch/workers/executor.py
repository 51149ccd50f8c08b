"""Runs calls in worker processes, here or on a Ray cluster; replaces workers that die or hang.

    submit -> queue -> idle worker -> Future
      ^                   | dies, or is killed because it hangs
      +----- again -------+---- the third in a row over one call ----> an error in the Future

Each worker runs one call at a time. `workers_for` says where the workers run.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, InvalidStateError
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Protocol

from ..base.errors import EvaluatorError, GraphSearchError, InvalidParameterError
from ..base.system import cores
from .calls import START_SECONDS, Failure, Greeting, greeting, guarded

LOCAL, RAY = "local", "ray"
MOST_LOST = 3  # workers in a row over one call, or at their start


class Worker(Protocol):
    """A process that runs calls; it is never restarted: the executor starts another one.

    Attributes:
      pid: of the process; 0 if it is on another machine.
    """

    pid: int

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Returns the result of a call there; an exception of the future means that the worker has ended."""

    def stop(self) -> None:
        """Makes `calls.STOPPING` true there."""

    def kill(self) -> None:
        """Ends the process at once."""

    def how_it_ended(self, error: BaseException) -> str:
        """Returns how the process ended, for a message; `error`: of its future."""


class Site(Protocol):
    """The place of workers.

    Attributes:
      patience: seconds until the first worker can be called. advice: if none starts.
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


Allowance = Callable[[bool], float]  # seconds of a call; whether it is the worker's first


@dataclass(eq=False)
class _Call:
    """A call; `name` is for messages, `lost` the workers in a row that have ended over it."""

    function: Callable[[], Any]
    future: Future[Any]
    seconds: Allowance
    name: str
    lost: int = 0


@dataclass(eq=False)
class _Seat:
    """A worker's number and state; a replacement gets the same seat.

    Attributes:
      call: under way; None: idle, or not greeted yet. deadline: when the worker counts as hung.
      answers: number of its results. lost_at_start: workers in a row that ended before they could be called.
    """

    number: int
    worker: Worker | None = None
    is_ready: bool = False
    call: _Call | None = None
    deadline: float = inf
    answers: int = 0
    lost_at_start: int = 0


class Workers(Executor):
    """An executor with a fixed number of worker processes, started when they are needed.

    Attributes:
      count: the number of workers.
    """

    closed = "the pool of workers is closed"

    def __init__(
        self,
        count: int,
        site: Site,
        begin: Callable[[], Any] | None = None,
        check: Callable[[Any], None] = lambda begun: None,
    ) -> None:
        """Starts nothing yet.

        Args:
          begin: called first in each worker; if it fails, so do all calls that wait.
          check: called with its results; raises EvaluatorError if that worker must not be used.
        """
        self.count, self._site = count, site
        self._begin, self._check = begin, check
        self._seats = [_Seat(number) for number in range(count)]
        self._waiting: deque[_Call] = deque()
        self._changed = threading.Condition(threading.RLock())
        self._is_over = False
        self._begun = inf  # when a call began to wait for the first worker
        self._watch: threading.Thread | None = None

    @property
    def processes(self) -> list[int]:
        """The ids of the running processes of this machine."""
        with self._changed:
            return [seat.worker.pid for seat in self._seats if seat.worker is not None and seat.worker.pid]

    # ---------------------------------------------------------- for callers
    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Returns the future result of a call; functions and arguments must be picklable."""
        return self.give(partial(function, *args, **kwargs))

    def start(self) -> None:
        """Starts all workers, before calls need them."""
        with self._changed:
            for seat in self._seats:
                if seat.worker is None and not self._is_over:
                    self._start(seat)
            self._watch_over()

    def give(
        self, call: Callable[[], Any], *, seconds: Allowance = lambda first: inf, name: str = "a call"
    ) -> Future[Any]:
        """Returns the future result of a call.

        The future has the GraphSearchError that the call raises, an EvaluatorDefectError for another
        exception, or an EvaluatorError if three workers in a row end over it, or none can be started.

        Args:
          seconds: returns the seconds after which its worker counts as hung, and is replaced.
          name: for messages.
        """
        found = _Call(call, Future(), seconds, name)
        with self._changed:
            if self._is_over:
                found.future.set_exception(EvaluatorError(self.closed))
                return found.future
            self._waiting.append(found)
            self._hand_out()
            self._watch_over()
        return found.future

    def stop(self) -> None:
        """Asks calls under way to end soon, with what they have; `calls.STOPPING` says so there."""
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

    def close(self, *, last: Callable[[], Any] | None = None, seconds: float = 0.0) -> None:
        """Ends all workers; calls that wait or are under way fail. Safe to call from any thread, and twice.

        Args:
          last: called in each idle worker, within so many seconds.
        """
        with self._changed:
            if self._is_over:
                return
            self._is_over = True
            calls = [*self._waiting, *(seat.call for seat in self._seats if seat.call)]
            self._waiting.clear()
            idle = [seat.worker for seat in self._seats if seat.worker and seat.is_ready and not seat.call]
            workers = [seat.worker for seat in self._seats if seat.worker is not None]
            leaving = [worker.submit(partial(guarded, last)) for worker in idle] if last else []
            self._changed.notify_all()
        for call in calls:
            _settle(call.future, error=EvaluatorError(self.closed))
        wait_for(leaving, seconds)
        for worker in workers:
            worker.kill()
        self._site.close()

    # ---------------------------------------------------------- handing out; the caller holds `_changed`
    def _hand_out(self) -> None:
        """Gives calls to idle workers, and starts workers for the others."""
        self._waiting = deque(call for call in self._waiting if not call.future.done())
        for seat in self._seats:
            if self._is_over or not self._waiting:
                return
            if seat.worker is None:
                if self._count_starting() < len(self._waiting):
                    self._start(seat)
            elif seat.is_ready and seat.call is None:
                call = self._waiting.popleft()
                seat.call, seat.deadline = call, time.monotonic() + call.seconds(not seat.answers)
                future = seat.worker.submit(partial(guarded, call.function))
                future.add_done_callback(partial(self._ended, seat, seat.worker))

    def _count_starting(self) -> int:
        return sum(seat.worker is not None and not seat.is_ready for seat in self._seats)

    def _start(self, seat: _Seat) -> None:
        try:
            worker = self._site.start()
        except GraphSearchError as error:
            self._fail_waiting(error)
            return
        seat.worker, seat.is_ready, seat.answers = worker, False, 0
        seat.deadline = time.monotonic() + START_SECONDS if worker.pid else inf
        if self._begun == inf and not any(seat.is_ready for seat in self._seats):
            self._begun = time.monotonic()
        worker.submit(partial(greeting, self._begin)).add_done_callback(partial(self._greeted, seat, worker))

    def _fail_waiting(self, error: GraphSearchError) -> None:
        calls, self._waiting = list(self._waiting), deque()
        for call in calls:
            _settle(call.future, error=error)

    # ---------------------------------------------------------- results
    def _greeted(self, seat: _Seat, worker: Worker, future: Future[Greeting]) -> None:
        with self._changed:
            self._begun = inf
            if seat.worker is not worker or self._is_over:
                return
            seat.deadline = inf
            error = future.exception()
            if error is not None:
                self._lost_at_start(seat, worker.how_it_ended(error))
            else:
                self._admit(seat, worker, future.result())
            self._hand_out()
            self._changed.notify_all()

    def _admit(self, seat: _Seat, worker: Worker, greeting: Greeting) -> None:
        """Makes a worker ready for calls, unless its start has failed."""
        try:
            if greeting.fault:
                raise EvaluatorError(greeting.fault)
            if isinstance(greeting.begun, Failure):
                raise greeting.begun.as_error(placed=self._site.is_remote)
            self._check(greeting.begun)
        except GraphSearchError as error:
            worker.kill()
            seat.worker = None
            self._fail_waiting(error)
        else:
            seat.is_ready, seat.lost_at_start = True, 0

    def _lost_at_start(self, seat: _Seat, how: str) -> None:
        seat.worker = None
        seat.lost_at_start += 1
        if seat.lost_at_start >= MOST_LOST:
            seat.lost_at_start = 0
            text = f"{MOST_LOST} workers in a row ended as they started: {how}; {self._site.advice}"
            self._fail_waiting(EvaluatorError(text))

    def _ended(self, seat: _Seat, worker: Worker, future: Future[Any]) -> None:
        """Settles a call that has ended, or gives it to another worker if its worker was lost."""
        error = future.exception()
        how = "" if error is None else worker.how_it_ended(error)
        with self._changed:
            call, seat.call, seat.deadline = seat.call, None, inf
            seat.answers += 1
            if error is not None:
                worker.kill()
                seat.worker, seat.is_ready = None, False
                if call is not None:
                    self._give_again(call, how)
            self._hand_out()
            self._changed.notify_all()
        if call is not None and error is None:
            self._answer(call, future.result())

    def _give_again(self, call: _Call, how: str) -> None:
        call.lost += 1
        if self._is_over:
            return
        if call.lost < MOST_LOST:
            self._waiting.appendleft(call)
        else:
            text = f"{call.lost} workers in a row ended over {call.name}: {how}"
            _settle(call.future, error=EvaluatorError(text))

    def _answer(self, call: _Call, found: Any) -> None:
        if isinstance(found, Failure):
            _settle(call.future, error=found.as_error(placed=self._site.is_remote))
        else:
            _settle(call.future, found)

    # ---------------------------------------------------------- hung workers
    def _watch_over(self) -> None:
        """Has deadlines watched."""
        if self._watch is None:
            self._watch = threading.Thread(
                target=self._watch_deadlines, name="graphsearch-workers", daemon=True
            )
            self._watch.start()
        self._changed.notify_all()

    def _watch_deadlines(self) -> None:
        """Kills the workers that are past their deadline, until all is over."""
        with self._changed:
            while not self._is_over:
                now = time.monotonic()
                for seat in self._seats:
                    if seat.worker is not None and now >= seat.deadline:
                        seat.deadline = inf
                        seat.worker.kill()
                if now >= self._begun + self._site.patience:
                    self._begun = inf
                    seconds = f"no worker has started in {self._site.patience:.0f} s"
                    self._fail_waiting(EvaluatorError(f"{seconds}; {self._site.advice}"))
                soonest = min(self._begun + self._site.patience, *(seat.deadline for seat in self._seats))
                self._changed.wait(min(max(0.0, soonest - now), 3600.0))


def _settle(future: Future[Any], result: Any = None, *, error: BaseException | None = None) -> None:
    """Sets the result of a future, unless it was cancelled or has one."""
    try:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
    except InvalidStateError:
        return


def cores_per_worker(workers: int) -> int:
    """Returns the number of this process's cores for each worker, at least 1."""
    return max(1, cores() // workers)


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
    return cores_per_worker(workers) if pool in (None, LOCAL) else 1


def workers_for(
    pool: str | None,
    count: int,
    *,
    cpus: int = 1,
    begin: Callable[[], Any] | None = None,
    check: Callable[[Any], None] = lambda begun: None,
) -> Workers:
    """Returns the workers of a pool: `local`, `ray` or `ray:ADDRESS`.

    Args:
      cpus: with Ray, CPUs of a machine to reserve for each worker.
      begin, check: as for `Workers`.

    Raises:
      InvalidParameterError: if there is no such pool.
      EvaluatorError: if Ray is not installed, or there is no such cluster, or none with so many CPUs.
    """
    check_pool(pool)
    if pool in (None, LOCAL):
        from .local_workers import LocalSite

        return Workers(count, LocalSite(cores_per_worker(count)), begin, check)
    from .ray_workers import RaySite

    return Workers(count, RaySite(str(pool).partition(":")[2], count, cpus=cpus), begin, check)
