"""Workers as actors of a Ray cluster, on as many machines as it has.

Ray places the actors, tells when one is lost and starts it again wherever there is room, also on machines
that join later. A part is not left to Ray's retries, which would wait for the same actor: another gets it.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import queue
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ...errors import EvaluatorError, InvalidParameterError
from ...workers.messages import Failure, Leave
from .worker import Make, Worker

PROBE_SECONDS = 5.0  # for an address to answer; Ray itself tries for minutes
STORE_BYTES = 100_000_000  # of shared memory: a part takes some 150 bytes a position

# Ray's own names. No usage statistics are sent; GPUs stay visible to actors that reserve none.
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

NEW = "local"  # Ray's name of a cluster of one's own, which ends with the program

HTTP2_PREFACE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
)  # RFC 9113, empty SETTINGS
SETTINGS = 4  # the type of frame that a server begins with; byte 3 of it


class RaySite:
    """A Ray cluster, whose actors are workers; see `dispatch.Site`."""

    patience = 120.0  # seconds until the first actor is there
    leaving_seconds = 2.0
    advice = "`ray status` says what the cluster has and who uses it"

    def __init__(self, make: Make, workers: int, address: str, cpus: int) -> None:
        """Joins a cluster, or starts one on this machine.

        Args:
          make: makes the evaluator; what it needs has to be on every machine.
          address: `HOST:PORT` of the cluster, `auto` for the one that runs on this machine, `local` for a new
            one; empty: as RAY_ADDRESS says, without it the one that runs, else a new one.
          cpus: of a machine, reserved for each worker.

        Raises:
          EvaluatorError: if Ray is not installed, or there is no such cluster, or none with so many CPUs.
        """
        self._ray = import_ray()
        self._joined = Joined(self._ray, address, workers * cpus)
        self.is_far = self._joined.is_shared
        self._make = make
        options: dict[str, Any] = {
            "num_cpus": cpus,
            "max_restarts": -1,
            "max_task_retries": 0,
            "scheduling_strategy": "SPREAD",
        }
        if self._joined.is_shared:
            options["runtime_env"] = {"env_vars": ENVIRONMENT}
        self._kind = self._ray.remote(Worker).options(**options)
        self._actors: dict[int, Any] = {}
        self._check_room(cpus)

    def _check_room(self, cpus: int) -> None:
        most = max(
            (node["Resources"].get("CPU", 0) for node in self._ray.nodes() if node["Alive"]), default=0
        )
        if most < cpus:
            self.close()
            raise EvaluatorError(
                f"no machine of the Ray cluster has {cpus} CPUs for a worker; at most {most:g}"
            )

    def worker(self, number: int, heard: Callable[[object], None], lost: Callable[[str], None]) -> _Asker:
        """Returns a worker that was just started, or that Ray will start again."""
        try:
            if number not in self._actors:
                self._actors[number] = self._kind.remote(self._make)
            return _Asker(self._ray, self._actors[number], heard, partial(self._ended, number, lost))
        except self._ray.exceptions.RayError as error:
            raise EvaluatorError(f"Ray cannot start a worker: {line_of(error)}") from None

    def _ended(self, number: int, lost: Callable[[str], None], error: Exception | None) -> None:
        """Tells that a worker is lost."""
        exceptions = self._ray.exceptions
        if isinstance(error, exceptions.RayActorError) and not isinstance(
            error, exceptions.ActorUnavailableError
        ):
            self._actors.pop(number, None)  # Ray does not start this one again
        lost("it has left" if error is None else line_of(error))

    def close(self) -> None:
        """Ends what is left, and leaves the cluster; one that was started here ends."""
        if self._ray.is_initialized():
            with contextlib.suppress(self._ray.exceptions.RayError):
                for actor in self._actors.values():
                    self._ray.kill(actor)
        self._actors.clear()
        self._joined.leave()


class _Asker:
    """An actor as a worker: a thread asks it, waits for it, and tells what it said."""

    pid = 0

    def __init__(
        self, ray: Any, actor: Any, heard: Callable[[object], None], ended: Callable[[Exception | None], None]
    ) -> None:
        self._ray, self._actor = ray, actor
        self._heard, self._ended = heard, ended
        self._errands: queue.SimpleQueue[object] = queue.SimpleQueue()
        greeting = actor.greet.options(max_task_retries=-1).remote()
        threading.Thread(target=self._serve, args=(greeting,), name="graphsearch-ray", daemon=True).start()

    def send(self, message: object) -> None:
        """Gives the actor something to do."""
        self._errands.put(message)

    def kill(self, *, for_good: bool = False) -> None:
        """Ends the actor at once; unless it is for good, Ray starts it again."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(self._actor, no_restart=for_good)
        self._errands.put(None)

    def _serve(self, greeting: Any) -> None:
        error: Exception | None = None
        try:
            self._heard(self._answer(greeting))
            while (errand := self._errands.get()) is not None and not isinstance(errand, Leave):
                self._heard(self._answer(self._actor.evaluate.remote(errand)))
            if errand is not None:
                self._answer(self._actor.leave.remote())
        except self._ray.exceptions.RayError as found:
            error = found
        except Exception as found:
            error = found
            raise
        finally:
            self._ended(error)

    def _answer(self, reply: Any) -> object:
        try:
            return self._ray.get(reply)
        except self._ray.exceptions.RayTaskError as error:
            return Failure("EvaluatorError", f"a worker of Ray failed: {line_of(error)}")


class Joined:
    """A cluster that this process has joined. One that it had joined before stays joined at the end."""

    def __init__(self, ray: Any, address: str, cpus: int) -> None:
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
        """Keeps what Ray's daemons report off stdout, where results belong; Ray has no switch for that."""
        module = importlib.import_module("ray._private.worker")
        self._print = getattr(module, "print_to_stdstream", None)
        if self._print is not None:
            setattr(module, "print_to_stdstream", _say_nothing)  # noqa: B010

    def leave(self) -> None:
        """Leaves the cluster, if this process has joined it here."""
        if self._is_own and self._ray.is_initialized():
            self._ray.shutdown()
        if self._print is not None:
            setattr(importlib.import_module("ray._private.worker"), "print_to_stdstream", self._print)  # noqa: B010
            self._print = None


def _say_nothing(*args: object, **options: object) -> None:
    """Prints nothing."""


def import_ray() -> Any:
    """Returns the package, which is optional.

    Raises:
      EvaluatorError: if it is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise EvaluatorError(
            "Ray is not installed: pip install '.[ray]' in the folder of graphsearch"
        ) from None


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Takes signal handlers back afterwards: Ray ends the program at SIGTERM, where a search saves.

    Its C++ part has a handler below Python's, which aborts the process three seconds after a SIGTERM; setting
    Python's again replaces it. Only the main thread can.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    before = {number: signal.getsignal(number) for n in names if (number := getattr(signal, n, None))}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # else it was not set from Python
                signal.signal(number, handler)


def _probed(address: str) -> str:
    """Returns the address if something there speaks HTTP/2, as a Ray cluster does.

    Raises:
      InvalidParameterError: if it is no `HOST:PORT`.
      EvaluatorError: if nothing answers.
    """
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
