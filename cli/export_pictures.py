"""`graphsearch export svg` and `dot`: a neighbourhood or a book as a picture."""

from __future__ import annotations

from pathlib import Path

import typer

from .commands import command
from .export_summary import STDOUT, Output, finish, opened_target
from .options import AnyPositionOptions, Json, StoreOption
from .output import say_if_unfinished
from .query_neighbourhood import AroundOptions


@command(
    "Draw the positions around one, or a book, as SVG.",
    "graphsearch export svg --store first.graph -o first.svg",
    'graphsearch export svg startpos --moves "e4 e5" --store first.graph --positions 100 -o open.svg',
)
def svg(
    store: StoreOption,
    position: AnyPositionOptions,
    output: Output,
    around: AroundOptions,
    json: Json = False,
) -> None:
    """Draw the well-visited positions below a position, or of a book, as SVG.

    Levels go from left to right. A position is one box with all its ways in; the box names the most visited
    way, N, and Q as White sees it. The width of an edge goes by its N. Colours go by Q: orange is good for
    White, blue for Black. Dashed edges lead back. Without POSITION: from the roots of the book, or the root
    that was searched last.

    JSON: `left_out` counts the moves that lead out of the picture.
    """
    _draw("svg", store, position, output, around, json=json)


@command(
    "Draw the positions around one, or a book, for Graphviz.",
    "graphsearch export dot --store first.graph -o first.dot",
    "graphsearch export dot --store books.graph --book white -o white.dot",
)
def dot(
    store: StoreOption,
    position: AnyPositionOptions,
    output: Output,
    around: AroundOptions,
    json: Json = False,
) -> None:
    """Write the well-visited positions below a position, or of a book, as a digraph for Graphviz.

    A position is one node with all its ways in; N, Q and colours are those of `export svg`. `dot -Tpdf` makes
    a PDF of it.

    JSON: `left_out` counts the moves that lead out of the picture.
    """
    _draw("dot", store, position, output, around, json=json)


def _draw(
    form: str, store: Path, position: AnyPositionOptions, output: str, around: AroundOptions, *, json: bool
) -> None:
    if json and output == STDOUT:
        raise typer.BadParameter("--json and -o - both write to stdout; name a file with -o")
    from graphsearch.exchange.picture.export import export_picture

    board = position.board()
    say_if_unfinished(store)
    with opened_target(output) as target:
        report = export_picture(
            store,
            target,
            form,
            board,
            depth=around.depth,
            min_visits=around.min_visits,
            most=around.positions,
            book=around.book,
        )
    finish(report, store, output, json=json)
