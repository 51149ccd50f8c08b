"""A book's workers as actors of a Ray cluster, on as many machines as it has.

    Ray            starts an actor, tells who it is and when it is lost
    TCP            everything else: the actor calls the builder, and both speak as over the pipes of a process
    the writer     reads the graph for them: no machine but the builder's has to reach the file

An actor is never started again: another one takes its place, so that what a lost one had is given out once.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any

from ...errors import EvaluatorError
from ...evaluators.pool import cluster as ray_pool
from ...version import __version__
from ...workers.calls import CallNumber, Calls, call, hang_up
from ...workers.child import ENDING_SECONDS, Hear, Pipe, Talker
from ...workers.messages import Failure, own_place
from .worker import Setup, work

THIS_MACHINE = "127.0.0.1"
CALL_SECONDS = 60.0  # for an actor that runs to call
LAST_WORDS_SECONDS = 5.0  # for what an actor has sent to come, when it has ended
SAME_VERSION = "install the same version of graphsearch on all machines"


class WorkerActor:
    """A worker in a process of Ray."""

    def greet(self) -> tuple[str, str]:
        """Returns where it is, and the version of graphsearch there."""
        return own_place(), __version__

    def work(self, setup: Setup, number: CallNumber, pipes: int) -> None:
        """Works until it is told to leave, or the builder is gone."""
        try:
            ends = call(number, pipes)
        except OSError as error:
            where = f"{number.host}:{number.port}"
            raise EvaluatorError(f"{own_place()} cannot reach the builder at {where}: {error}") from None
        try:
            work(setup, *ends)
        except Exception as error:  # nobody expected it; Ray's own message would be a traceback of many lines
            raise EvaluatorError(f"{type(error).__name__}: {error}") from None
        finally:
            for end in ends:
                end.close()


class RaySite:
    """A Ray cluster, whose actors are workers; see `sites.Site`."""

    reads_files = False
    threads = 1  # an actor has reserved one CPU
    patience = 120.0
    advice = f"`ray status` says what the cluster has and who uses it; {SAME_VERSION}"

    def __init__(self, address: str, workers: int) -> None:
        """Joins a cluster, or starts one on this machine, as a pool of evaluators does.

        Raises:
          EvaluatorError: if Ray is not installed, or there is no such cluster.
        """
        self._ray = ray_pool.import_ray()
        self._joined = ray_pool.Joined(self._ray, address, workers)
        self.is_far = self.has_own_memory = self._joined.is_shared
        options: dict[str, Any] = {"num_cpus": 1, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        if self.is_far:
            options["runtime_env"] = {"env_vars": ray_pool.ENVIRONMENT}
        self._kind = self._ray.remote(WorkerActor).options(**options)
        self._numbers = itertools.count()
        self._calls = Calls(self._ray.util.get_node_ip_address() if self.is_far else THIS_MACHINE)

    def worker(
        self,
        number: int,
        setup: Setup,
        *,
        hear: Sequence[Hear],
        died: Callable[[], None],
        lost: Callable[[str], None],
    ) -> Talker:
        """Returns a worker that starts as soon as a machine has room."""
        try:
            actor = self._kind.remote()
        except self._ray.exceptions.RayError as error:
            raise EvaluatorError(f"Ray cannot start a worker: {ray_pool.line_of(error)}") from None
        own = next(self._numbers)
        return _RayWorker(self._ray, actor, own, setup, self._calls, hear=hear, died=died, lost=lost)

    def close(self) -> None:
        """Leaves the cluster; one that was started here ends."""
        self._calls.close()
        self._joined.leave()


class _RayWorker(Talker):
    """An actor as a worker. A thread waits until it is there."""

    def __init__(
        self,
        ray: Any,
        actor: Any,
        number: int,
        setup: Setup,
        calls: Calls,
        *,
        hear: Sequence[Hear],
        died: Callable[[], None],
        lost: Callable[[str], None],
    ) -> None:
        super().__init__(hear=hear, died=died, lost=lost)
        self._ray, self._actor = ray, actor
        self._number, self._calls = number, calls
        self._end = Future[Any]()
        self._thread(self._meet, setup)

    def kill(self, *, for_good: bool = False) -> None:
        """Ends the actor at once; `lost` follows."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actor)

    def _meet(self, setup: Setup) -> None:
        """Waits until the actor is there and has called."""
        number, coming = self._calls.expect(self._number, len(self._hear))
        try:
            self._check_version(*self._ray.get(self._actor.greet.remote()))
            reply = self._actor.work.remote(setup, number, len(self._hear)).future()
            reply.add_done_callback(partial(self._over, coming))
            pipes = coming.result(CALL_SECONDS)
        except Exception as error:
            self._never_came(error)
            return
        self._begin(pipes)

    def _check_version(self, place: str, version: str) -> None:
        """Tells of another version of graphsearch, and raises EvaluatorError."""
        if version != __version__:
            text = f"it has graphsearch {version}, this machine has {__version__}; {SAME_VERSION}"
            self._hear[0](Failure(EvaluatorError.__name__, text, place))
            raise EvaluatorError(text)

    def _never_came(self, error: Exception) -> None:
        self.kill()
        self._calls.forget(self._number)
        is_late = isinstance(error, TimeoutError)
        self._died()
        self._lost(f"it has not called in {CALL_SECONDS:.0f} s" if is_late else _line(error))

    def _over(self, coming: Future[Sequence[Pipe]], reply: Future[Any]) -> None:
        """Notes that the actor has ended. A machine that is gone closes no connection: then this does."""
        error = reply.exception()
        with contextlib.suppress(InvalidStateError):  # it has called
            coming.set_exception(error or EvaluatorError("it has left"))
        if error is None:
            self._end.set_result(None)
        else:
            self._end.set_exception(error)
        timer = threading.Timer(LAST_WORDS_SECONDS, self._hang_up)
        timer.daemon = True
        timer.start()

    def _hang_up(self) -> None:
        for pipe in self._pipes:
            hang_up(pipe)

    def _ended(self) -> str:
        try:
            error = self._end.exception(ENDING_SECONDS)
        except TimeoutError:
            return "its machine does not answer"
        return "a worker of Ray has left" if error is None else _line(error)


def _line(error: BaseException) -> str:
    """Returns how an actor ended; of what it has raised itself, without Ray's traceback."""
    return f"a worker of Ray has ended: {ray_pool.line_of(getattr(error, 'cause', None) or error)}"
