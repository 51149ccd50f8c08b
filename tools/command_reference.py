"""Writes docs/commands.md from the commands themselves; `--check` only compares.

python tools/command_reference.py [--check]
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

PAGE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
HEAD = """\
<!-- written by tools/command_reference.py -->
# Commands

Every command with all its options. `graphsearch COMMAND --help` prints the same.
The [tutorial](tutorial.md) shows the commands at work.

A position is `startpos`, a FEN in quotes, or a PGN file. Data goes to stdout, messages and progress
to stderr. The exit code is 0 on success, 1 for a failure, 2 for wrong use, 70 for a
[defect](failures.md), 130 after Ctrl-C and 143 after SIGTERM; a search that is stopped by one of these
signals is saved first."""


def reference() -> str:
    """Returns the page: every command as Markdown, group by group."""
    app = importlib.import_module("graphsearch.cli.app").app  # cli/, once the package is installed
    lines, last = [HEAD, ""], ""
    for path, command in leaves("graphsearch", typer.main.get_command(app)):
        group = path.rpartition(" ")[0]
        if group != last:
            lines += [f"## `{group}`", ""]
        lines += _section(path, command)
        last = group
    return "\n".join(lines).rstrip() + "\n"


def leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yields `(words to type, command)` for every command that is no group."""
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from leaves(f"{path} {name}", child)


def _section(path: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join([path, *map(_argument_name, arguments), "[OPTIONS]" if options else ""]).strip()
    yield from (f"### `{usage}`", "", _prose(command.help), "")
    yield from (f"- `{_argument_name(p)}`: {p.help}" for p in arguments)
    yield from (f"- `{_option_name(p)}`: {p.help}{_default(p)}" for p in options)
    yield from ("", "```console", *_examples(command.epilog), "```", "")


def _prose(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _argument_name(param: Any) -> str:
    name = str(param.metavar).strip("[]{}.")
    name += "..." if param.nargs == -1 else ""
    return name if param.required else f"[{name}]"


def _option_name(param: Any) -> str:
    return f"{param.opts[0]} {param.metavar}" if param.metavar else str(param.opts[0])


def _default(param: Any) -> str:
    if param.required:
        return " Required."
    if param.default in (None, False) or callable(param.default):
        return ""
    return f" Default: {param.default}."


def _examples(epilog: str) -> list[str]:
    return [f"$ {line.strip()}" for line in epilog.splitlines() if line.strip().startswith("graphsearch ")]


def main() -> int:
    """Returns 0, or 1 if `--check` finds the page stale."""
    new = reference()
    if "--check" in sys.argv[1:]:
        stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != new
        print(f"docs/{PAGE.name} is {'stale' if stale else 'up to date'}")
        return int(stale)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
