"""Server-sent events for the pages: at most ten a second, none while nothing changes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from ..served_file import ServedFile
from .asking import served_by

TICK_SECONDS = 0.1  # between two checks of the queue
FILE_SECONDS = 1.0  # between two checks of the file
SILENCE_SECONDS = 15.0  # then a line is sent anyway, to detect a lost connection


def _events(request: Request) -> StreamingResponse:
    served = served_by(request)
    return StreamingResponse(_news(request, served), media_type="text/event-stream")


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


ROUTES = [Route("/api/events", _events, methods=["GET"])]
