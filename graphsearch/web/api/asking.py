"""Parses requests into their models, and turns answers and errors into responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...base.deadline import time_limit
from ...base.errors import (
    ChangedMeanwhileError,
    GraphSearchError,
    InvalidParameterError,
    StoreLockedError,
    UnknownPositionError,
)
from ...exchange.games_export import csv_text, table_text
from ..served_file import ServedFile
from .requests import MOST_BODY_BYTES, Wanted, read_body, read_query

CSV = "csv"  # the parameter that asks for a file
DOWNLOADS = {"csv": "text/csv; charset=utf-8", "pgn": "application/x-chess-pgn", "toml": "application/toml"}
QUESTION_SECONDS = 20.0  # time limit of an answer
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
    """Returns the route of a GET request; a thread answers it from the parameters of the address.

    With the parameter `csv` the response is a file of the answer's rows of that name.
    """

    def endpoint(request: Request) -> Response:
        given = dict(request.query_params)
        table = given.pop(CSV, "")
        try:
            wanted = read_query(kind, given)
        except GraphSearchError as error:
            return error_of(error)
        return _answered(answer, served_by(request), wanted, table)

    return Route(path, endpoint, methods=["GET"])


def post(path: str, kind: type[_W], answer: Answer[_W], *, writes: bool = True) -> Route:
    """Returns the route of a JSON request that changes something, or is too long for an address.

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
        table = request.query_params.get(CSV, "")
        return await run_in_threadpool(_answered, answer, served_by(request), wanted, table)

    return Route(path, endpoint, methods=["POST"])


def _answered(answer: Answer[_W], served: ServedFile, wanted: _W, table: str) -> Response:
    try:
        with time_limit(QUESTION_SECONDS):
            found = answer(served, wanted)
            if isinstance(found, Response):
                return found
            facts = found if isinstance(found, dict) else found.as_dict()
            return _csv(served, facts, table) if table else JSONResponse(facts)
    except GraphSearchError as error:
        return error_of(error)


def _csv(served: ServedFile, facts: dict[str, object], table: str) -> Response:
    """Returns some rows of an answer as a file; `table`: their path in the answer, such as "node.moves".

    Raises:
      InvalidParameterError: if the answer has no such rows.
    """
    rows: object = facts
    for name in table.split("."):
        rows = rows.get(name) if isinstance(rows, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict | list) for row in rows):
        raise InvalidParameterError(f"this answer has no table {table!r}")
    columns = facts.get("columns")
    text = table_text(columns, rows) if isinstance(columns, list) else csv_text(rows)
    return download(text, f"{served.path.stem}-{table}", "csv")


def download(content: str | bytes, stem: str, ending: str) -> Response:
    """Returns content as a file to save; its name has letters and digits of ASCII only."""
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in stem)
    headers = {"Content-Disposition": f'attachment; filename="{name}.{ending}"'}
    return Response(content, media_type=DOWNLOADS.get(ending, "application/octet-stream"), headers=headers)


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
                f"a request has at most {MOST_BODY_BYTES >> 20} MiB; import a file instead"
            )
    return bytes(body)
