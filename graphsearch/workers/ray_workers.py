"""Workers as actors of a Ray cluster, on as many machines as it has.

    Ray     starts an actor, names its machine and reports its end
    TCP     everything else: the actor connects to this process, and both send as over the pipe of a process

An actor is never restarted: the supervisor starts another one, so that lost work is handed out exactly once.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, InvalidStateError
from functools import partial
from typing import Any

from ..base.errors import EvaluatorError, InvalidParameterError, MissingPackageError
from ..base.version import __version__
from .messages import Failure, own_place
from .process import ENDING_SECONDS, SIGNALS, Handlers, Pipe, Work, WorkerProcess, end_with_parent
from .tcp import Endpoint, PipeListener, connect, shut_down

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

    def work(self, work: Work, endpoint: Endpoint) -> None:
        """Connects, and calls `work` with its end of the pipe."""
        try:
            pipe = connect(endpoint)
        except OSError as error:
            where = f"{endpoint.host}:{endpoint.port}"
            raise EvaluatorError(f"{own_place()} cannot reach the program at {where}: {error}") from None
        try:
            work(pipe)
        except Exception as error:  # unexpected; Ray's own message would be a traceback of many lines
            raise EvaluatorError(f"{type(error).__name__}: {error}") from None
        finally:
            pipe.close()


class RayLauncher:
    """Starts actors of a Ray cluster, spread over its machines; see `launcher.Launcher`."""

    patience = 120.0
    advice = f"`ray status` says what the cluster has and who uses it; {SAME_VERSION}"

    def __init__(self, address: str, workers: int, *, cpus: int = 1) -> None:
        """Joins a cluster, or starts one on this machine; `launcher.launcher_for` describes the arguments.

        Raises:
          EvaluatorError: if Ray is not installed, or there is no such cluster, or none with so many CPUs.
        """
        self._ray = import_ray()
        self._connection = RayConnection(self._ray, address, workers * cpus)
        most = max(_cpus_of_machines(self._ray), default=0)
        self.is_remote, self.threads = self._connection.is_shared, cpus
        if cpus > max(1, most):  # a machine with one may join later
            self._connection.leave()
            raise EvaluatorError(
                f"no machine of the Ray cluster has {cpus} CPUs for a worker; at most {most}"
            )
        options: dict[str, Any] = {"num_cpus": cpus, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        if self.is_remote:
            options["runtime_env"] = {"env_vars": ENVIRONMENT}
        self._kind = self._ray.remote(WorkerActor).options(**options)
        self._numbers = itertools.count()
        self._listener = PipeListener(
            self._ray.util.get_node_ip_address() if self.is_remote else THIS_MACHINE
        )

    def start(self, work: Work, handlers: Handlers, *, name: str) -> WorkerProcess:
        """Returns a worker that starts as soon as a machine has room."""
        try:
            actor = self._kind.remote()
        except self._ray.exceptions.RayError as error:
            raise EvaluatorError(f"Ray cannot start a worker: {line_of(error)}") from None
        number = next(self._numbers)
        return RayWorker(self._ray, actor, number, work, self._listener, handlers)

    def close(self) -> None:
        """Leaves the cluster; a cluster that was started here ends."""
        self._listener.close()
        self._connection.leave()


def _cpus_of_machines(ray: Any) -> list[int]:
    """Returns the CPUs of each machine."""
    return [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]


class RayWorker(WorkerProcess):
    """An actor. A thread waits until it runs."""

    def __init__(
        self, ray: Any, actor: Any, number: int, work: Work, listener: PipeListener, handlers: Handlers
    ) -> None:
        super().__init__(handlers)
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
        endpoint, coming = self._listener.expect(self._number)
        try:
            self._check_version(*self._ray.get(self._actor.greet.remote()))
            reply = self._actor.work.remote(work, endpoint).future()
            reply.add_done_callback(partial(self._on_end, coming))
            pipe = coming.result(CONNECT_SECONDS)
        except Exception as error:
            self._not_connected(error)
            return
        self._begin(pipe)

    def _check_version(self, place: str, version: str) -> None:
        """Reports a different version of graphsearch, and raises EvaluatorError."""
        if version != __version__:
            text = f"it has graphsearch {version}, this machine has {__version__}; {SAME_VERSION}"
            self._handlers.hear(Failure(EvaluatorError.__name__, text, place))
            raise EvaluatorError(text)

    def _not_connected(self, error: Exception) -> None:
        self.kill()
        self._listener.forget(self._number)
        is_late = isinstance(error, TimeoutError)
        self._handlers.died()
        self._handlers.lost(f"it has not connected in {CONNECT_SECONDS:.0f} s" if is_late else _line(error))

    def _on_end(self, coming: Future[Pipe], reply: Future[Any]) -> None:
        """Handles the end of the actor. A lost machine closes no connection, so this closes it."""
        error = reply.exception()
        with contextlib.suppress(InvalidStateError):  # it has connected before
            coming.set_exception(error or EvaluatorError("it has left"))
        if error is None:
            self._end.set_result(None)
        else:
            self._end.set_exception(error)
        timer = threading.Timer(LAST_WORDS_SECONDS, self._hang_up)
        timer.daemon = True
        timer.start()

    def _hang_up(self) -> None:
        if self._pipe is not None:
            shut_down(self._pipe)

    def _ended(self) -> str:
        try:
            error = self._end.exception(ENDING_SECONDS)
        except TimeoutError:
            return "its machine does not answer"
        return "a worker of Ray has left" if error is None else _line(error)


def _line(error: BaseException) -> str:
    """Returns how an actor ended, without Ray's traceback."""
    return f"a worker of Ray has ended: {line_of(getattr(error, 'cause', None) or error)}"


