"""Runs a benchmark: `python -m tools.benchmarks NAME [--OPTION VALUE ...] [--repeats N] [--json]`.

Without a name it lists the benchmarks. `NAME --help` describes a benchmark and its options.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from .harness import REGISTRY, Benchmark, find, options_of, run
from .table import draw, tables


def add_options(parser: argparse.ArgumentParser, how: Benchmark) -> None:
    """Adds an option for every keyword argument of a measurement; a tuple takes several values."""
    for name, kind, default in options_of(how.measure):
        options: dict[str, Any] = {"dest": name}
        if isinstance(kind, UnionType):
            kind = next(one for one in get_args(kind) if one is not NoneType)
        if get_origin(kind) is tuple:
            kind, options["nargs"] = get_args(kind)[0], "+"
        if kind is bool:
            options["action"] = "store_true"
        else:
            options |= {"type": kind, "metavar": kind.__name__.upper()}
        if default is inspect.Parameter.empty:
            options["required"] = True
        else:
            options |= {"default": default, "help": f"default: {default}"}
        parser.add_argument(f"--{name.replace('_', '-')}", **options)


def parser_of(name: str, how: Benchmark) -> argparse.ArgumentParser:
    """Returns the parser of a benchmark's own options and the common ones."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tools.benchmarks {name}",
        description=how.text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_options(parser, how)
    parser.add_argument("--repeats", type=int, default=1, metavar="N", help="runs, each in a new process")
    parser.add_argument("--json", action="store_true", help="print one JSON object with all samples")
    if how.plot:
        parser.add_argument(
            "--plot", type=Path, metavar="FILE", help="draw the figures: FILE.png or FILE.svg"
        )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a benchmark from the command line; returns the exit code."""
    name, *words = list(sys.argv[1:] if arguments is None else arguments) or [""]
    if name not in REGISTRY:
        for one in REGISTRY:
            print(f"{one:16} {find(one).text.splitlines()[0]}", file=sys.stdout if not name else sys.stderr)
        return 2 if name and name not in ("-h", "--help") else 0
    how = find(name)
    options = vars(parser_of(name, how).parse_args(words))
    repeats, as_json, plot = options.pop("repeats"), options.pop("json"), options.pop("plot", None)
    found = run(name, options, repeats)
    if plot:
        draw(how, found["rows"], plot, f"{name}, {found['machine']}")
    if as_json:
        print(json.dumps(found, default=float))
    else:
        print(found["machine"], *tables(found["rows"], how.keys), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
