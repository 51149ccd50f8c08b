"""`graphsearch completion`: what a shell needs to complete words."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from .commands import command
from .completing import VARIABLE
from .options import argument
from .program import PROGRAM

SHELLS = ("bash", "zsh", "fish")


@command(
    "Print the completion script of a shell.",
    "graphsearch completion bash",
    "graphsearch completion fish > graphsearch.fish",
)
def completion(shell: Annotated[str, argument("SHELL", "bash, zsh or fish.")]) -> None:
    """Print a script that lets a shell complete commands, options, files, evaluators and moves.

    bash, zsh: put `eval "$(graphsearch completion bash)"` (or zsh) into ~/.bashrc or ~/.zshrc. fish: write
    the script to ~/.config/fish/completions/graphsearch.fish.
    """
    if shell not in SHELLS:
        raise typer.BadParameter(f"SHELL must be {', '.join(SHELLS)}, not {shell!r}")
    script = import_module("typer.completion").get_completion_script  # typer does not export it
    print(script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))
