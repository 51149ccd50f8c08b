"""Fuzzes from the command line: `python -m tests.fuzz --minutes 60` runs every target and prints a table.

Exit code 1 if anything failed. Failing inputs are kept, each with a note that says how to repeat it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .harness import FAILED, Fuzzer, Tally, shared_out
from .targets import FOLDER, TARGETS

SLICE = 20.0  # seconds for a target before the next one has its turn


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="time in all (default 1)")
    parser.add_argument("--target", action="append", choices=TARGETS, metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other inputs")
    parser.add_argument("--executions", type=int, default=sys.maxsize, help="stop each target after so many")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)"
    )
    parser.add_argument("--only", type=int, help="execute just this input of the target")
    parser.add_argument("--input", type=Path, help="execute just this file")
    parser.add_argument("--keep", type=Path, default=FOLDER, help=f"where failing inputs go ({FOLDER}/)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--share", type=int, help=argparse.SUPPRESS)  # which job this process is
    return parser.parse_args(arguments)


def _repeat(options: argparse.Namespace) -> int:
    """Executes one input and prints how it ended."""
    (name,) = options.target
    fuzzer = Fuzzer(TARGETS[name], options.seed)
    given = options.input.read_bytes() if options.input else fuzzer.input(options.only)
    outcome = fuzzer.repeat(given)
    fuzzer.close()
    print(outcome.verdict, outcome.signature, outcome.text, sep="\n")
    return int(outcome.verdict == FAILED)


# ------------------------------------------------------------------ one job
def _work(names: list[str], options: argparse.Namespace) -> list[Tally]:
    """Gives each target its slices in turn until the time is up."""
    end = time.monotonic() + 60 * options.minutes
    fuzzers = [_fuzzer(name, options) for name in names]
    while time.monotonic() < end and any(_left(fuzzer, options) for fuzzer in fuzzers):
        for fuzzer in fuzzers:
            rest = max(0.0, end - time.monotonic())
            if rest and _left(fuzzer, options):
                _say(fuzzer.run(min(SLICE, rest, 60 * options.minutes / len(names)), _left(fuzzer, options)))
    for fuzzer in fuzzers:
        fuzzer.close()
    return [fuzzer.tally for fuzzer in fuzzers]


def _fuzzer(name: str, options: argparse.Namespace) -> Fuzzer:
    return Fuzzer(TARGETS[name], options.seed, first=options.share, stride=options.jobs, keep=options.keep)


def _left(fuzzer: Fuzzer, options: argparse.Namespace) -> int:
    return max(0, int(options.executions) - fuzzer.tally.executions)


def _say(tally: Tally) -> None:
    text = f"{tally.target:14} {tally.executions:9,} {tally.accepted:9,} {tally.refused:9,} {tally.failed:6,}"
    print(text, file=sys.stderr, flush=True)


# ------------------------------------------------------------------ all jobs
def _share_out(options: argparse.Namespace, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Starts a process for each job and returns what they found, added up by target."""
    found: dict[str, dict[str, Any]] = {}
    for row in shared_out("tests.fuzz", arguments, options.jobs):
        _add(found.setdefault(row["target"], {"failures": {}}), row)
    return list(found.values())


def _add(total: dict[str, Any], row: dict[str, Any]) -> None:
    for name, value in row.items():
        if name == "failures":
            total[name] |= value
        elif isinstance(value, str):
            total[name] = value
        else:
            total[name] = round(total.get(name, 0) + value, 1)


def _table(rows: list[dict[str, Any]]) -> str:
    head = ("target", "executions", "accepted", "refused", "failed", "distinct", "per s")
    lines = ["{:14}{:>12}{:>10}{:>10}{:>8}{:>10}{:>8}".format(*head)]
    for row in rows:
        numbers = [f"{row[name]:,}" for name in head[1:5]]
        numbers += [str(len(row["failures"])), f"{row['per_second']:.1f}"]
        lines.append("{:14}{:>12}{:>10}{:>10}{:>8}{:>10}{:>8}".format(row["target"], *numbers))
    for row in rows:
        lines += [f"{row['target']}: {what}\n  {how}" for what, how in row["failures"].items()]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 if anything failed."""
    options = _options(arguments)
    if options.only is not None or options.input is not None:
        return _repeat(options)
    names = options.target or list(TARGETS)
    options.keep = options.keep.absolute()
    if options.share is not None:
        print(json.dumps([tally.as_dict() for tally in _work(names, options)]))
        return 0
    rows = _share_out(options, arguments)
    print(json.dumps({"targets": rows}) if options.json else _table(rows))
    return int(any(row["failed"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
