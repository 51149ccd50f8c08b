"""`graphsearch export site`: a static site of a book, or of the lines below a position."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .commands import command
from .export_summary import finish
from .options import AnyPositionOptions, Json, StoreOption
from .output import say_if_unfinished
from .progress import progress_shown
from .signals import StopSignals

Folder = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="The folder to write; replaced if it is a site that was exported before.",
        show_default=False,
    ),
]
Book = Annotated[
    str | None,
    typer.Option(
        "--book", metavar="NAME", help="Only the positions and moves of this book, with its values."
    ),
]
Depth = Annotated[
    int | None,
    typer.Option(
        "--depth", metavar="D", min=0, help="Plies below the position or the roots; all by default."
    ),
]
MinVisits = Annotated[
    int | None,
    typer.Option(
        "--min-visits",
        metavar="N",
        min=0,
        help="Only positions and moves with N or more visits; 10 by default, with --book 0.",
    ),
]


@command(
    "Write a site of a book or a position, without a server.",
    "graphsearch export site --store first.graph -o first-site",
    'graphsearch export site startpos --moves "e4 e5" --store first.graph --min-visits 50 -o open-game',
    scores=True,
)
def site(
    store: StoreOption,
    position: AnyPositionOptions,
    output: Folder,
    book: Book = None,
    depth: Depth = None,
    min_visits: MinVisits = None,
    json: Json = False,
) -> None:
    """Write a folder with board, moves, graph and values of a book, or of what follows a position.

    Open its index.html in a browser, or put the folder on any web server. It loads nothing from elsewhere.
    Without POSITION: from the roots of the book, or of all searches. Moves are played on the board or with
    the arrow keys; f turns the board.

    JSON: as the other exports; `left_out` counts what is not in the site, by reason.
    """
    from graphsearch.exchange.site.export import export_site

    board = position.board()
    say_if_unfinished(store)
    # signals are not armed: Ctrl-C and SIGTERM end the export and leave no folder behind
    with StopSignals(), progress_shown("Positions") as show:
        report = export_site(
            store, output, board, book=book, depth=depth, min_visits=min_visits, on_progress=show
        )
    finish(report, store, str(output), json=json)
