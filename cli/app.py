"""The commands by name. Each module imports what it runs inside its functions: help must not wait for it."""

from __future__ import annotations

from typing import Annotated

import typer

from graphsearch.version import __version__

from . import (
    alphabeta,
    analyze,
    bench,
    book,
    evaluate,
    exports,
    imports,
    mate,
    nodetypes,
    perft,
    query,
    reevaluate,
    refresh,
    show,
    store,
    uci,
)
from .output import Group
from .program import PROGRAM

_ABOUT = """Search chess positions into a graph that lives in one file, and read it back.

A search stops at any moment and goes on any day from the same file.
"""

_EXAMPLES = """\b
Examples:
  graphsearch analyze startpos --time 10 --store first.graph
  graphsearch show startpos --moves "e4 e5" --store first.graph
  graphsearch store info first.graph
"""

# plain help, not Rich's: it starts in half the time, and reads the same in a pipe
app = typer.Typer(
    name=PROGRAM,
    cls=Group,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=_EXAMPLES,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(PROGRAM, __version__)
        raise typer.Exit


@app.callback(help=_ABOUT)
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Holds the options of the program itself."""


_COMMANDS = (  # function, its examples, its line in the list of commands
    (analyze.analyze, analyze.EXAMPLES, "Search a position; go on from a graph file, save to it."),
    (
        alphabeta.alphabeta,
        alphabeta.EXAMPLES,
        "Search a position to a fixed depth; keep what that proved in a graph file.",
    ),
    (show.show, show.EXAMPLES, "Print what a graph file holds about a position."),
    (mate.mate, mate.EXAMPLES, "Find the shortest mate of a position."),
    (evaluate.evaluate, evaluate.EXAMPLES, "Print what an evaluator says, without a search."),
    (
        nodetypes.nodetypes,
        nodetypes.EXAMPLES,
        "Count PV, Cut and All nodes, against the minimal tree.",
    ),
    (perft.perft, perft.EXAMPLES, "Count the positions some plies below a position."),
    (refresh.refresh, refresh.EXAMPLES, "Bring the values of a graph file up to date."),
    (
        reevaluate.reevaluate,
        reevaluate.EXAMPLES,
        "Go through a graph file with another evaluator.",
    ),
    (uci.uci, uci.EXAMPLES, "Speak UCI: an engine for chess programs, with a memory."),
    (bench.bench, bench.EXAMPLES, "Measure this machine."),
)

for _function, _examples, _summary in _COMMANDS:
    app.command(epilog=_examples, short_help=_summary)(_function)
for _name, _group in (
    ("book", book),
    ("export", exports),
    ("import", imports),
    ("query", query),
    ("store", store),
):
    app.add_typer(_group.app, name=_name)
