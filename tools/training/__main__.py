"""`python -m tools.training make | label | begin | train | distil | gpu | pack | judge`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {  # command -> module
    "make": "make",
    "label": "label",
    "begin": "rounding",
    "train": "train",
    "distil": "distil",
    "gpu": "gpu",
    "pack": "rounding",
    "judge": "judge",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    out = argparse.ArgumentParser(prog="tools.training", description=__doc__)
    commands = out.add_subparsers(dest="command", required=True)
    modules = {name: import_module(f"tools.training.{module}") for name, module in COMMANDS.items()}
    for name, module in modules.items():
        form = argparse.RawDescriptionHelpFormatter
        module.add_arguments(commands.add_parser(name, description=module.__doc__, formatter_class=form))
    options = out.parse_args(arguments)
    code: int = modules[options.command].run(options)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
