"""On which line of a TOML text each table, key and item of a list stands, which `tomllib` does not tell."""

from __future__ import annotations

import re
import tomllib

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\n]++|#[^\n]*+)*+")  # no way back: it takes 100 bytes a character
_KEY_PART = r"\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[A-Za-z0-9_-]+"
_KEY = re.compile(rf"[ \t]*(?:{_KEY_PART})(?:[ \t]*\.[ \t]*(?:{_KEY_PART}))*")
_PART = re.compile(_KEY_PART)
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'  # up to two quotes may stand before the three that end it
    r"|'''.*?'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_BARE = re.compile(r"[^,\]}\n#]+")  # numbers, dates (with a blank in them), true and false


def lines_of(text: str) -> dict[Path, int]:
    """Returns the line, from 1, of everything in a TOML text that `tomllib` accepts, by its path.

    A path is made of keys, and of places, from 0, in lists and arrays of tables. A table that several lines
    name stands where its header is, else where it is named first.

    >>> lines_of("[a]\\nb = [\\n1,\\n2]\\n[[c]]\\nd.e = 3")
    {('a',): 1, ('a', 'b'): 2, ('a', 'b', 0): 3, ('a', 'b', 1): 4, ('c',): 5, ('c', 0): 5, ('c', 0, 'd'): 6, \
('c', 0, 'd', 'e'): 6}
    """
    return _Scanner(text.replace("\r\n", "\n")).scan()


class _Scanner:
    """Walks once over a valid text; it need not tell good from bad, which `tomllib` did."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line, self._counted = 1, 0  # the line of a place up to which ends of lines are counted
        self._last: dict[Path, int] = {}  # place of the last table of each array of tables
        self._lines: dict[Path, int] = {}

    def scan(self) -> dict[Path, int]:
        """Returns the lines of the whole text."""
        table: Path = ()
        while self._skip_blank():
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    def _skip_blank(self) -> bool:
        """Passes over blanks, ends of lines and comments; returns whether anything is left."""
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at < len(self._text)

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Returns what a pattern matches here, and passes over it."""
        found = pattern.match(self._text, self._at)
        assert found, f"a text that tomllib read, unread here at {self._text[self._at : self._at + 20]!r}"
        self._at = found.end()
        return found[0]

    def _note(self, path: Path, *, again: bool = False) -> None:
        if again or path not in self._lines:
            self._line += self._text.count("\n", self._counted, self._at)
            self._counted = self._at
            self._lines[path] = self._line

    def _header(self) -> Path:
        """Returns the path of the table that `[a.b]` or `[[a.b]]` begins."""
        is_array = self._text.startswith("[[", self._at)
        self._at += 1 + is_array
        *above, own = self._key()
        path: Path = ()
        for part in above:
            path = self._inside((*path, part))
        path = (*path, own)
        if not is_array:
            self._note(path, again=True)
            self._at = self._text.index("]", self._at) + 1
            return self._inside(path)
        self._note(path)
        self._last[path] = self._last.get(path, -1) + 1
        path = self._inside(path)
        self._at = self._text.index("]]", self._at) + 2
        return path

    def _inside(self, path: Path) -> Path:
        """Returns the path of a table named in a header: of an array of tables, the last one."""
        self._note(path)
        if path not in self._last:
            return path
        path = (*path, self._last[path])
        self._note(path)
        return path

    def _key(self) -> list[str]:
        return [_unquoted(part) for part in _PART.findall(self._take(_KEY))]

    def _pair(self, table: Path) -> None:
        """Passes over `key = value`."""
        path = table
        for part in self._key():
            path = (*path, part)
            self._note(path)
        self._at = self._text.index("=", self._at) + 1
        self._value(path)

    def _value(self, path: Path) -> None:
        self._skip_blank()
        first = self._text[self._at]
        if first == "[":
            self._list(path)
        elif first == "{":
            self._inline_table(path)
        else:
            self._take(_STRING if first in "\"'" else _BARE)

    def _list(self, path: Path) -> None:
        place = 0
        while self._goes_on("]"):
            self._note((*path, place))
            self._value((*path, place))
            place += 1

    def _inline_table(self, path: Path) -> None:
        while self._goes_on("}"):
            self._pair(path)

    def _goes_on(self, end: str) -> bool:
        """Passes over `[`, `{` or a comma; returns False, behind the end, if nothing follows."""
        self._skip_blank()
        if self._text[self._at] != end:
            self._at += self._text[self._at] in "[{,"
            self._skip_blank()
        if self._text[self._at] == end:
            self._at += 1
            return False
        return True


def _unquoted(part: str) -> str:
    """Returns a part of a key without its quotes and escapes."""
    return next(iter(tomllib.loads(f"{part} = 0"))) if part[0] in "\"'" else part
