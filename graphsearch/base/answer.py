"""Answers as JSON objects, for `--json` and the web page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, cast


class Answer:
    """A dataclass that can be written as a JSON object of its fields, or of the attributes in `json_keys`.

    >>> class Share(Answer):
    ...     json_keys = "part whole share=ratio"
    ...     part, whole, ratio = 1, 2, 0.5
    >>> Share().as_dict()
    {'part': 1, 'whole': 2, 'share': 0.5}
    """

    __slots__ = ()
    json_keys: ClassVar[str] = ""

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object."""
        return picked(self, self.json_keys or _field_names(cast(Any, type(self))))


def picked(found: object, keys: str) -> dict[str, Any]:
    """Returns a JSON object of selected attributes.

    `keys`, such as `"n share leaf=ply.leaf *worth"`, has attributes; keys with the path of their value; and,
    with a star, objects to merge into this one.
    """
    values: dict[str, Any] = {}
    for key, read in _readers(keys):
        value = plain(read(found))
        values |= value if key.startswith("*") else {key: value}
    return values


@cache
def _field_names(kind: Any) -> str:
    return " ".join(field.name for field in fields(kind))


@cache
def _readers(keys: str) -> list[tuple[str, attrgetter[Any]]]:
    pairs = [word.partition("=") for word in keys.split()]
    return [(key, attrgetter(path or key.lstrip("*"))) for key, _, path in pairs]


def plain(value: Any) -> Any:
    """Returns a value as JSON data: dataclasses as objects, moves in UCI, tuples as lists.

    >>> import chess
    >>> plain({"pv": (chess.Move.from_uci("e2e4"), None)})
    {'pv': ['e2e4', None]}
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if hasattr(value, "uci"):
        return value.uci()
    return picked(value, _field_names(cast(Any, type(value))))
