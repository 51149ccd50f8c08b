"""The program and its commands. Modules import what they need inside functions, so that help stays fast."""

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
    review,
    serve,
    show,
    store,
    uci,
)
from .commands import example_text, group
from .program import PROGRAM

_ABOUT = """Search chess positions into a graph stored in one file, and read it back.

A search can be stopped at any time and resumed from the same file.
"""

app = group(
    "",
    analyze.analyze,
    alphabeta.alphabeta,
    show.show,
    mate.mate,
    review.review,
    evaluate.evaluate,
    nodetypes.nodetypes,
    perft.perft,
    refresh.refresh,
    reevaluate.reevaluate,
    uci.uci,
    serve.serve,
    bench.bench,
    name=PROGRAM,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog=example_text(
        "graphsearch analyze startpos --time 10 --store first.graph",
        'graphsearch show startpos --moves "e4 e5" --store first.graph',
        "graphsearch store info first.graph",
    ),
)
for _name, _group in (
    ("book", book),
    ("export", exports),
    ("import", imports),
    ("query", query),
    ("store", store),
):
    app.add_typer(_group.app, name=_name)


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
    """Takes the options of the program itself."""
