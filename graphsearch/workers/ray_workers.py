"""Workers as actors of a Ray cluster, on as many machines as it has.

    Ray     starts an actor, names its machine and reports its end
    TCP     everything else: the actor connects to this process, and both send as over the pipes of a process

An actor is never restarted: the supervisor starts another one, so that lost work is handed out exactly once.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any

from ..errors import EvaluatorError
from ..version import __version__
from .child import ENDING_SECONDS, Hear, Pipe, Work, WorkerProcess, nothing
from .messages import Failure, own_place
from .process import end_with_parent
from .ray_cluster import ENVIRONMENT, RayConnection, import_ray, line_of
from .tcp_pipes import Endpoint, PipeListener, connect, shut_down

THIS_MACHINE = "127.0.0.1"
CONNECT_SECONDS = 60.0  # for an actor that runs to connect
LAST_WORDS_SECONDS = 5.0  # for the last messages of an actor that has ended to arrive
SAME_VERSION = "install the same version of graphsearch on all machines"


class WorkerActor:
    """A worker in a process of Ray."""

    def __init__(self) -> None:
        end_with_parent()  # Ray leaves running actors behind when it is killed

    def greet(self) -> tuple[str, str]:
        """Returns host name and process, and the version of graphsearch there."""
        return own_place(), __version__

    def work(self, work: Work, endpoint: Endpoint, pipes: int) -> None:
        """Connects, and calls `work` with its ends of the pipes."""
        try:
            ends = connect(endpoint, pipes)
        except OSError as error:
            where = f"{endpoint.host}:{endpoint.port}"
            raise EvaluatorError(f"{own_place()} cannot reach the program at {where}: {error}") from None
        try:
            work(*ends)
        except Exception as error:  # unexpected; Ray's own message would be a traceback of many lines
            raise EvaluatorError(f"{type(error).__name__}: {error}") from None
        finally:
            for end in ends:
                end.close()


class RayLauncher:
    """Starts actors of a Ray cluster, spread over its machines; see `launcher.Launcher`."""

    patience = 120.0
    advice = f"`ray status` says what the cluster has and who uses it; {SAME_VERSION}"
    shares_files = False

    def __init__(self, address: str, workers: int, *, cpus: int = 1, all_at_once: bool = False) -> None:
        """Joins a cluster, or starts one on this machine; `launcher.launcher_for` describes the arguments.

        Raises:
          EvaluatorError: if Ray is not installed, or there is no such cluster, or none with so many CPUs.
        """
        self._ray = import_ray()
        self._connection = RayConnection(self._ray, address, workers * cpus)
        self.is_remote, self.threads = self._connection.is_shared, cpus
        machines = [int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]]
        self.per_machine = math.ceil(workers / max(1, sum(map(bool, machines))))
        if fault := _lack_of_room(machines, workers, cpus, all_at_once=all_at_once):
            self._connection.leave()
            raise EvaluatorError(fault)
        options: dict[str, Any] = {"num_cpus": cpus, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        if self.is_remote:
            options["runtime_env"] = {"env_vars": ENVIRONMENT}
        self._kind = self._ray.remote(WorkerActor).options(**options)
        self._numbers = itertools.count()
        self._listener = PipeListener(
            self._ray.util.get_node_ip_address() if self.is_remote else THIS_MACHINE
        )

    def start(
        self,
        work: Work,
        *,
        name: str,
        hear: Sequence[Hear],
        lost: Callable[[str], None],
        died: Callable[[], None] = nothing,
    ) -> WorkerProcess:
        """Returns a worker that starts as soon as a machine has room."""
        try:
            actor = self._kind.remote()
        except self._ray.exceptions.RayError as error:
            raise EvaluatorError(f"Ray cannot start a worker: {line_of(error)}") from None
        number = next(self._numbers)
        return RayWorker(self._ray, actor, number, work, self._listener, hear=hear, lost=lost, died=died)

    def close(self) -> None:
        """Leaves the cluster; one that was started here ends."""
        self._listener.close()
        self._connection.leave()


def _lack_of_room(machines: Sequence[int], workers: int, cpus: int, *, all_at_once: bool) -> str:
    """Returns what a cluster of machines with so many CPUs lacks, or ""."""
    most = max(machines, default=0)
    if cpus > max(1, most):  # a machine with one may join later
        return f"no machine of the Ray cluster has {cpus} CPUs for a worker; at most {most}"
    if all_at_once and sum(machines) < workers:
        total = sum(machines)
        return f"the Ray cluster has {total} CPUs, and {workers} processes need one each; add machines"
    return ""


class RayWorker(WorkerProcess):
    """An actor. A thread waits until it runs."""

    def __init__(
        self,
        ray: Any,
        actor: Any,
        number: int,
        work: Work,
        listener: PipeListener,
        *,
        hear: Sequence[Hear],
        lost: Callable[[str], None],
        died: Callable[[], None] = nothing,
    ) -> None:
        super().__init__(hear=hear, lost=lost, died=died)
        self._ray, self._actor = ray, actor
        self._number, self._listener = number, listener
        self._end = Future[Any]()
        self._thread(self._connect, work)

    def kill(self) -> None:
        """Ends the actor at once; `lost` follows."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actor)

    def _connect(self, work: Work) -> None:
        """Waits until the actor runs and has connected."""
        endpoint, coming = self._listener.expect(self._number, len(self._hear))
        try:
            self._check_version(*self._ray.get(self._actor.greet.remote()))
            reply = self._actor.work.remote(work, endpoint, len(self._hear)).future()
            reply.add_done_callback(partial(self._on_end, coming))
            pipes = coming.result(CONNECT_SECONDS)
        except Exception as error:
            self._not_connected(error)
            return
        self._begin(pipes)

    def _check_version(self, place: str, version: str) -> None:
        """Reports another version of graphsearch, and raises EvaluatorError."""
        if version != __version__:
            text = f"it has graphsearch {version}, this machine has {__version__}; {SAME_VERSION}"
            self._hear[0](Failure(EvaluatorError.__name__, text, place))
            raise EvaluatorError(text)

    def _not_connected(self, error: Exception) -> None:
        self.kill()
        self._listener.forget(self._number)
        is_late = isinstance(error, TimeoutError)
        self._died()
        self._lost(f"it has not connected in {CONNECT_SECONDS:.0f} s" if is_late else _line(error))

    def _on_end(self, coming: Future[Sequence[Pipe]], reply: Future[Any]) -> None:
        """Handles the end of the actor. A lost machine closes no connection, so this closes it."""
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
            shut_down(pipe)

    def _ended(self) -> str:
        try:
            error = self._end.exception(ENDING_SECONDS)
        except TimeoutError:
            return "its machine does not answer"
        return "a worker of Ray has left" if error is None else _line(error)


def _line(error: BaseException) -> str:
    """Returns how an actor ended, without Ray's traceback."""
    return f"a worker of Ray has ended: {line_of(getattr(error, 'cause', None) or error)}"
