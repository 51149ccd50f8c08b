"""The base of all requests of the page, and of its tasks, which the file keeps as requests.

Unknown fields are refused. An empty field counts as missing: forms send all their fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import chess
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ..base.errors import InvalidParameterError
from ..base.limits import shortened, whole_number
from ..position.notation import START_WORD, named_board, play_moves

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


W = TypeVar("W", bound=Wanted)


def read_request(kind: type[W], given: Mapping[str, object] | bytes) -> W:
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
