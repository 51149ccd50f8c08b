"""Workers as actors of a Ray cluster, on as many machines as it has.

An actor is never restarted by Ray: the executor starts another one, so that a lost call is given out once.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

from ..base.errors import EvaluatorError, InvalidParameterError, MissingPackageError
from ..base.system import SIGNALS
from .executor import SAME_VERSION, STOPPING, WorkerLostError
from .process import end_with_parent


class WorkerActor:
    """A worker in a process of Ray. It runs one call, and `stop` beside it."""

    def __init__(self) -> None:
        end_with_parent()  # Ray leaves running actors behind when it is killed

    def run(self, call: Callable[[], Any]) -> Any:
        """Returns the result of a call."""
        return call()

    def stop(self) -> None:
        """Asks the call under way to end soon."""
        STOPPING.set()


PROBE_SECONDS = 5.0  # for an address to answer; Ray itself tries for minutes
STORE_BYTES = 100_000_000  # of shared memory, the least

# Ray's own names. No usage statistics are sent; GPUs stay visible to actors that reserve none.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",  # by default 15: on a busy machine the search would wait for its workers
}

NEW = "local"  # Ray's name for a new cluster, which ends with the program


class RaySite:
    """Starts actors of a Ray cluster, spread over its machines; see `executor.Site`."""

    patience = 120.0
    advice = f"`ray status` says what the cluster has and who uses it; {SAME_VERSION}"

    def __init__(self, address: str, workers: int) -> None:
        """Joins a cluster unless this process has joined one, or starts one with a CPU for each worker.

        Args:
          address: `HOST:PORT` of the cluster, `auto` for the one that runs on this machine, `local` for a new
            one; empty: the value of RAY_ADDRESS, else the cluster that runs on this machine, else a new one.

        Raises:
          InvalidParameterError: if the address is malformed.
          EvaluatorError: if Ray is not installed, or there is no such cluster.
        """
        try:
            self._ray = importlib.import_module("ray")
        except ImportError:
            advice = "pip install '.[ray]' in the folder of graphsearch"
            raise MissingPackageError(f"Ray is not installed: {advice}") from None
        self.is_remote = True
        self._undo = contextlib.ExitStack()
        if not self._ray.is_initialized():
            for name, value in ENVIRONMENT.items():
                os.environ.setdefault(name, value)
            self._silence()
            with _handlers_kept():
                self._join(address or os.environ.get("RAY_ADDRESS", ""), workers)
            self._undo.callback(lambda: self._ray.shutdown())
        options: dict[str, Any] = {
            "num_cpus": 1, "max_restarts": 0, "max_concurrency": 2, "scheduling_strategy": "SPREAD"
        }  # fmt: skip
        if self.is_remote:
            options["runtime_env"] = {"env_vars": ENVIRONMENT}
        self._kind = self._ray.remote(WorkerActor).options(**options)

    def _join(self, address: str, cpus: int) -> None:
        if address not in ("", "auto", NEW):
            address = _probed(address)
        try:
            if address != NEW:
                return self._init(address or "auto")
        except (ConnectionError, RuntimeError, ValueError) as error:
            if address == "auto":
                raise EvaluatorError(
                    "no Ray cluster runs on this machine; `ray start --head` starts one"
                ) from None
            if address:
                raise EvaluatorError(
                    f"the Ray cluster {address} cannot be joined: {line_of(error)}; this machine has to be"
                    f" part of it (`ray start --address={address}`), and one with a token wants"
                    " RAY_AUTH_MODE=token"
                ) from None
        self.is_remote = False
        return self._init(NEW, num_cpus=cpus, include_dashboard=False, object_store_memory=STORE_BYTES)

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
        module, name = importlib.import_module("ray._private.worker"), "print_to_stdstream"
        if hasattr(module, name):
            self._undo.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, lambda *_, **__: None)

    def start(self) -> RayWorker:
        """Returns a worker that starts as soon as a machine has room."""
        try:
            return RayWorker(self._ray, self._kind.remote())
        except self._ray.exceptions.RayError as error:
            raise EvaluatorError(f"Ray cannot start a worker: {line_of(error)}") from None

    def close(self) -> None:
        """Leaves the cluster, if this process has joined it here; a cluster that was started here ends."""
        self._undo.close()


class RayWorker:
    """An actor; see `executor.Worker`."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor

    def run(self, call: Callable[[], Any], seconds: float = inf) -> Any:
        """Returns the result of a call there, once a machine has room for the actor."""
        try:
            return self._ray.get(self._actor.run.remote(call), timeout=None if seconds == inf else seconds)
        except self._ray.exceptions.GetTimeoutError:
            raise TimeoutError from None
        except self._ray.exceptions.RayError as error:  # without Ray's traceback
            cause = getattr(error, "cause", None) or error
            raise WorkerLostError(f"a worker of Ray has ended: {line_of(cause)}") from None

    def stop(self) -> None:
        """Sets `executor.STOPPING` there."""
        self._actor.stop.remote()

    def leave(self) -> None:
        """Does nothing: an actor ends when it is killed."""

    def kill(self, seconds: float = 0.0) -> None:
        """Ends the actor at once."""
        if self._ray.is_initialized():
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.kill(self._actor)


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
    """Returns the address if something there answers."""
    host, _, port = address.rpartition(":")
    if not host or "/" in address or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise InvalidParameterError(f"the address of a Ray cluster is HOST:PORT or auto, not {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS).close()
    except OSError as error:
        raise EvaluatorError(f"no Ray cluster answers at {address}: {error.strerror or error}") from None
    return address


def line_of(error: BaseException) -> str:
    """Returns the first line of a message, or the last of a traceback in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if "Traceback" in str(error) else lines[0]
