"""The base of all requests of the page, and the routes that read and answer them.

The models of requests stand beside their routes. Unknown fields are refused. An empty field counts as
missing: forms send all their fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

import chess
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...base.deadline import time_limit
from ...base.errors import (
    ChangedMeanwhileError,
    CorruptRecordError,
    InvalidParameterError,
    StoreLockedError,
    UnknownPositionError,
)
from ...base.limits import shortened, whole_number
from ...exchange.games_export import csv_text, table_text
from ...position.notation import START_WORD, named_board, play_moves
from ..gate import body_of
from ..served_file import ServedFile

MOST_COUNT = 10**18  # visits, evaluations
MOST_BODY_BYTES = 32 << 20  # of a pasted text, such as games; files are streamed


def _whole(value: object) -> object:
    """Returns the whole number in a form or an address; the model checks anything else."""
    if isinstance(value, bool):
        raise ValueError("expected a whole number")  # the model reports it
    return whole_number(value) if isinstance(value, str) else value


SPELLED = BeforeValidator(_whole)
Count = Annotated[int, Field(ge=1, le=MOST_COUNT), SPELLED]
Ply = Annotated[int, Field(ge=0, le=10**9), SPELLED]
Name = Annotated[str, Field(max_length=200)]  # of a book, a player, an evaluator, a file
Words = Annotated[str, Field(max_length=4000)]  # of a form
Line = Annotated[str, Field(max_length=60_000)]  # moves
Pasted = Annotated[str, Field(max_length=MOST_BODY_BYTES)]
Upload = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$", max_length=32)]  # name of a received file
Statement = Annotated[str, Field(max_length=1 << 20)]


class Wanted(BaseModel):
    """A request; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _without_blanks(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            raise ValueError("a request must be a JSON object")  # the model reports it
        return {name: value for name, value in given.items() if value is not None and value != ""}


_W = TypeVar("_W", bound=Wanted)


def read_request(kind: type[_W], given: Mapping[str, object] | bytes) -> _W:
    """Returns the request from parameters, or from a body: a JSON object, without lone surrogates, not deep.

    Raises:
      InvalidParameterError: with the first wrong field and its problem.
    """
    try:
        if isinstance(given, bytes):
            return kind.model_validate_json(given or b"{}")
        return kind.model_validate(dict(given))
    except ValidationError as error:
        raise InvalidParameterError(_problem_of(error)) from None


def _problem_of(error: ValidationError) -> str:
    """Returns the first problem of a request, as one line."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    text = first["msg"].removeprefix("Value error, ")
    text = {"extra_forbidden": "this request has no such field", "json_invalid": f"no JSON: {text}"}.get(
        first["type"], text
    )
    where = ".".join(map(str, first["loc"]))
    return f"{shortened(where)}: {text[:1].lower()}{text[1:]}" if where else text


# ---------------------------------------------------------------- positions
class Nothing(Wanted):
    """A request without fields."""


class GivenPosition(Wanted):
    """A position: a FEN or the name of a start position, and the moves from there."""

    root: Words = START_WORD
    line: Line = ""

    def board(self) -> chess.Board:
        """Returns the position with the game before it.

        Raises:
          InvalidPositionError: if it is not a legal position.
        """
        found = named_board(self.root)
        play_moves(found, self.line)
        return found


class Rooted(Wanted):
    """A position to begin with, or all roots of the file."""

    root: Words | None = None
    line: Line = ""

    def board(self) -> chess.Board | None:
        """Returns the position; None for all roots.

        Raises:
          InvalidPositionError: if it is not a legal position.
        """
        return None if self.root is None else GivenPosition(root=self.root, line=self.line).board()


class Text(Wanted):
    """A FEN, a list of moves, or games."""

    text: Pasted = ""


# ---------------------------------------------------------------- routes
CSV = "csv"  # the parameter that asks for a file
DOWNLOADS = {"csv": "text/csv; charset=utf-8", "pgn": "application/x-chess-pgn", "toml": "application/toml"}
QUESTION_SECONDS = 20.0  # time limit of an answer
_STATUS = ((UnknownPositionError, 404), (StoreLockedError, 409), (ChangedMeanwhileError, 409))
Answer = Callable[[ServedFile, _W], Any]  # a response, a dict, or a report with `as_dict`


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


def get(path: str, kind: type[_W], answer: Answer[_W]) -> Route:
    """Returns the route of a GET request; a thread answers it from the parameters of the address.

    With the parameter `csv` the response is a file of the answer's rows of that name.
    """

    def endpoint(request: Request) -> Response:
        given = dict(request.query_params)
        table = given.pop(CSV, "")
        return _answered(answer, served_by(request), read_request(kind, given), table)

    return Route(path, endpoint, methods=["GET"])


def post(path: str, kind: type[_W], answer: Answer[_W], *, writes: bool = True) -> Route:
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
        table = request.query_params.get(CSV, "")
        return await run_in_threadpool(_answered, answer, served_by(request), wanted, table)

    return Route(path, endpoint, methods=["POST"])


def _answered(answer: Answer[_W], served: ServedFile, wanted: _W, table: str) -> Response:
    with time_limit(QUESTION_SECONDS):
        found = answer(served, wanted)
        if isinstance(found, Response):
            return found
        facts = found if isinstance(found, dict) else found.as_dict()
        return _csv(served, facts, table) if table else JSONResponse(facts)


def _csv(served: ServedFile, facts: dict[str, object], table: str) -> Response:
    """Returns some rows of an answer as a file; `table`: their path in the answer, such as "node.moves"."""
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
