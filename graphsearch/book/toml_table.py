"""Typed reading of TOML tables: what is wrong is collected, each fault with its line and what is allowed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import BookConfigError
from .toml_lines import Path

SHOWN = 60  # characters of a wrong value that an error repeats


@dataclass(slots=True)
class Faults:
    """What is wrong with a file, and what its author should know.

    Attributes:
      name: of the file. lines: of everything in it, by path.
    """

    name: str
    lines: Mapping[Path, int]
    notes: list[str] = field(default_factory=list)
    _found: list[tuple[int, str]] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """Returns the line of a path, or of what holds it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def add(self, place: Path | int, text: str) -> None:
        """Adds a fault at a path, or on a line."""
        self._found.append((place if isinstance(place, int) else self.line(place), text))

    def note(self, path: Path, text: str) -> None:
        """Adds what is no fault, but should be known."""
        self.notes.append(f"{self.name}:{self.line(path)}: {text}")

    def __bool__(self) -> bool:
        return bool(self._found)

    def refuse(self) -> None:
        """Raises BookConfigError if anything is wrong, all faults in the order of their lines."""
        if self._found:
            ordered = sorted(self._found, key=lambda fault: fault[0])
            raise BookConfigError([f"{self.name}:{line}: {text}" for line, text in ordered])


class Table:
    """One table of the file. Readers return None for what is not there, and for what is wrong."""

    def __init__(self, title: str, data: Any, path: Path, keys: Iterable[str], faults: Faults) -> None:
        """Takes a table, and reports the keys that it may not have.

        Args:
          title: as messages name it, such as `[book]`.
          keys: that are allowed.
        """
        self.title = title
        self.path = path
        self.faults = faults
        self._keys = tuple(keys)
        self._data: dict[str, Any] = data if isinstance(data, dict) else {}
        if not isinstance(data, dict):
            self._wrong(path, f"{title} must be a table, not {shown(data)}")
        for key in self._data:
            if key not in self._keys:
                where = f" in {title}" if title else ""
                self._wrong((*path, key), f"unknown key {key!r}{where}{allowed(key, self._keys)}")

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def allows(self, key: str) -> bool:
        """Returns whether tables of this kind have a key."""
        return key in self._keys

    def line(self, key: str | None = None) -> int:
        """Returns the line of a key, or of the table."""
        return self.faults.line(self.path if key is None else (*self.path, key))

    def fault(self, key: str, text: str) -> None:
        """Reports what is wrong with a key."""
        self._wrong((*self.path, key), f"{self.title} {key}: {text}")

    def note(self, key: str, text: str) -> None:
        """Reports what should be known about a key."""
        self.faults.note((*self.path, key), f"{self.title} {text}")

    def _wrong(self, path: Path, text: str) -> None:
        self.faults.add(path, text)

    def _must(self, key: str, what: str) -> None:
        value = self._data[key]
        self._wrong((*self.path, key), f"{self.title} {key} must be {what}, not {shown(value)}")

    def get(self, key: str) -> Any:
        """Returns a value as it stands there, None if it does not."""
        assert key in self._keys
        return self._data.get(key)

    def text(self, key: str, what: str = "a text") -> str | None:
        """Returns a text that is not blank."""
        value = self.get(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        self._must(key, what)
        return None

    def choice(self, key: str, options: tuple[str, ...]) -> str | None:
        """Returns one of some words."""
        value = self.get(key)
        if value is None or value in options:
            return None if value is None else str(value)
        near = difflib.get_close_matches(str(value), options, 1) if isinstance(value, str) else []
        hint = f"; did you mean {near[0]!r}?" if near else ""
        listed = ", ".join(f'"{option}"' for option in options)
        self._wrong(
            (*self.path, key), f"{self.title} {key} must be one of {listed}, not {shown(value)}{hint}"
        )
        return None

    def flag(self, key: str) -> bool | None:
        """Returns true or false."""
        value = self.get(key)
        if value is None or isinstance(value, bool):
            return value
        self._must(key, "true or false")
        return None

    def whole(self, key: str, least: int, most: int, *, word: str | None = None) -> int | None:
        """Returns a whole number in a range; None also for the word that may stand in its place."""
        value = self.get(key)
        if value is None or (word is not None and value == word):
            return None
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self._must(key, f"a whole number from {least} to {most:,}" + (f', or "{word}"' if word else ""))
        return None

    def number(self, key: str, least: float, most: float, *, above: bool = False) -> float | None:
        """Returns a number in a range, with `above` without the least one."""
        value = self.get(key)
        if value is None:
            return None
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if good and least <= value <= most and not (above and value == least):
            return float(value)
        span = f"above {least:g}, at most {most:,.0f}" if above else f"from {least:g} to {most:,.0f}"
        self._must(key, f"a number {span}")
        return None

    def items(self, key: str, what: str) -> list[tuple[Path, Any]] | None:
        """Returns the items of a list that is not empty, with their paths."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, list) or not value:
            self._must(key, what)
            return None
        return [((*self.path, key, i), item) for i, item in enumerate(value)]

    def pairs(self, key: str) -> list[tuple[str, str]]:
        """Returns the (name, value text) pairs of a table of options."""
        value = self.get(key)
        if value is not None and not isinstance(value, dict):
            self._must(key, "a table, such as { NAME = VALUE }")
            return []
        found = []
        for name, option in (value or {}).items():
            if isinstance(option, (bool, int, float, str)):
                found.append((name, str(option).lower() if isinstance(option, bool) else str(option)))
            else:
                text = f"{self.title} {key}: {name} must be a number, a text, true or false"
                self._wrong((*self.path, key, name), f"{text}, not {shown(option)}")
        return found


def shown(value: object) -> str:
    """Returns a value as an error shows it.

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
    """Returns what an error says behind a name that is not allowed.

    >>> allowed("sied", ["name", "side"])
    "; did you mean 'side'? allowed are name, side"
    """
    known = list(names)
    near = difflib.get_close_matches(found.lower(), known, 1)
    hint = f"; did you mean {near[0]!r}? allowed are" if near else "; allowed are"
    return f"{hint} {', '.join(known)}"
