"""The command line that goes on with what was interrupted, quoted for a shell."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from .program import program_name


def command_line(command: str, argument: str, options: Mapping[str, object]) -> str:
    """Returns a command with its argument and the options that are set.

    Args:
      options: values by the names that the functions of commands give them; None, False and an empty tuple
        are left out, of a tuple every item is given.

    >>> command_line("reevaluate", "a b.graph", {"min_visits": 5, "json": False, "param": ("x=1", "y=2")})
    "graphsearch reevaluate 'a b.graph' --min-visits 5 --param x=1 --param y=2"
    """
    words = [*program_name().split(), command, argument]
    for name, value in options.items():
        if value not in (None, False, ()):
            words += _option_words(name.replace("_", "-"), value)
    return shlex.join(words)


def _option_words(name: str, value: object) -> list[str]:
    if value is True:
        return [f"--{name}"]
    words: list[str] = []
    for item in value if isinstance(value, tuple) else (value,):
        text = f"{item:.15g}" if isinstance(item, float) else str(item)
        words += [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]
    return words
