"""Turns requests into their models, and answers and errors into responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...deadline import time_limit
from ...errors import (
    ChangedMeanwhileError,
    GraphSearchError,
    InvalidParameterError,
    StoreLockedError,
    UnknownPositionError,
)
from ..served_file import ServedFile
from .requests import MOST_BODY_BYTES, Wanted, read_body, read_query

QUESTION_SECONDS = 20.0  # most time of an answer
_STATUS = ((UnknownPositionError, 404), (StoreLockedError, 409), (ChangedMeanwhileError, 409))
_W = TypeVar("_W", bound=Wanted)
Answer = Callable[[ServedFile, _W], Any]  # a response, a dict, or a report with `as_dict`


def served_by(request: Request) -> ServedFile:
    """Returns the served file of a request's application."""
    found = request.app.state.served
    assert isinstance(found, ServedFile)
    return found


def error_of(error: Exception) -> Response:
    """Returns the response to an error: one line."""
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 400)
    text = " ".join(getattr(error, "problems", [str(error)]))
    return JSONResponse({"error": text.encode("utf-8", "backslashreplace").decode()}, status)


def get(path: str, kind: type[_W], answer: Answer[_W]) -> Route:
    """Returns the route of a question; its answer is made in a thread, from the parameters of the address."""

    def endpoint(request: Request) -> Response:
        try:
            wanted = read_query(kind, request.query_params)
        except GraphSearchError as error:
            return error_of(error)
        return _answered(answer, served_by(request), wanted)

    return Route(path, endpoint, methods=["GET"])


def post(path: str, kind: type[_W], answer: Answer[_W], *, writes: bool = True) -> Route:
    """Returns the route of a request that changes something, or is too long for an address: a JSON object.

    With `writes` it is refused where nothing may be changed.
    """

    async def endpoint(request: Request) -> Response:
        try:
            if writes:
                served_by(request).may_write()
            body = await _body(request)
            wanted = await run_in_threadpool(read_body, kind, body)
        except GraphSearchError as error:
            return error_of(error)
        return await run_in_threadpool(_answered, answer, served_by(request), wanted)

    return Route(path, endpoint, methods=["POST"])


def _answered(answer: Answer[_W], served: ServedFile, wanted: _W) -> Response:
    try:
        with time_limit(QUESTION_SECONDS):
            found = answer(served, wanted)
    except GraphSearchError as error:
        return error_of(error)
    if isinstance(found, Response):
        return found
    return JSONResponse(found if isinstance(found, dict) else found.as_dict())


async def _body(request: Request) -> bytes:
    """Returns the body of a request.

    Raises:
      InvalidParameterError: if it is too long.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY_BYTES:
            raise InvalidParameterError(
                f"that is more than {MOST_BODY_BYTES >> 20} MiB; import it as a file instead"
            )
    return bytes(body)
