"""Validation of JSON from outside: every field has a declared type and bounds.

A row of `store_info` may come from anywhere. Pydantic takes a third of a second
to import, so callers import this module only when there is JSON to read.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import Field, TypeAdapter, ValidationError

from .errors import InputFileError

MOST_COUNT = (1 << 53) - 1  # exact in every program that reads JSON
LONGEST = 4096  # characters of a name or a digest

Count = Annotated[int, Field(ge=0, le=MOST_COUNT)]
Word = Annotated[str, Field(min_length=1, max_length=LONGEST)]

MOST_MARKS = 20_000  # of positions
Marks = Annotated[dict[Word, Count], Field(max_length=MOST_MARKS)]
# of one position of a set: evaluations and milliseconds spent on it, and both when its best move became right
Spent = Annotated[tuple[Count, Count, Count | None, Count | None], Field(strict=False)]
SpentByPosition = Annotated[dict[Word, Spent], Field(max_length=MOST_MARKS)]

_T = TypeVar("_T")


def declared(kind: type[_T], text: str | bytes) -> _T:
    """Parses a JSON text as a type of this module.

    Raises:
      InputFileError: naming the first invalid field.

    >>> declared(Marks, '{"startpos": -1}')
    Traceback (most recent call last):
    graphsearch.base.errors.InputFileError: startpos: Input should be greater than or equal to 0
    """
    try:
        found: _T = _adapter(cast(Hashable, kind)).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InputFileError(f"{where}: {first['msg']}" if where else first["msg"]) from None
    except ValueError as error:  # not valid Unicode
        raise InputFileError(str(error)) from None
    return found


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))
