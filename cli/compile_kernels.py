"""Compiles the kernels of nearly all commands, by executing them in the current folder.

`python -m graphsearch.cli.compile_kernels PART...`: for wheels of a platform, at the start of the tests, and,
with both parts, beside a first search (`graphsearch/search/warm.py`).
Other kernels, such as those of networks, compile on first use.
"""

from __future__ import annotations

import gc
import os
import shlex
import sys
import tempfile
from contextlib import chdir, redirect_stdout, suppress
from itertools import filterfalse
from pathlib import Path

from graphsearch.jit.compiler import PLACES, is_compiled, mark_compiled
from graphsearch.search import warm

from . import main
from .settings import ignore_settings

# two parts for two processes; they share few kernels
COMMANDS = {
    "waves": """
analyze startpos --visits 300 --store a.graph
lab refresh a.graph
analyze startpos --moves e4 --searchmoves e5 --visits 100 --store b.graph
store merge a.graph b.graph -o c.graph
reevaluate a.graph --evaluator uniform
store verify a.graph
find --min-visits 9 --store a.graph
export startpos --store a.graph -o a.pgn
export --store a.graph -o a.csv
lab perft startpos 3
""",
    "few": """
lab perft startpos 3
""",  # for a test of the build backend
    "rest": """
mate "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1" --store b.graph
alphabeta startpos --depth 3 --store b.graph
lab nodetypes startpos --store b.graph
""",
}


def compile_part(part: str) -> None:
    """Compiles the kernels of a part's commands, and those of a search with full memory.

    The user's settings do not count: they may name a graph file, into which the commands would write.

    Raises:
      SystemExit: if a command fails, after its message.
    """
    import chess

    from graphsearch import Graph, Limits, SearchParams, analyze
    from graphsearch.evaluators.uniform import OutsideUniform

    ignore_settings(Path.cwd())
    warm.compile_all_here()
    if part == "rest":  # an evaluator outside the kernels: waves of many visits, with overlap, and of one
        for batch in (32, 1):
            with Graph.open(None, evaluator=OutsideUniform()) as graph:
                analyze(graph, chess.Board(), Limits(visits=100), SearchParams(minibatch_size=batch))
    with Path(os.devnull).open("w", encoding="utf-8") as nothing, redirect_stdout(nothing):
        for command in COMMANDS[part].strip().splitlines():
            if code := main(shlex.split(command)):
                raise SystemExit(code)
    if part == "waves":
        warm.compile_parts(warm.FILE, warm.PAGING)  # another process has begun the first
    mark_compiled(part)


def compile_in_background() -> None:
    """Compiles what no search needs first, in a temporary folder; once, even if a command fails here."""
    with PLACES.own.alone(warm.BACKGROUND, wait=False) as is_alone:
        if not is_alone:  # each such process takes 200 MB
            return
        warm.go_to_background()
        warm.compile_parts(warm.FILE, warm.PAGING)  # a short search has left some of the first
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            for part in filterfalse(is_compiled, warm.PARTS):
                with suppress(SystemExit):
                    compile_part(part)
                mark_compiled(part)


if __name__ == "__main__":
    gc.disable()  # the compiler makes little garbage; looking for it takes a seventh of the time
    if sys.argv[1:] == list(warm.PARTS):
        compile_in_background()
    else:
        compile_part(sys.argv[1])