PROBE_SECONDS = 5.0  # for an address to answer; Ray itself tries for minutes
STORE_BYTES = 100_000_000  # of shared memory, the least; messages go over TCP

# Ray's own names. No usage statistics are sent; GPUs stay visible to actors that reserve none.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",  # by default 15: on a busy machine the search would wait for its workers
}

NEW = "local"  # Ray's name for a new cluster, which ends with the program

HTTP2_PREFACE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
)  # RFC 9113, empty SETTINGS
SETTINGS = 4  # the type of frame that a server begins with; byte 3 of it


class RayConnection:
    """The cluster that this process has joined. `leave` keeps a connection that existed before.

    Attributes:
      is_shared: whether the cluster exists without this process.
    """

    def __init__(self, ray: Any, address: str, cpus: int) -> None:
        """Joins a cluster, or starts one on this machine.

        Args:
          address: `HOST:PORT` of the cluster, `auto` for the one that runs on this machine, `local` for a new
            one; empty: the value of RAY_ADDRESS, else the cluster that runs on this machine, else a new one.
          cpus: of a new cluster.

        Raises:
          InvalidParameterError: if the address is malformed.
          EvaluatorError: if there is no such cluster.
        """
        self._ray = ray
        self.is_shared = True
        self._is_own = not ray.is_initialized()
        self._print: Any = None
        if not self._is_own:
            return
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        address = address or os.environ.get("RAY_ADDRESS", "")
        with _handlers_kept():
            if address not in ("", "auto", NEW):
                self._join(_probed(address))
            elif address != NEW and not self._found() and address:
                raise EvaluatorError("no Ray cluster runs on this machine; `ray start --head` starts one")
            elif not ray.is_initialized():
                self.is_shared = False
                self._init(NEW, num_cpus=cpus, include_dashboard=False, object_store_memory=STORE_BYTES)
        self._silence()

    def _found(self) -> bool:
        """Joins the cluster that runs on this machine; returns whether there is one."""
        try:
            self._init("auto")
        except ConnectionError:
            return False
        return True

    def _join(self, address: str) -> None:
        try:
            self._init(address)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise EvaluatorError(
                f"the Ray cluster {address} cannot be joined: {line_of(error)}; this machine has to be part"
                f" of it (`ray start --address={address}`), and one with a token wants RAY_AUTH_MODE=token"
            ) from None

    def _init(self, address: str, **options: Any) -> None:
        self._ray.init(
            address=address,
            namespace="graphsearch",
            log_to_driver=False,
            logging_level=logging.ERROR,
            **options,
        )

    def _silence(self) -> None:
        """Keeps reports of Ray's daemons off stdout, where results belong; Ray has no switch for that."""
        module = importlib.import_module("ray._private.worker")
        self._print = getattr(module, "print_to_stdstream", None)
        if self._print is not None:
            setattr(module, "print_to_stdstream", lambda *_, **__: None)  # noqa: B010

    def leave(self) -> None:
        """Leaves the cluster, if this process has joined it here."""
        if self._is_own and self._ray.is_initialized():
            self._ray.shutdown()
        if self._print is not None:
            setattr(importlib.import_module("ray._private.worker"), "print_to_stdstream", self._print)  # noqa: B010
            self._print = None


def import_ray() -> Any:
    """Returns the optional package `ray`.

    Raises:
      MissingPackageError: if it is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise MissingPackageError(
            "Ray is not installed: pip install '.[ray]' in the folder of graphsearch"
        ) from None


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Restores the signal handlers afterwards: Ray's end the program at SIGTERM, when a search must save.

    Its C++ part sets a handler below Python's that aborts the process three seconds after a SIGTERM. Setting
    Python's again replaces it. Only the main thread can do so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # else it was not set from Python
                signal.signal(number, handler)


def _probed(address: str) -> str:
    """Returns the address if something there speaks HTTP/2, as a Ray cluster does."""
    host, _, port = address.rpartition(":")
    if not host or "/" in address or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise InvalidParameterError(f"the address of a Ray cluster is HOST:PORT or auto, not {address!r}")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS) as connection:
            connection.sendall(HTTP2_PREFACE)
            found = connection.recv(9)
    except OSError as error:
        raise EvaluatorError(f"no Ray cluster answers at {address}: {error.strerror or error}") from None
    if len(found) < 4 or found[3] != SETTINGS:
        raise EvaluatorError(f"what answers at {address} is no Ray cluster; its port is usually 6379")
    return address


def line_of(error: BaseException) -> str:
    """Returns the first line of a message, or the last of a traceback in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if "Traceback" in str(error) else lines[0]
