"""The connection of this process to a Ray cluster: one that runs, or a new one on this machine."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

from ..errors import EvaluatorError, InvalidParameterError

PROBE_SECONDS = 5.0  # for an address to answer; Ray itself tries for minutes
STORE_BYTES = 100_000_000  # of shared memory, the least; messages go over TCP

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


class RayConnection:
    """The cluster that this process has joined. A connection from before stays at the end.

    Attributes:
      is_shared: whether the cluster exists without this process.
    """

    def __init__(self, ray: Any, address: str, cpus: int) -> None:
        """Joins a cluster, or starts one on this machine.

        Args:
          address: `HOST:PORT` of the cluster, `auto` for the one that runs on this machine, `local` for a new
            one; empty: as RAY_ADDRESS says, without it the one that runs, else a new one.
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
    """Restores the signal handlers afterwards: Ray's end the program at SIGTERM, when a search must save.

    Its C++ part sets a handler below Python's that aborts the process three seconds after a SIGTERM. Setting
    Python's again replaces it. Only the main thread can do so.
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
