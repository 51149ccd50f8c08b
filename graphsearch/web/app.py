"""The application: the page, its files, the answers to requests, and events for the pages.

Each file of the page has an address with the digest of all, so that browsers cache it. The first request
compresses them.

    /static/DIGEST/app.js    cached for good; modules import each other by "./NAME.js", with the same digest
    /static/app.js           the same, never cached: for the login page, and for links
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ..base.errors import GraphSearchError
from ..exchange.pieces import sprite
from . import actions, questions, studies
from .routes import error_response, served_by
from .task_queue import ServedFile

TICK_SECONDS = 0.05  # between two checks of the queue
FILE_SECONDS = 1.0  # between two checks of the file
SILENCE_SECONDS = 15.0  # then a line is sent anyway, to detect a lost connection
FOR_GOOD = {"Cache-Control": "private, max-age=31536000, immutable"}
TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html"}
DIGEST_DIGITS = 16
PIECES = "<!-- pieces -->"


def application(served: ServedFile) -> Starlette:
    """Returns the application for a graph file, without access control."""
    app = Starlette(
        routes=[
            Route("/", _page, methods=["GET"]),
            Route("/p/{fen:path}", _page, methods=["GET"]),
            Route("/favicon.ico", lambda request: RedirectResponse("/static/icon.svg", 308), methods=["GET"]),
            *questions.ROUTES,
            *actions.ROUTES,
            *studies.ROUTES,
            Route("/api/events", _events, methods=["GET"]),
            Route("/static/{digest}/{name}", asset, methods=["GET"]),
            Route("/static/{name}", asset, methods=["GET"]),
        ],
        exception_handlers={GraphSearchError: error_response},
    )
    app.state.served = served
    app.state.closing = threading.Event()  # ends the event streams
    return app


def _page(request: Request) -> Response:
    """Returns the page, which reads its state from its address."""
    return page().response(request)


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
@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page: its bytes, the same compressed, and its media type."""

    plain: bytes
    packed: bytes
    kind: str

    def response(self, request: Request, headers: dict[str, str] | None = None) -> Response:
        """Returns the file, compressed if the browser accepts it."""
        given = {"Vary": "Accept-Encoding", **(headers or {})}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.plain, headers=given, media_type=self.kind)
        return Response(self.packed, headers={**given, "Content-Encoding": "gzip"}, media_type=self.kind)


@cache
def assets() -> dict[str, Asset]:
    """Returns all files of the page by name."""
    found = (files("graphsearch.web") / "static").iterdir()
    return {file.name: _asset(file.name, file.read_bytes()) for file in found if file.is_file()}


@cache
def digest() -> str:
    """Returns the digest of all files."""
    total = hashlib.sha256()
    for name, asset in sorted(assets().items()):
        total.update(f"{name} {len(asset.plain)} ".encode() + asset.plain)
    return total.hexdigest()[:DIGEST_DIGITS]


@cache
def page() -> Asset:
    """Returns the page with the pieces in it, and addresses with the digest."""
    text = assets()["index.html"].plain.decode()
    text = text.replace(PIECES, sprite(), 1).replace('"/static/', f'"/static/{digest()}/')
    return _asset("index.html", text.encode())


def asset(request: Request) -> Response:
    """Returns a file of the page."""
    found = assets().get(request.path_params["name"])
    given = request.path_params.get("digest")
    if found is None or given not in (None, digest()):
        return Response("there is no such file", 404)
    return found.response(request, FOR_GOOD if given else None)


def _asset(name: str, plain: bytes) -> Asset:
    ending = name.rpartition(".")[2]
    return Asset(plain, gzip.compress(plain, mtime=0), TYPES.get(ending, "application/octet-stream"))
