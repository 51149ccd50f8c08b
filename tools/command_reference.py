"""Writes docs/commands.md from the commands themselves: `python tools/command_reference.py`."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
HEAD = """\
<!-- written by tools/command_reference.py -->
# Commands

`graphsearch COMMAND -h` explains a command with all its options and examples.

Data goes to stdout, messages and progress to stderr. With `--json` data comes as JSON. The exit code is 0 on
success, 1 for a failure, 2 for wrong use, 130 after Ctrl-C and 143 after SIGTERM; both save first."""


def reference() -> str:
    """Returns the page: every command with the first line of its help, under the headings of the help."""
    root: Any = importlib.import_module("graphsearch.cli.app").app()  # cli/, once the package is installed
    groups: dict[str, list[str]] = {}
    for path, command in leaves("graphsearch", root):
        words = path.removeprefix("graphsearch ")
        above = root.commands[words.partition(" ")[0]]
        heading = "`lab`" if words.startswith("lab ") else above.rich_help_panel
        groups.setdefault(heading, []).append(f"| `{words}` | {_summary(command)} |")
    lines = [HEAD]
    for heading, rows in groups.items():
        lines += ["", f"## {heading}", "", "| command | what it does |", "| --- | --- |", *rows]
    return "\n".join(lines) + "\n"


def _summary(command: Any) -> str:
    first, _, _ = command.help.strip().partition("\n\n")
    return " ".join(first.split()).partition(". ")[0].removesuffix(".") + "."


def leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yields `(words to type, command)` for every command that is no group."""
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from leaves(f"{path} {name}", child)


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
