"""How a request is read: its position and numbers; and how an answer or an error goes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import chess
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...errors import (
    GraphSearchError,
    InvalidParameterError,
    StoreLockedError,
    UnknownPositionError,
)
from ...limits import whole_number
from ...position.notation import START_WORD, named_board, play_moves
from ..house import House

MOST_BODY_BYTES = 32 << 20  # of what is pasted, such as games; files are streamed
_STATUS = ((UnknownPositionError, 404), (StoreLockedError, 409))


def house_of(request: Request) -> House:
    """Returns what the server serves."""
    found = request.app.state.house
    assert isinstance(found, House)
    return found


def board_of(given: Mapping[str, Any]) -> chess.Board:
    """Returns the position of a request, with the game before it: `root` is a FEN, `line` moves from there.

    Raises:
      InvalidPositionError: if it is none.
    """
    board = named_board(str(given.get("root") or START_WORD))
    play_moves(board, str(given.get("line") or ""))
    return board


def number(given: Mapping[str, Any], name: str, default: int, *, least: int = 0, most: int = 10**9) -> int:
    """Returns a whole number of a request.

    Raises:
      InvalidParameterError: if it is none, or out of range.
    """
    value = given.get(name)
    found = default if value in (None, "") else whole_number(str(value))
    if not least <= found <= most:
        raise InvalidParameterError(f"{name} must be {least:,} to {most:,}, not {found:,}")
    return found


def optional(given: Mapping[str, Any], name: str, *, least: int = 1) -> int | None:
    """Returns a whole number of a request, None if it has none."""
    return None if given.get(name) in (None, "") else number(given, name, 0, least=least, most=10**18)


def seconds(given: Mapping[str, Any], name: str) -> float | None:
    """Returns a time of a request, None if it has none."""
    text = given.get(name)
    if text in (None, ""):
        return None
    try:
        return float(str(text))
    except ValueError:
        raise InvalidParameterError(f"{name} must be a number of seconds, not {str(text)[:40]!r}") from None


def error_of(error: Exception) -> Response:
    """Returns what a page gets instead of an answer: one line."""
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 400)
    text = " ".join(getattr(error, "problems", [str(error)]))
    return JSONResponse({"error": text}, status)


def get(path: str, answer: Callable[[House, Mapping[str, Any]], Any]) -> Route:
    """Returns the route of a question; its answer is made in a thread, from the parameters of the address."""

    def endpoint(request: Request) -> Response:
        return _answered(answer, house_of(request), request.query_params)

    return Route(path, endpoint, methods=["GET"])


def post(path: str, answer: Callable[[House, Mapping[str, Any]], Any], *, writes: bool = True) -> Route:
    """Returns the route of a request that changes something, or is too long for an address: a JSON object.

    With `writes` it is refused where nothing may be changed.
    """

    async def endpoint(request: Request) -> Response:
        try:
            if writes:
                house_of(request).may_write()
            given = await _object(request)
        except GraphSearchError as error:
            return error_of(error)
        return await run_in_threadpool(_answered, answer, house_of(request), given)

    return Route(path, endpoint, methods=["POST"])


def _answered(
    answer: Callable[[House, Mapping[str, Any]], Any], house: House, given: Mapping[str, Any]
) -> Response:
    try:
        found = answer(house, given)
    except GraphSearchError as error:
        return error_of(error)
    return found if isinstance(found, Response) else JSONResponse(found)


async def _object(request: Request) -> dict[str, Any]:
    """Returns the JSON object that a request brings.

    Raises:
      InvalidParameterError: if it is none, or too long.
    """
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BODY_BYTES:
            raise InvalidParameterError(
                f"that is more than {MOST_BODY_BYTES >> 20} MiB; import it as a file instead"
            )
    try:
        found = json.loads(bytes(body) or b"{}")
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise InvalidParameterError("a request must be a JSON object")
    return found
