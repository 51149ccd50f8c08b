"""The line of every table and key of a TOML text; `tomllib` does not report lines."""

from __future__ import annotations

import tomllib
from typing import Any

Path = tuple[str | int, ...]

MOST_LINES = 1000  # of one value; behind a longer one no line is known, because each line costs a parse


def lines_of(text: str) -> dict[Path, int]:
    """Returns the line, from 1, of every table and key of a text that `tomllib` accepts, by its path.

    A path consists of keys and of indices, from 0, into arrays of tables. Items of lists have none. A
    table that several lines name has the line of its header, else of the first key in it.

    A statement ends at the first line with which it parses: no prefix of a value that spans lines is valid.

    >>> lines_of("[a]\\nb = [\\n1,\\n2]\\n[[c]]\\nd.e = 3")
    {('a',): 1, ('a', 'b'): 2, ('c',): 5, ('c', 0): 5, ('c', 0, 'd'): 6, ('c', 0, 'd', 'e'): 6}
    """
    lines: dict[Path, int] = {}
    last: dict[Path, int] = {}  # index of the last table of each array
    table: Path = ()
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


def _enter(header: dict[str, Any], lines: dict[Path, int], last: dict[Path, int], line: int) -> Path:
    """Returns the path of the table that a parsed header, `[a.b]` or `[[a.b]]`, begins; notes its line."""
    path: Path = ()
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


def _note_keys(found: dict[str, Any], table: Path, lines: dict[Path, int], line: int) -> None:
    for key, value in found.items():
        lines.setdefault((*table, key), line)
        if isinstance(value, dict):
            _note_keys(value, (*table, key), lines, line)
