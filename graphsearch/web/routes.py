"""The routes that read and answer requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..base.deadline import time_limit
from ..base.errors import (
    ChangedMeanwhileError,
    CorruptRecordError,
    InputFileError,
    InvalidParameterError,
    StoreLockedError,
    UnknownPositionError,
)
from ..base.limits import UPLOAD, check_size
from .gate import body_of
from .task_queue import ServedFile
from .tasks import MOST_BODY_BYTES, Task, W, read_request

WRITE_BYTES = 1 << 20  # of an upload, in one write
DOWNLOADS = {"pgn": "application/x-chess-pgn", "toml": "application/toml"}
QUESTION_SECONDS = 20.0  # time limit of an answer
_STATUS = ((UnknownPositionError, 404), (StoreLockedError, 409), (ChangedMeanwhileError, 409))
Answer = Callable[[ServedFile, W], Any]  # a response, a dict, or a report with `as_dict`


def served_by(request: Request) -> ServedFile:
    """Returns the served file of a request's application."""
    found = request.app.state.served
    assert isinstance(found, ServedFile)
    return found


async def error_response(request: Request, error: Exception) -> Response:
    """Returns the response to an error of any route: one line."""
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 400)
    text = " ".join(getattr(error, "problems", [str(error)]))
    facts = {"error": text.encode("utf-8", "backslashreplace").decode()}
    return JSONResponse(facts | {"damaged": isinstance(error, CorruptRecordError)}, status)


def get(path: str, kind: type[W], answer: Answer[W]) -> Route:
    """Returns the route of a GET request; a thread answers it from the address and its parameters."""

    def endpoint(request: Request) -> Response:
        given = {**request.query_params, **request.path_params}
        return _answered(answer, served_by(request), read_request(kind, given))

    return Route(path, endpoint, methods=["GET"])


def post(path: str, kind: type[W], answer: Answer[W], *, writes: bool = True) -> Route:
    """Returns the route of a JSON request that changes something, or is too long for an address.

    With `writes` it is refused where nothing may be changed.
    """

    async def endpoint(request: Request) -> Response:
        if writes:
            served_by(request).may_write()
        body = await body_of(request, MOST_BODY_BYTES)
        if body is None:
            raise InvalidParameterError(
                f"a request has at most {MOST_BODY_BYTES >> 20} MiB; import a file instead"
            )
        wanted = await run_in_threadpool(read_request, kind, body)
        return await run_in_threadpool(_answered, answer, served_by(request), wanted)

    return Route(path, endpoint, methods=["POST"])


def upload(path: str, kind: type[W], answer: Callable[[ServedFile, W], dict[str, Any]]) -> Route:
    """Returns the route of a POST request whose body is a file; its name is the field `file`."""

    async def endpoint(request: Request) -> Response:
        served, name = served_by(request), uuid4().hex
        served.may_write()
        wanted = read_request(kind, {**request.query_params, **request.path_params, "file": name})
        if isinstance(wanted, Task):
            wanted.title(served.place)  # refuses a wrong request before the upload
        await _receive(request, served.place.folder / name)
        return JSONResponse(await run_in_threadpool(answer, served, wanted))

    return Route(path, endpoint, methods=["POST"])


def _answered(answer: Answer[W], served: ServedFile, wanted: W) -> Response:
    with time_limit(QUESTION_SECONDS):
        found = answer(served, wanted)
        if isinstance(found, Response):
            return found
        facts = found if isinstance(found, dict) else found.as_dict()
        return JSONResponse(facts)


def download(content: str | bytes, stem: str, ending: str) -> Response:
    """Returns content as a file to save; its name has letters and digits of ASCII only."""
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in stem)
    headers = {"Content-Disposition": f'attachment; filename="{name}.{ending}"'}
    return Response(content, media_type=DOWNLOADS.get(ending, "application/octet-stream"), headers=headers)


async def _receive(request: Request, file: Path) -> None:
    """Writes a request's upload to a file as it arrives.

    Raises:
      InputFileError: if it is too large, or cannot be written.
    """
    size, piece = 0, bytearray()
    try:
        with await run_in_threadpool(file.open, "wb") as out:
            async for more in request.stream():
                size += len(more)
                check_size(size, UPLOAD, "the file")
                piece += more
                if len(piece) >= WRITE_BYTES:
                    await run_in_threadpool(out.write, bytes(piece))
                    piece.clear()
            await run_in_threadpool(out.write, bytes(piece))
    except OSError as error:
        file.unlink(missing_ok=True)
        raise InputFileError(f"the file cannot be saved: {error.strerror or error}") from None
    except BaseException:
        file.unlink(missing_ok=True)
        raise
