"""The server: binds an address, runs the application behind the gate, and shuts down.

The application is the page, its files, the answers to requests, and events. Each file of the page has an
address with the digest of all, so that browsers cache it.

    /static/DIGEST/app.js    cached for good; modules import each other by "./NAME.js", with the same digest
    /static/app.js           the same, never cached: for the login page, and for links
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ..base.errors import GraphSearchError, InvalidParameterError
from ..base.limits import PASSWORD, read_file
from ..exchange.pieces import sprite
from ..store.store import Store
from .answers import ROUTES, error_response, served_by
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
        """Binds an address; `port`: 0 takes a free one.

        Raises:
          InvalidParameterError: if others could reach the page and there is no password.
          GraphSearchError: if the file cannot be read, or the address not be bound.
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
            self.served.file.close()
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

    Raises InvalidParameterError or InputFileError if it is too short, or the file cannot be read.
    """
    try:
        lines = read_file(path, PASSWORD).decode("utf-8", "replace").splitlines()
    except OSError as error:
        raise InvalidParameterError(f"cannot read {path}: {error.strerror or error}") from None
    password = lines[0].strip() if lines else ""
    if len(password) < LEAST_PASSWORD:
        raise InvalidParameterError(f"{path}: a password has at least {LEAST_PASSWORD} characters")
    return password


# ---------------------------------------------------------------- the application
TICK_SECONDS = 0.05  # between two checks of the queue
FILE_SECONDS = 1.0  # between two checks of the file
SILENCE_SECONDS = 15.0  # then a line is sent anyway, to detect a lost connection
FOR_GOOD = {"Cache-Control": "private, max-age=31536000, immutable"}
TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html"}
DIGEST_DIGITS = 16
PACKED = [Middleware(GZipMiddleware, minimum_size=0, compresslevel=3)]  # for browsers that accept it
PIECES = "<!-- pieces -->"


def application(served: ServedFile) -> Starlette:
    """Returns the application for a graph file, without access control."""
    app = Starlette(
        routes=[
            Route("/", _page, methods=["GET"], middleware=PACKED),
            Route("/p/{fen:path}", _page, methods=["GET"], middleware=PACKED),
            Route("/favicon.ico", lambda request: RedirectResponse("/static/icon.svg", 308), methods=["GET"]),
            *ROUTES,
            Route("/api/events", _events, methods=["GET"]),
            Route("/static/{digest}/{name}", _asset, methods=["GET"], middleware=PACKED),
            Route("/static/{name}", _asset, methods=["GET"], middleware=PACKED),
        ],
        exception_handlers={GraphSearchError: error_response},
    )
    app.state.served = served
    app.state.closing = threading.Event()  # ends the event streams
    return app


def _events(request: Request) -> StreamingResponse:
    """Returns server-sent events: at most twenty a second, none while nothing changes."""
    return StreamingResponse(_news(request, served_by(request)), media_type="text/event-stream")


async def _news(request: Request, served: ServedFile) -> AsyncIterator[str]:
    """Yields the state of queue and file whenever it changes."""
    seen, outside, looked, said = -1, "", 0.0, time.monotonic()
    while not request.app.state.closing.is_set():
        now = time.monotonic()
        if now - looked >= FILE_SECONDS:
            looked = now
            facts = await run_in_threadpool(lambda: {"stamp": served.stamp(), "holder": served.holder()})
            found = json.dumps(facts)
            if found != outside:
                outside = found
                said = now
                yield f"event: file\ndata: {outside}\n\n"
        if (version := served.queue.version) != seen:
            seen, said = version, now
            yield f"event: queue\ndata: {json.dumps(served.queue.as_dict())}\n\n"
        if now - said >= SILENCE_SECONDS:
            said = now
            yield ": still here\n\n"
        await asyncio.sleep(TICK_SECONDS)


# ---------------------------------------------------------------- the files of the page
@cache
def assets() -> dict[str, bytes]:
    """Returns all files of the page by name."""
    found = (files("graphsearch.web") / "static").iterdir()
    return {file.name: file.read_bytes() for file in found if file.is_file()}


@cache
def digest() -> str:
    """Returns the digest of all files."""
    total = hashlib.sha256()
    for name, data in sorted(assets().items()):
        total.update(f"{name} {len(data)} ".encode() + data)
    return total.hexdigest()[:DIGEST_DIGITS]


def _page(request: Request) -> Response:
    """Returns the page, with the pieces and addresses with the digest; its state is in its address."""
    text = assets()["index.html"].decode()
    text = text.replace(PIECES, sprite(), 1).replace('"/static/', f'"/static/{digest()}/')
    return Response(text, media_type="text/html")


def _asset(request: Request) -> Response:
    name, given = request.path_params["name"], request.path_params.get("digest")
    if name not in assets() or given not in (None, digest()):
        return Response("there is no such file", 404)
    kind = TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    return Response(assets()[name], headers=FOR_GOOD if given else None, media_type=kind)
