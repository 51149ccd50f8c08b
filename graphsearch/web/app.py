"""The application: the page, its files, the answers of `api/`, and events for the pages."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from ..base.errors import GraphSearchError
from .api import games, positions, studies, tables, work
from .api.routes import error_response, served_by
from .assets import asset, page
from .served_file import ServedFile

TICK_SECONDS = 0.1  # between two checks of the queue
FILE_SECONDS = 1.0  # between two checks of the file
SILENCE_SECONDS = 15.0  # then a line is sent anyway, to detect a lost connection


def application(served: ServedFile) -> Starlette:
    """Returns the application for a graph file, without access control."""
    app = Starlette(
        routes=[
            Route("/", _page, methods=["GET"]),
            Route("/p/{fen:path}", _page, methods=["GET"]),
            Route("/favicon.ico", lambda request: RedirectResponse("/static/icon.svg", 308), methods=["GET"]),
            *positions.ROUTES,
            *games.ROUTES,
            *tables.ROUTES,
            *work.ROUTES,
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
    """Returns server-sent events: at most ten a second, none while nothing changes."""
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
