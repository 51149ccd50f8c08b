"""The name of the program."""

from __future__ import annotations

import sys
from pathlib import Path

from graphsearch.base.system import join_command

PROGRAM = "graphsearch"


def program_name() -> str:
    """Returns the command that called this program: `graphsearch` or `python -m graphsearch`."""
    if Path(sys.argv[0]).parts[-2:] == (PROGRAM, "__main__.py"):
        return f"python -m {PROGRAM}"
    return PROGRAM


def command_text(*words: str) -> str:
    """Returns a command line of this program, quoted for a shell."""
    return join_command([*program_name().split(), *words])
