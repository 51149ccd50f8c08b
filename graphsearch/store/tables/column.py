"""The kinds of columns of the plain tables: their valid values, and a description for messages."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..record.node import MAX_EVALUATOR, MAX_RUN

MOST = (1 << 63) - 1  # SQLite's largest integer
DEEPEST = 32  # objects and lists within each other in a JSON object
ROUNDING = 1e-6  # a single-precision number may exceed its range by this much

_KEY = re.compile(r"(?:[0-9a-f]{4}){4,5}\Z")
_MOVE = re.compile(r"(?:[a-h][1-8][a-h][1-8][nbrq]?|0000)\Z")
_DATE = re.compile(r"[0-9]{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12][0-9]|3[01]))?)?\Z")
_NAG = r"(?:1?[0-9]?[0-9]|2[0-4][0-9]|25[0-5])"
_NAGS = re.compile(rf"(?:{_NAG}(?: {_NAG})*)?\Z")
_FEN = re.compile(
    r"[1-8pnbrqkPNBRQK]{1,8}(?:/[1-8pnbrqkPNBRQK]{1,8}){7}"
    r" [wb] (?:-|[KQkqA-Ha-h]{1,4}) (?:-|[a-h][1-8]) [0-9]{1,3} [0-9]+\Z"
)


@dataclass(frozen=True, slots=True)
class Column:
    """The valid values of a column.

    Attributes:
      kind: SQLite's type, as declared. form: description of a valid value, for messages.
      fits: returns whether a value that is not NULL is valid.
      nullable: whether NULL is valid. most: most bytes of a BLOB.
      all_fit: returns True only if all given values, none of them NULL, are valid; it is faster than `fits`,
        but may return False for valid values.
    """

    kind: str
    form: str
    fits: Callable[[Any], bool]
    nullable: bool = False
    most: int = 0
    all_fit: Callable[[Sequence[Any]], bool] | None = None

    def holds(self, value: object) -> bool:
        """Returns whether the column may hold a value."""
        return self.nullable if value is None else self.fits(value)

    def holds_all(self, values: Sequence[object]) -> bool:
        """Returns True only if the column may hold all given values; after False, ask `holds` for each."""
        if None in values:
            if not self.nullable:
                return False
            values = [value for value in values if value is not None]
        return all(map(self.fits, values)) if self.all_fit is None else self.all_fit(values)

    def or_null(self) -> Column:
        """Returns the same column, but nullable."""
        return replace(self, form=f"{self.form} or NULL", nullable=True)


def _is_text(value: object) -> bool:
    """Returns whether a value is text without NUL, decoded from valid UTF-8."""
    if not isinstance(value, str):
        return False
    return "\0" not in value and (value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value))


def text(form: str, fits: Callable[[str], object]) -> Column:
    """Returns a column of texts that satisfy a condition."""

    def all_fit(values: Sequence[Any]) -> bool:
        return _types(values) <= _TEXTS and _is_text("".join(values)) and all(map(fits, values))

    return Column("TEXT", form, lambda value: _is_text(value) and bool(fits(value)), all_fit=all_fit)


_TEXTS, _INTEGERS, _NUMBERS = {str}, {int}, {int, float}


def _types(values: Sequence[object]) -> set[type]:
    return set(map(type, values))


def integer(low: int, high: int = MOST) -> Column:
    """Returns a column of integers in a range, ends included."""
    if (low, high) == (-MOST - 1, MOST):
        return Column("INTEGER", "an integer", lambda value: isinstance(value, int))
    to = "on" if high == MOST else f"to {high}"
    return Column(
        "INTEGER",
        f"an integer from {low} {to}",
        lambda value: isinstance(value, int) and low <= value <= high,
        all_fit=lambda values: (
            _types(values) <= _INTEGERS
            and low <= min(values, default=low)
            and max(values, default=high) <= high
        ),
    )


def real(low: float, high: float) -> Column:
    """Returns a column of finite numbers; SQLite may return whole ones as integers."""
    between = (
        "" if math.isinf(low) else f" from {low:g} on" if math.isinf(high) else f" from {low:g} to {high:g}"
    )

    def fits(value: object) -> bool:
        if not isinstance(value, int | float):
            return False
        return low - ROUNDING <= value <= high + ROUNDING and math.isfinite(value)

    def all_fit(values: Sequence[Any]) -> bool:
        if not (_types(values) <= _NUMBERS and all(map(math.isfinite, values))):
            return False
        return low - ROUNDING <= min(values, default=low) and max(values, default=high) <= high + ROUNDING

    return Column("REAL", f"a finite number{between}", fits, all_fit=all_fit)


def blob(most: int) -> Column:
    """Returns a column of BLOBs of at most `most` bytes."""

    def fits(value: object) -> bool:
        return isinstance(value, bytes) and len(value) <= most

    return Column("BLOB", f"a BLOB of at most {most} bytes", fits, most=most)


def one_of(*words: str) -> Column:
    """Returns a column that holds one of the given words."""
    return text("one of " + ", ".join(map(repr, words)), words.__contains__)


def json_object(text: object) -> dict[str, Any] | None:
    """Returns the JSON object of a text; None if it is not one, or is nested deeper than `DEEPEST`.

    >>> json_object('{"depth": 2}'), json_object("nojson"), json_object("[]")
    ({'depth': 2}, None, None)
    """
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and _is_flat(found) else None


def _is_flat(found: object, left: int = DEEPEST) -> bool:
    """Returns whether objects and lists in a JSON value are nested at most DEEPEST deep."""
    if not isinstance(found, dict | list):
        return True
    return left > 0 and all(
        _is_flat(x, left - 1) for x in (found.values() if isinstance(found, dict) else found)
    )


ANY_TEXT = text("text", lambda _: True)
WORD = text("text that is not empty", bool)
KEY = text("16 or 20 hex digits", _KEY.match)
MOVE = text("a move in UCI", _MOVE.match)
DATE = text("YYYY, YYYY-MM or YYYY-MM-DD", _DATE.match)
NAGS = text("numbers of glyphs from 0 to 255", _NAGS.match)
FEN = text("a FEN", _FEN.match)
FEN_OR_NONE = text("a FEN, or empty", lambda text: not text or _FEN.match(text))
OBJECT = text("a JSON object", lambda text: json_object(text) is not None)
ANY_INTEGER = integer(-MOST - 1)
MOST_COUNT = (1 << 53) - 1  # exact in every program that reads JSON
ID, COUNT, U16, U32 = integer(1), integer(0, MOST_COUNT), integer(0, (1 << 16) - 1), integer(0, (1 << 32) - 1)
EVALUATOR, RUN = integer(1, MAX_EVALUATOR), integer(1, MAX_RUN)
PLY = integer(0, (1 << 31) - 1)
Q, SHARE = real(-1, 1), real(0, 1)
DURATION, NUMBER = real(0, math.inf), real(-math.inf, math.inf)
ANY_BLOB = blob((1 << 30) - 1)
