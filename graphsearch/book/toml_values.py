"""Types of the values of a BOOK.toml: what a key may hold, and its range."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from ..search.params import MAX_LIMIT

MAX_GAME = 10**9
MAX_PLY = 1000
MOST_CP = 100_000
MOST_MOVES = 256
MOST_WEIGHT = 1e6
ALL = "all"


Fault = tuple[tuple[str | int, ...], str]  # path in the validated value, text


def refuse(faults: Iterable[Fault]) -> None:
    """Raises ValidationError if there are any faults."""
    found = [
        InitErrorDetails(type=PydanticCustomError("fault", "{text}", {"text": text}), loc=path, input=None)
        for path, text in faults
    ]
    if found:
        raise ValidationError.from_exception_data("BOOK.toml", found)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def printable(text: str) -> str:
    """Returns a name.

    Raises:
      ValueError: if it is too long or cannot be printed.
    """
    if not text.isprintable() or len(text) > 100:
        raise ValueError("must be at most 100 printable characters")
    return text


def _without_all(value: object) -> object:
    return None if value == ALL else value


def _option(value: object) -> str:
    """Returns the text of an option's value."""
    if not isinstance(value, (bool, int, float, str)):
        raise ValueError("must be a number, a text, true or false")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _in_order(plies: list[int]) -> list[int]:
    if plies[0] > plies[-1]:
        raise ValueError(f"the first ply must not be behind the last one, as in {plies}")
    return plies


Text = Annotated[str, AfterValidator(_not_blank)]
Count = Annotated[int, Field(ge=1, le=MAX_LIMIT)]
Ply = Annotated[int, Field(ge=0, le=MAX_PLY)]
Game = Annotated[int, Field(ge=1, le=MAX_GAME)]
Games = Annotated[
    Annotated[list[Game], Field(min_length=1)] | None,
    BeforeValidator(_without_all),
    Field(description='"all" or a list of numbers, such as [1, 2]'),
]
Plies = Annotated[
    list[Ply],
    Field(
        min_length=1,
        max_length=2,
        description="a list of the first and the last ply, such as [0, 12], or of the first",
    ),
    AfterValidator(_in_order),
]
Centipawns = Annotated[float, Field(ge=0, le=MOST_CP)]
MostMoves = Annotated[
    Annotated[int, Field(ge=1, le=MOST_MOVES)] | None,
    BeforeValidator(_without_all),
    Field(description=f'a whole number from 1 to {MOST_MOVES}, or "all"'),
]
Weight = Annotated[float, Field(ge=0, le=MOST_WEIGHT)]
Options = dict[str, Annotated[str, BeforeValidator(_option)]]


class Table(BaseModel):
    """A table: no key is unknown, and no value becomes another type."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


def located(folder: Path | None, name: str) -> Path:
    """Returns the absolute path of a file name, which is relative to a folder; `~` is a home."""
    return (Path(folder or "") / os.path.expanduser(name)).absolute()  # noqa: PTH111 (pathlib's fails where there is none)
