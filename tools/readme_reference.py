"""Writes the command reference of README.md from the commands themselves; `--check` only compares.

python tools/readme_reference.py [--check]
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN = "<!-- reference: written by tools/readme_reference.py -->"
END = "<!-- end of reference -->"


def reference() -> str:
    """Returns the reference of every command as Markdown."""
    app = importlib.import_module("graphsearch.cli.app").app  # cli/, once the package is installed
    return "\n".join(
        line
        for path, command in _leaves("graphsearch", typer.main.get_command(app))
        for line in _section(path, command)
    ).rstrip()


def _leaves(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yields `(words to type, command)` for every command that is no group."""
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name, child in children.items():
        yield from _leaves(f"{path} {name}", child)


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


def with_reference(readme: str) -> str:
    """Returns a README's text with the reference between its two markers."""
    before, _, rest = readme.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{README.name} has no lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{reference()}\n\n{END}{after}"


def main() -> int:
    """Returns 0, or 1 if `--check` finds the reference stale."""
    old = README.read_text(encoding="utf-8")
    new = with_reference(old)
    if "--check" in sys.argv[1:]:
        print("the reference is stale" if new != old else "the reference is up to date")
        return int(new != old)
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
