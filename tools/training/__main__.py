"""`python -m tools.training distil | pack | judge`: makes the networks of the package.

    python -m tools.training distil state.npz --seconds 1200 --openings lines.pgn --lines 5500
    python -m tools.training pack networks.bin state.npz
    python -m tools.training judge reference.jsonl.gz

`COMMAND --help` describes a command. Only `distil` needs JAX.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {"distil": "distil", "pack": "networks", "judge": "judge"}  # command -> module


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit code."""
    name, *rest = arguments or sys.argv[1:] or ["--help"]
    if name not in COMMANDS:
        print(__doc__, file=sys.stderr)
        return 2
    module = import_module(f"tools.training.{COMMANDS[name]}")
    form = argparse.RawDescriptionHelpFormatter
    out = argparse.ArgumentParser(f"tools.training {name}", description=module.__doc__, formatter_class=form)
    module.add_arguments(out)
    code: int = module.run(out.parse_args(rest))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
