"""Fuzzes from the command line: `python -m tests.fuzz --minutes 60` runs every target and prints a table.

Exit code 1 if anything failed. Failing inputs are kept, each with a note that says how to repeat it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from . import damage, files, kernels, readers, works
from .harness import BATCH, FAILED, Call, Fuzzer, Mutate, Seeds, Tally, Target

EPDS = [works.EPD, *(fen + b" id 1;" for fen in readers.FENS)]


def _given(*data: bytes) -> Seeds:
    return lambda _: list(data)


def _graph(name: str, mutate: Mutate) -> Target:
    return Target(name, works.seeds, mutate, files.exercise, readers.warm, seconds=120)


def _text(name: str, seeds: Seeds, mutate: Mutate, call: Call, batch: int = BATCH) -> Target:
    return Target(name, seeds, mutate, call, readers.warm, megabytes=400, batch=batch)


def _kernel(name: str, seeds: Seeds, mutate: Mutate, call: Call) -> Target:
    return Target(name, seeds, mutate, call, kernels.warm)


BOOKS = _given(works.POLYGLOT)
TARGETS = {
    target.name: target
    for target in (
        _graph("graph-blocks", damage.by(damage.blocks)),
        _graph("graph-rows", damage.by(damage.rows)),
        _graph("graph-schema", damage.by(damage.schema)),
        _graph("graph-pages", damage.by(damage.pages)),
        _graph("graph-log", lambda given, rng: damage.log(given[1], rng)),
        _kernel("unpack", kernels.stored_seeds, kernels.mutate_stored, kernels.unpack),
        _kernel("entries", kernels.entry_seeds, kernels.mutate_entries, kernels.read_entries),
        _text("fen", _given(*readers.FENS), readers.mutate_fen, readers.read_fen),
        _text("pgn", _given(works.PGN), readers.pgn_words, readers.imports("pgn", ".pgn")),
        _text("pgn-studies", _given(works.PGN, readers.NOTED), readers.pgn_words, readers.read_studies),
        _text("pgn-notes", _given(works.PGN, readers.NOTED), readers.pgn_words, readers.read_notes),
        _text("pgn-zst", readers.zst_seeds, readers.mutate_zst, readers.imports("pgn", ".pgn.zst")),
        _text("epd", _given(*EPDS), readers.epd_words, readers.imports("epd", ".epd")),
        _text("polyglot", BOOKS, readers.mutate_polyglot, readers.imports("polyglot", ".bin")),
        _text("toml", _given(*readers.TOMLS), readers.toml_words, readers.read_toml),
        _text("uci", _given(*readers.SESSIONS), readers.uci_words, readers.play, batch=1),
        Target("lc0", readers.network_seeds, readers.mutate_network, readers.read_lc0, readers.warm_networks),
        Target("nnue", readers.nnue_seeds, readers.mutate_nnue, readers.read_nnue, readers.warm_networks),
    )
}

KERNELS = ("unpack", "entries")  # also run as plain Python, where numpy checks every index
FOLDER = Path("fuzz-failures")


# ------------------------------------------------------------------ the command line
SLICE = 20.0  # seconds for a target before the next one has its turn


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="time in all (default 1)")
    parser.add_argument("--target", action="append", choices=TARGETS, metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other inputs")
    parser.add_argument("--executions", type=int, default=sys.maxsize, help="stop each target after so many")
    parser.add_argument("--only", type=int, help="execute just this input of the target")
    parser.add_argument("--input", type=Path, help="execute just this file")
    parser.add_argument("--keep", type=Path, default=FOLDER, help=f"where failing inputs go ({FOLDER}/)")
    return parser.parse_args(arguments)


def _repeat(options: argparse.Namespace) -> int:
    (name,) = options.target
    fuzzer = Fuzzer(TARGETS[name], options.seed)
    given = options.input.read_bytes() if options.input else fuzzer.input(options.only)
    outcome = fuzzer.repeat(given)
    fuzzer.close()
    print(outcome.verdict, outcome.signature, outcome.text, sep="\n")
    return int(outcome.verdict == FAILED)


def _work(names: list[str], options: argparse.Namespace) -> list[Tally]:
    """Gives each target its slices in turn until the time is up."""
    end = time.monotonic() + 60 * options.minutes
    fuzzers = [Fuzzer(TARGETS[name], options.seed, keep=options.keep.absolute()) for name in names]
    while time.monotonic() < end and any(_left(fuzzer, options) for fuzzer in fuzzers):
        for fuzzer in fuzzers:
            rest = min(SLICE, end - time.monotonic(), 60 * options.minutes / len(names))
            if rest > 0 and _left(fuzzer, options):
                print(_line(fuzzer.run(rest, _left(fuzzer, options))), file=sys.stderr, flush=True)
    for fuzzer in fuzzers:
        fuzzer.close()
    return [fuzzer.tally for fuzzer in fuzzers]


def _left(fuzzer: Fuzzer, options: argparse.Namespace) -> int:
    return max(0, int(options.executions) - fuzzer.tally.executions)


def _line(tally: Tally) -> str:
    counts = "".join(f"{n:10,}" for n in (tally.executions, tally.accepted, tally.refused, tally.failed))
    return f"{tally.target:14}{counts}{len(tally.failures):10}{tally.executions / (tally.seconds or 1):10.1f}"


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code: 1 if anything failed."""
    options = _options(arguments)
    if options.only is not None or options.input is not None:
        return _repeat(options)
    found = _work(options.target or list(TARGETS), options)
    head = ("executions", "accepted", "refused", "failed", "distinct", "per s")
    print(f"{'target':14}" + "".join(f"{name:>10}" for name in head), *map(_line, found), sep="\n")
    for tally in found:
        for what, how in tally.failures.items():
            print(f"{tally.target}: {what}\n  {how}")
    return int(any(tally.failed for tally in found))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
