"""The server: binds an address, runs the application behind the gate, and shuts down."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from ..base.errors import GraphSearchError, InvalidParameterError
from ..base.limits import PASSWORD, read_file
from ..store.store import Store
from .app import application
from .gate import Gate, Keys, is_local
from .task_queue import ServedFile

LOOK_SECONDS = 0.1  # between two checks of the request to stop
LEAVE_SECONDS = 2  # for requests still being answered when the server ends
LEAST_PASSWORD = 8  # characters


class Server:
    """A page at an address; the constructor binds it.

    Attributes:
      address: of the page, with the token that opens it. gate: the ASGI application.
    """

    def __init__(
        self, served: ServedFile, *, host: str = "127.0.0.1", port: int = 0, password: str | None = None
    ) -> None:
        """Binds an address.

        Args:
          port: 0 takes a free one.

        Raises:
          InvalidParameterError: if others could reach the page and there is no password.
          StoreError: if the file cannot be read.
          GraphSearchError: if the address cannot be bound.
        """
        if not is_local(host) and password is None:
            raise InvalidParameterError(
                f"--host {host} lets other machines in; give a password with --password-file FILE, or leave"
                " --host out"
            )
        with Store.open(served.path, read_only=True):
            pass
        self.served = served
        self._socket = _listening(host, port)
        bound = int(self._socket.getsockname()[1])
        keys = Keys(password)
        shown = f"[{host}]" if ":" in host else host
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else shown  # noqa: S104 # no name of a page
        self.address = f"http://{shown}:{bound}/enter?token={keys.token}"
        served.queue.restore()
        self._app = application(served)
        self.gate = Gate(self._app, keys=keys, host=host, port=bound)

    def run(self, stop: threading.Event) -> None:
        """Serves until `stop` is set; then saves a running search."""
        try:
            self.served.queue.prepare()
            asyncio.run(self._serve(stop))
        finally:
            self._socket.close()
            self.served.queue.close()

    async def _serve(self, stop: threading.Event) -> None:
        server = _Quiet(
            uvicorn.Config(
                self.gate,
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # guesses are counted by machine, and a header could name any
                ws="none",
                lifespan="off",
                timeout_graceful_shutdown=LEAVE_SECONDS,
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[self._socket]))
        while not stop.is_set() and not serving.done():
            await asyncio.sleep(LOOK_SECONDS)
        self._app.state.closing.set()
        server.should_exit = True
        logging.getLogger("uvicorn.error").disabled = True  # requests cut off by the shutdown are no defect
        await serving


class _Quiet(uvicorn.Server):
    """A server that leaves signals to its caller."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Captures none."""
        yield


def _listening(host: str, port: int) -> socket.socket:
    """Returns a socket that listens at an address; raises GraphSearchError if that fails."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # named, the protocol makes asyncio send the end of an answer at once, not 40 ms later
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(128)
    except (OSError, OverflowError) as error:
        found.close()
        reason = getattr(error, "strerror", None) or error
        raise GraphSearchError(f"cannot listen at {host}, port {port}: {reason}") from None
    return found


def read_password(path: Path) -> str:
    """Returns the password in a file: its first line.

    Raises:
      InvalidParameterError: if it is too short, or the file cannot be read.
      InputFileError: if the file is too large, or no regular file.
    """
    try:
        lines = read_file(path, PASSWORD).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise InvalidParameterError(f"cannot read {path}: {error.strerror or error}") from None
    password = lines[0].strip() if lines else ""
    if len(password) < LEAST_PASSWORD:
        raise InvalidParameterError(f"{path}: a password has at least {LEAST_PASSWORD} characters")
    return password
