"""Messages about a BOOK.toml: every fault and every note with its file, line and key."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from ..base.errors import BookConfigError
from .toml_tables import TABLES, is_array

SHOWN = 60  # characters of a wrong value that a message repeats


@dataclass(slots=True)
class Faults:
    """The faults of a file and the notes for its author.

    Attributes:
      name, text: of the file.
    """

    name: str
    text: str
    notes: list[str] = field(default_factory=list)
    _found: list[tuple[int, str]] = field(default_factory=list)
    _lines: dict[KeyPath, int] | None = None

    def line(self, path: KeyPath) -> int:
        """Returns the line of a path, or of the table around it."""
        if self._lines is None:
            self._lines = lines_of(self.text)
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def add(self, place: KeyPath | int, text: str) -> None:
        """Adds a fault of a key, named before the text, or of a line."""
        found = (place, text) if isinstance(place, int) else (self.line(place), f"{named(place)}: {text}")
        self._found.append(found)

    def add_all(self, error: ValidationError) -> None:
        """Adds the faults of a validation."""
        self._found += [
            (self.line(fault["loc"]), _message(fault)) for fault in error.errors(include_url=False)
        ]

    def note(self, path: KeyPath, text: str) -> None:
        """Adds a note, with the table's name before the text."""
        self.notes.append(f"{self.name}:{self.line(path)}: {named(path[:1])} {text}")

    def __bool__(self) -> bool:
        return bool(self._found)

    def refuse(self) -> None:
        """Raises BookConfigError with all faults, in the order of their lines, if there are any."""
        if self._found:
            ordered = sorted(self._found, key=lambda fault: fault[0])
            raise BookConfigError([f"{self.name}:{line}: {text}" for line, text in ordered])


def named(path: KeyPath) -> str:
    """Returns the names of a table and a key.

    >>> named(("root", 2)), named(("root", 0, "games", 1)), named(("leaf", "params", "CPuct"))
    ('[[root]]', '[[root]] games[1]', '[leaf] params.CPuct')
    """
    section, *rest = path
    keys = rest[1:] if is_array(section) else rest
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    title = f"[[{section}]]" if is_array(section) else f"[{section}]"
    return f"{title} {text.lstrip('.')}".rstrip()


def _message(fault: ErrorDetails) -> str:
    """Returns the message of a validation fault."""
    path, kind = fault["loc"], fault["type"]
    inner = 1 + is_array(path[0])  # index of the table's own key
    if len(path) <= inner:
        return _table_message(fault)
    model = TABLES[str(path[0])]
    key = str(path[inner])
    known = model.model_fields.get(key) if len(path) == inner + 1 else None
    expected = known.description if known else None
    if kind == "extra_forbidden":
        return f"unknown key {key!r} in {named(path[:inner])}{allowed(key, model.model_fields)}"
    if kind == "missing":
        return f"{named(path[:inner])} needs {key}: {expected}"
    if kind in ("value_error", "fault"):
        return f"{named(path)}: {fault['ctx'].get('error') or fault['ctx']['text']}"
    must = f"must be {expected}" if expected else fault["msg"].replace("Input should", "must", 1)
    return f"{named(path)} {must}, not {shown(fault['input'])}{_hint(fault)}"


def _table_message(fault: ErrorDetails) -> str:
    """Returns the message of a fault of a whole table, or of something outside all tables."""
    path, value = fault["loc"], fault["input"]
    section = str(path[0])
    if fault["type"] in ("value_error", "fault"):
        return f"{named(path)} {fault['ctx'].get('error') or fault['ctx']['text']}"
    if section in TABLES:
        if is_array(section) and len(path) == 1:
            if isinstance(value, dict):
                return f"[{section}] is written [[{section}]]: there may be several"
            return f"{section} must be tables [[{section}]], not {shown(value)}"
        return f"{named(path)} must be a table, not {shown(value)}"
    if isinstance(value, (dict, list)):
        return f"unknown table [{section}]{allowed(section, TABLES)}"
    homes = [named((name, 0)) for name, model in TABLES.items() if section in model.model_fields]
    if homes:
        return f"{section} stands before all tables; it belongs below {' or '.join(homes)}"
    return f"unknown key {section!r} before all tables; tables are {', '.join(TABLES)}"


def _hint(fault: ErrorDetails) -> str:
    if fault["type"] != "literal_error" or not isinstance(fault["input"], str):
        return ""
    near = difflib.get_close_matches(fault["input"], re.findall(r"'(.*?)'", fault["ctx"]["expected"]), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def shown(value: object) -> str:
    """Returns a value for a message.

    >>> shown("dropot"), shown(True), shown([1, 2]), shown(12)
    ("'dropot'", 'true', 'a list', '12')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, dict)):
        return ("a list" if isinstance(value, list) else "a table") if value else "an empty one"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def allowed(found: str, names: Iterable[str]) -> str:
    """Returns the end of a message about an unknown name.

    >>> allowed("sied", ["name", "side"])
    "; did you mean 'side'? allowed are name, side"
    """
    known = list(names)
    near = difflib.get_close_matches(found.lower(), known, 1)
    hint = f"; did you mean {near[0]!r}? allowed are" if near else "; allowed are"
    return f"{hint} {', '.join(known)}"


KeyPath = tuple[str | int, ...]

MOST_LINES = 1000  # of one value; after a longer one no lines are known, because each line costs a parse


def lines_of(text: str) -> dict[KeyPath, int]:
    """Returns the line, from 1, of every table and key of a text that `tomllib` accepts, by its path.

    A path consists of keys and of indices, from 0, into arrays of tables. Items of lists have none. A
    table that several lines name has the line of its header, else of the first key in it.

    A statement ends at the first line with which it parses: no prefix of a value that spans lines is valid.

    >>> lines_of("[a]\\nb = [\\n1,\\n2]\\n[[c]]\\nd.e = 3")
    {('a',): 1, ('a', 'b'): 2, ('c',): 5, ('c', 0): 5, ('c', 0, 'd'): 6, ('c', 0, 'd', 'e'): 6}
    """
    lines: dict[KeyPath, int] = {}
    last: dict[KeyPath, int] = {}  # index of the last table of each array
    table: KeyPath = ()
    statement: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        statement.append(line)
        first = number - len(statement) + 1
        try:
            found = tomllib.loads("\n".join(statement))
        except tomllib.TOMLDecodeError:
            if len(statement) > MOST_LINES:
                break
            continue
        if statement[0].lstrip().startswith("["):
            table = _enter(found, lines, last, first)
        else:
            _note_keys(found, table, lines, first)
        statement = []
    return lines


def _enter(header: dict[str, Any], lines: dict[KeyPath, int], last: dict[KeyPath, int], line: int) -> KeyPath:
    """Returns the path of the table that a parsed header, `[a.b]` or `[[a.b]]`, begins; stores its line."""
    path: KeyPath = ()
    value: Any = header
    while value:
        (key,) = value
        path, value = (*path, key), value[key]
        if isinstance(value, list):
            last[path] = last.get(path, -1) + 1
            lines.setdefault(path, line)
        elif value:
            lines.setdefault(path, line)
        else:
            lines[path] = line
        if path in last:
            path, value = (*path, last[path]), value[0] if isinstance(value, list) else value
            lines.setdefault(path, line)
    return path


def _note_keys(found: dict[str, Any], table: KeyPath, lines: dict[KeyPath, int], line: int) -> None:
    for key, value in found.items():
        lines.setdefault((*table, key), line)
        if isinstance(value, dict):
            _note_keys(value, (*table, key), lines, line)
