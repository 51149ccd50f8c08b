"""Lines of a TOML text: the scanner finds what `tomllib` finds, where a writer of texts has put it."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsearch.book.toml_lines import Path, lines_of

BARE = ["a", "b-1", "_c", "7"]
QUOTED = ["", "a.b", "[x]", "]]", "=", "#", 'q"q', "ä", "two words", "\\", "'", "{", "new\nline"]
BASIC = ["", "plain", "# no comment", 'quote \\" here', "brackets ]] } ,", "\\u00e9 \\n \\\\", "a = 1"]
MULTI = ["", "one line", "\nfirst\nsecond = [1]\n", '\n"quoted" and ""two""\n', "# no\n[no]\n\\\n  folded"]
LITERAL = ["", "C:\\path", '"double"', "# no [x]"]
PLAIN = [
    "1",
    "-2.5e3",
    "true",
    "inf",
    "0xff",
    "1979-05-27 07:32:00",
    "1979-05-27T07:32:00Z",
    "07:32:00",
]


class Writer:
    """Writes a random TOML text in random style, and remembers on which line it put what."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.text = ""
        self.lines: dict[Path, int] = {}

    @property
    def line(self) -> int:
        return self.text.count("\n") + 1

    def some(self, *texts: str) -> None:
        self.text += self.random.choice(texts)

    def document(self) -> None:
        self.body(())
        for _ in range(self.random.randrange(4)):
            self.blank_lines()
            self.section((self.new_name(()),))

    def blank_lines(self) -> None:
        for _ in range(self.random.randrange(3)):
            self.some("\n", "  # [comment] = 'x'\n", "\t\n", "\r\n")

    def section(self, path: Path) -> None:
        if self.random.random() < 0.5:
            self.lines[path] = self.line
            self.header("[", path, "]")
            self.body(path)
            if self.random.random() < 0.4:
                self.section((*path, self.new_name(path)))
            return
        self.lines[path] = self.line
        for place in range(self.random.randrange(1, 4)):
            self.lines[(*path, place)] = self.line
            self.header("[[", path, "]]")
            self.body((*path, place))
            if self.random.random() < 0.4:
                self.section((*path, place, self.new_name((*path, place))))

    def header(self, opening: str, path: Path, closing: str) -> None:
        self.text += opening
        self.some("", " ")
        self.key([str(part) for part in path if isinstance(part, str)])
        self.some("", " ")
        self.text += closing
        self.some("\n", " # comment\n", "\t\r\n")

    def new_name(self, path: Path) -> str:
        taken = {
            known[len(path)] for known in self.lines if len(known) > len(path) and known[: len(path)] == path
        }
        while True:
            name = self.random.choice(BARE + QUOTED) + self.random.choice(["", "x", "y", "z"])
            if name not in taken:
                return name

    def key(self, parts: list[str]) -> None:
        for i, part in enumerate(parts):
            if i:
                self.some(".", " . ")
            literal_fits = "'" not in part and part.isprintable()
            if part and all(c in "abcdefghijklmnopqrstuvwxyz_-1234567890" for c in part):
                self.some(part, json.dumps(part), f"'{part}'")
            else:
                self.some(json.dumps(part), f"'{part}'" if literal_fits else json.dumps(part))

    def body(self, path: Path) -> None:
        for _ in range(self.random.randrange(4)):
            self.blank_lines()
            self.some("", "  ")
            self.pair(path, 3)
            self.some("\n", '  # comment, """\n', "\r\n")

    def pair(self, path: Path, depth: int) -> None:
        parts = [self.new_name(path)]
        if self.random.random() < 0.3:
            parts.append(self.random.choice(BARE))
        for i in range(len(parts)):
            self.lines[(*path, *parts[: i + 1])] = self.line
        self.key(parts)
        self.some("=", " = ", "\t=")
        self.value((*path, *parts), depth)

    def value(self, path: Path, depth: int) -> None:
        kinds = ["plain", "basic", "multi", "literal", "multi_literal"] + ["list", "table"] * (depth > 0)
        kind = self.random.choice(kinds)
        if kind == "plain":
            self.some(*PLAIN)
        elif kind == "basic":
            self.text += f'"{self.random.choice(BASIC)}"'
        elif kind == "multi":
            self.text += f'"""{self.random.choice(MULTI)}' + self.random.choice(['"""', '""""', '"""""'])
        elif kind == "literal":
            self.text += f"'{self.random.choice(LITERAL)}'"
        elif kind == "multi_literal":
            self.text += f"'''{self.random.choice(MULTI)}" + self.random.choice(["'''", "''''", "'''''"])
        elif kind == "list":
            self.list(path, depth)
        else:
            self.inline(path, depth)

    def list(self, path: Path, depth: int) -> None:
        self.text += "["
        count = self.random.randrange(4)
        for place in range(count):
            self.some("", " ", "\n", " # comment ]\n  ")
            self.lines[(*path, place)] = self.line
            self.value((*path, place), depth - 1)
            self.some("", "\n", " # [\n")
            if place < count - 1 or self.random.random() < 0.3:
                self.text += ","
        self.some("", "\n", " # , ]\n")
        self.text += "]"

    def inline(self, path: Path, depth: int) -> None:
        self.text += "{"
        count = self.random.randrange(3)
        for place in range(count):
            self.some("", " ")
            self.pair(path, depth - 1)
            self.some("", " ")
            self.text += "," if place < count - 1 else ""
        self.text += "}"


def paths_of(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yields the path of everything in what `tomllib` returned."""
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield (*path, key)
        yield from paths_of(child, (*path, key))


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_the_scanner_finds_what_tomllib_finds_where_it_was_written(seed: int) -> None:
    writer = Writer(seed)
    writer.document()
    data = tomllib.loads(writer.text)
    assert set(paths_of(data)) == set(writer.lines)  # the writer knows what it wrote
    assert lines_of(writer.text) == writer.lines


@pytest.mark.parametrize(
    ("text", "line_of"),
    [
        ("", {}),
        ("# only a comment", {}),
        ("[a.b]\nx = 1\n[a]\ny = 2", {("a",): 3, ("a", "b"): 1, ("a", "b", "x"): 2, ("a", "y"): 4}),
        ("a.b = 1\na.c = 2", {("a",): 1, ("a", "b"): 1, ("a", "c"): 2}),
        ("[[a]]\n[[a.b]]\n[[a]]\n[[a.b]]", {("a",): 1, ("a", 0): 1, ("a", 1): 3, ("a", 1, "b", 0): 4}),
        ('k = """\n]\n[x]\n"""\n[t]', {("k",): 1, ("t",): 5}),
    ],
)
def test_lines_of_what_a_person_might_write(text: str, line_of: dict[Path, int]) -> None:
    found = lines_of(text)
    assert {path: found[path] for path in line_of} == line_of
    assert set(paths_of(tomllib.loads(text))) == set(found)


def test_blank_lines_without_end_are_passed_over() -> None:
    assert lines_of("\n" * 2_000_000 + " # so\na = 1\n" + "\n" * 1000 + "b = [\n2]") == {
        ("a",): 2_000_002,
        ("b",): 2_001_003,
        ("b", 0): 2_001_004,
    }
