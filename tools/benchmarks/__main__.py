"""Runs a benchmark: `python -m tools.benchmarks NAME [--OPTION VALUE ...] [--repeats N] [--json]`.

Without a name it lists the benchmarks. `NAME --help` describes a benchmark and its options.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from .harness import REGISTRY, Benchmark, Row, find, run


def add_options(parser: argparse.ArgumentParser, how: Benchmark) -> None:
    """Adds an option for every keyword argument of a measurement; a tuple takes several values."""
    types = get_type_hints(how.measure)
    for name, parameter in inspect.signature(how.measure).parameters.items():
        kind, default, options = types[name], parameter.default, dict[str, Any](dest=name)
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
    return parser


# ------------------------------------------------------------------ tables
def tables(rows: Sequence[Row], keys: Sequence[str]) -> Iterator[str]:
    """Yields the lines of Markdown tables, one for each set of keys; `NAME_error` joins the cell of NAME."""
    for _, group in groupby(rows, key=lambda row: [key in row for key in keys]):
        some = list(group)
        columns = dict.fromkeys(name for row in some for name in row if name != "samples")
        columns |= dict.fromkeys(name for name in ("samples",) if any(name in row for row in some))
        shown = [name for name in columns if not (name.endswith("_error") and name[:-6] in columns)]
        cells = [[_cell(row, name) for name in shown] for row in some]
        heads = [name.replace("_", " ") for name in shown]
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        yield ""
        yield _line(heads, widths)
        yield _line(["-" * width for width in widths], widths)
        for row in cells:
            yield _line(row, widths)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _cell(row: Row, name: str) -> str:
    value, error = row.get(name), row.get(f"{name}_error")
    if not error or value is None:
        return cell(value)
    digits = max(0, 1 - math.floor(math.log10(error)))
    sign = "+" if name.endswith("_less") else ""
    return f"{value:{sign},.{digits}f} ± {error:,.{digits}f}"


def cell(value: Any) -> str:
    """Returns a value as text.

    >>> cell(1000000), cell(12.345), cell([0.05, 2.0]), cell("uniform"), cell(True), cell(None)
    ('1,000,000', '12.3', '0.0500 / 2.00', 'uniform', 'yes', '-')
    """
    if isinstance(value, list | tuple):
        return " / ".join(map(cell, value))
    if value is None or isinstance(value, bool):
        return "-" if value is None else "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 or math.isinf(value) else f"{value:#.3g}".rstrip(".")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a benchmark from the command line; returns the exit code."""
    name, *words = list(sys.argv[1:] if arguments is None else arguments) or [""]
    if name not in REGISTRY:
        for one in REGISTRY:
            print(f"{one:16} {find(one).text.splitlines()[0]}", file=sys.stdout if not name else sys.stderr)
        return 2 if name and name not in ("-h", "--help") else 0
    how = find(name)
    options = vars(parser_of(name, how).parse_args(words))
    repeats, as_json = options.pop("repeats"), options.pop("json")
    found = run(name, options, repeats)
    if as_json:
        print(json.dumps(found, default=float))
    else:
        print(found["machine"], *tables(found["rows"], how.keys), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
