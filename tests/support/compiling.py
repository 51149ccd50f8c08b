"""Compiles what most tests need, once, on two cores: each worker of a test run would compile all it meets.

`python -m tests.support.compiling PART FOLDER` does one part in an empty folder. The first test that needs a
kernel which is missing here compiles it.
"""

from __future__ import annotations

import importlib
import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PURPOSE = "tests"

WAVES = """
analyze startpos --visits 300 --store a.graph
refresh a.graph
reevaluate a.graph --evaluator uniform
store verify a.graph
query transpositions --all --store a.graph
query find --min-n 9 --store a.graph
export pgn --root startpos --store a.graph -o a.pgn
export csv --store a.graph -o a.csv
perft startpos 3
"""
REST = """
analyze startpos --visits 300 --gather budget
mate "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1" --store b.graph
alphabeta startpos --depth 3 --store b.graph
nodetypes --synthetic 3 3
nodetypes startpos --store b.graph
"""  # what proves is cheap to compile, what gathers in other ways is not


def compile_all() -> None:
    """Compiles both parts at once, unless an earlier test run did."""
    from graphsearch.jit.compiler import is_compiled, mark_compiled

    if is_compiled(PURPOSE):
        return
    sys.stderr.write("compiling the kernels, once: about a minute\n")
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        parts = [_start("waves", first), _start("rest", second)]
        codes = [part.wait() for part in parts]
    if not any(codes):
        mark_compiled(PURPOSE)


def _start(part: str, folder: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.compiling", part, folder], cwd=ROOT, stdin=subprocess.DEVNULL
    )


def _run(commands: str) -> None:
    main = importlib.import_module("graphsearch.cli").main  # cli/, which type checkers do not find there
    with Path(os.devnull).open("w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        for command in commands.strip().splitlines():
            if main(shlex.split(command)):
                raise SystemExit(f"this failed: graphsearch {command}")


def _search_outside() -> None:
    """Searches with an evaluator that is no kernel, one wave at a time and with one in hand."""
    import chess

    from graphsearch import Graph, Limits, SearchParams, analyze
    from tests.support.reference import HashEvaluator

    with Graph.open(None, evaluator=HashEvaluator()) as graph:
        analyze(graph, chess.Board(), Limits(visits=100), SearchParams(minibatch_size=32))


def _compile_part(part: str, folder: str) -> None:
    from graphsearch.search.warm import compile_paging_kernels

    os.chdir(folder)
    if part == "waves":
        _run(WAVES)
        compile_paging_kernels()
    else:
        _search_outside()
        _run(REST)


if __name__ == "__main__":
    _compile_part(*sys.argv[1:])
