"""The server: binds an address, runs the application behind the gate, and shuts down."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from ..base.errors import GraphSearchError, InputFileError, InvalidParameterError
from ..base.limits import PASSWORD, read_file
from ..base.outside import KeptAddress, declared
from ..base.system import is_secret
from ..store.store import Store
from .app import application
from .gate import Gate, Keys, is_local
from .served_file import ServedFile

LOOK_SECONDS = 0.1  # between two checks of the request to stop
LEAVE_SECONDS = 2  # for requests still being answered when the server ends
LEAST_PASSWORD = 8  # characters
OTHERS = 0o077  # permissions of other users


class Server:
    """A page at an address; the constructor binds it.

    Attributes:
      address: of the page, with the token that opens it. gate: the ASGI application.
    """

    def __init__(
        self,
        served: ServedFile,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        password: str | None = None,
        kept: Path | None = None,
    ) -> None:
        """Binds an address.

        Args:
          port: 0 takes the kept one, or else a free one.
          kept: a file that keeps port, token and cookie; created if missing.

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
        known = _read_address(kept) if kept else None
        self._socket = _listening(host, port or (known.port if known else 0))
        bound = int(self._socket.getsockname()[1])
        keys = Keys(password, known.token, known.session) if known else Keys(password)
        if kept and known is None:
            _write_address(kept, KeptAddress(port=bound, token=keys.token, session=keys.session))
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


def _read_address(path: Path) -> KeptAddress | None:
    """Returns the kept address; None if there is no file."""
    try:
        status = path.stat()
        text = read_file(path, PASSWORD)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputFileError(f"cannot read {path}: {error.strerror or error}") from None
    if not is_secret(status):
        raise InvalidParameterError(f"{path} opens the page: other users must not read it (chmod 600 {path})")
    try:
        return declared(KeptAddress, text)
    except InputFileError:
        raise InvalidParameterError(f"{path} holds no address of a page; name another file") from None


def _write_address(path: Path, address: KeptAddress) -> None:
    """Writes an address into a new file, for this user alone."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(address.model_dump_json() + "\n")
    except OSError as error:
        raise InputFileError(f"cannot write {path}: {error.strerror or error}") from None
