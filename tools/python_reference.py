"""Writes docs/python-reference.md from the docstrings of the public names.

python -m tools.python_reference
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import graphsearch
from graphsearch.base import errors

PAGE = Path(__file__).resolve().parent.parent / "docs" / "python-reference.md"
WIDTH = 118
GROUPS = {
    "Search": ("Graph", "analyze", "Limits", "SearchParams", "Progress", "SearchResult"),
    "Look": ("show", "NodeView", "MoveView", "WDL", "frame"),
    "Evaluate": ("Evaluator",),
}
METHODS = {"Graph": ("open", "open_unevaluated", "read", "flush", "close"), "Evaluator": ("evaluate",)}
HEAD = """\
<!-- written by tools/python_reference.py -->
# Python reference

The public names of `graphsearch`. [Python](python.md) shows how to use them.
"""


def reference() -> str:
    """Returns the page."""
    lines = [HEAD]
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += section(name, getattr(graphsearch, name))
    lines += ["## Errors", "", *_errors()]
    return "\n".join(lines).rstrip() + "\n"


def section(name: str, thing: Any) -> Iterator[str]:
    """Yields the lines about a function or class, and about its methods."""
    yield from (f"### `{name}`", "")
    if inspect.isfunction(thing):
        yield from _signature(name, thing)
    yield from _docstring(thing)
    for method in METHODS.get(name, ()):
        function = inspect.unwrap(getattr(thing, method))
        yield from _signature(f"{name}.{method}", getattr(function, "__func__", function))
        yield from _docstring(function)


def _signature(name: str, function: Any) -> Iterator[str]:
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    shown = [f"{'*' if p.kind == p.VAR_POSITIONAL else ''}{p.name}{_default(p)}" for p in parameters]
    first = next((k for k, p in enumerate(parameters) if p.kind == p.KEYWORD_ONLY), None)
    if first is not None:
        shown.insert(first, "*")
    text = f"{name}({', '.join(shown)})"
    yield from ("```text", *textwrap.wrap(text, WIDTH, subsequent_indent="    "), "```", "")


def _default(parameter: inspect.Parameter) -> str:
    value = parameter.default
    if value is inspect.Parameter.empty:
        return ""
    return f"={value!r}" if isinstance(value, (int, float, str, type(None))) else "=..."


def _docstring(thing: Any) -> Iterator[str]:
    """Yields a docstring of Google's style as Markdown, without its examples."""
    text = inspect.getdoc(thing) or ""
    for part in re.split(r"\n\n(?!    )", text):
        head, _, rest = part.partition("\n")
        if head in ("Args:", "Attributes:", "Raises:"):
            yield from _items(rest, "raises " if head == "Raises:" else "")
        elif head not in ("Example:", "Examples:") and ">>>" not in part:
            yield from (*textwrap.wrap(" ".join(part.split()), WIDTH), "")


def _items(text: str, before: str) -> Iterator[str]:
    for item in re.split(r"\n(?=\S)", textwrap.dedent(text)):
        name, _, meaning = " ".join(item.split()).partition(": ")
        yield from textwrap.wrap(f"- {before}`{name}`: {meaning}", WIDTH, subsequent_indent="  ")
    yield ""


def _errors() -> Iterator[str]:
    for name, thing in vars(errors).items():
        if inspect.isclass(thing) and issubclass(thing, Exception) and thing.__module__ == errors.__name__:
            first = " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())
            yield from textwrap.wrap(f"- `{name}`: {first}", WIDTH, subsequent_indent="  ")


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
