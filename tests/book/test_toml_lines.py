"""Lines of a TOML text: every table and every key has the line of the statement that names it first."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from graphsearch.book.toml_lines import MOST_LINES, Path, lines_of


def paths_of(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yields the paths of all tables and keys that `tomllib` has found outside of lists of values."""
    is_array = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
    children = value.items() if isinstance(value, dict) else enumerate(value) if is_array else ()
    for key, child in children:
        yield (*path, key)
        yield from paths_of(child, (*path, key))


@pytest.mark.parametrize(
    ("text", "line_of"),
    [
        ("", {}),
        ("# only a comment", {}),
        ("a = 1\r\n\r\n[b]\r\nc = 2\r\n", {("a",): 1, ("b",): 3, ("b", "c"): 4}),
        ("[a.b]\nx = 1\n[a]\ny = 2", {("a",): 3, ("a", "b"): 1, ("a", "b", "x"): 2, ("a", "y"): 4}),
        ("a.b = 1\na.c = 2", {("a",): 1, ("a", "b"): 1, ("a", "c"): 2}),
        ("[[a]]\n[[a.b]]\n[[a]]\n[[a.b]]", {("a",): 1, ("a", 0): 1, ("a", 1): 3, ("a", 1, "b", 0): 4}),
        ("[[a]]\n[a.b]\nc = 1\n[[a]]\n[a.b]", {("a", 0, "b", "c"): 3, ("a", 1, "b"): 5}),
        ('k = """\n]\n[x]\n"""\n[t]', {("k",): 1, ("t",): 5}),
        ("k = [ # ]\n'''\n[x]''',\n\n2,\n]\n[t]", {("k",): 1, ("t",): 7}),
        ('[ "a.b" . \'[x]\' ] # [no]\n"=" = "#"', {("a.b", "[x]", "="): 2}),
        ("t = { a = 1, b.c = 2 }", {("t",): 1, ("t", "a"): 1, ("t", "b", "c"): 1}),
        ('"new\\nline" = 1\n"\\u00e9" = 2', {("new\nline",): 1, ("é",): 2}),
        ("\n" * 20_000 + " # so\na = 1\n" + "\n" * 1000 + "b = [\n2]", {("a",): 20_002, ("b",): 21_003}),
    ],
)
def test_every_table_and_key_has_a_line(text: str, line_of: dict[Path, int]) -> None:
    found = lines_of(text)
    assert {path: found[path] for path in line_of} == line_of
    assert set(paths_of(tomllib.loads(text))) == set(found)


def test_lines_end_behind_a_value_of_very_many_lines() -> None:
    assert lines_of("a = 1\nb = [\n" + "1,\n" * 2 * MOST_LINES + "]\nc = 1") == {("a",): 1}
