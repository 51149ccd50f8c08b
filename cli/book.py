"""`graphsearch book`: opening books that are built for weeks, in the graph file that searches use."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import book_queue, book_todo, program_name
from .book_live import build_display
from .book_views import position_lines, report_lines, runs_table, status_lines, verdicts_table
from .commands import command, group
from .options import Json, PositionOptions, Ram, StoreOption, graph_ram
from .output import FAILED, compiling, print_json, print_view, say, say_if_unfinished
from .signals import StopSignals

if TYPE_CHECKING:
    from graphsearch.book.build import BuildReport

Config = Annotated[
    Path,
    typer.Argument(metavar="BOOK.toml", help="What the book is to be (docs/books.md).", show_default=False),
]
BookName = Annotated[
    str | None, typer.Option("--book", metavar="NAME", help="Which book, if the file has several.")
]


@command(
    "Build on a book; go on where it stopped.",
    "graphsearch book build white.toml --store books.graph --time 3600",
    "graphsearch book build white.toml --store books.graph --forever --workers 4",
)
def build(
    config: Config,
    store: Annotated[
        Path,
        typer.Option("--store", metavar="FILE", help="The graph file; made if missing.", show_default=False),
    ],
    time: Annotated[float | None, typer.Option("--time", metavar="S", help="Stop after S seconds.")] = None,
    evaluations: Annotated[
        int | None,
        typer.Option(
            "--evaluations", metavar="N", min=1, help="Begin no search that might pass N evaluations."
        ),
    ] = None,
    forever: Annotated[
        bool, typer.Option("--forever", help="When nothing is left to search, wait for the queue.")
    ] = False,
    workers: Annotated[
        int, typer.Option("--workers", metavar="K", min=1, max=1024, help="Processes that search.")
    ] = 1,
    ram: Ram = None,
    json: Json = False,
) -> None:
    """Build on a book: search its next leaf, take in the moves that its windows admit, and so on.

    Without a limit it ends when nothing is left to search. Ctrl-C saves, a kill costs some seconds, and the
    same command goes on: no position is evaluated twice. BOOK.toml may be changed between two runs. Items of
    the queue (`book queue`) come first, also those that are added while it runs.
    """
    from graphsearch.book.build import BuildLimits
    from graphsearch.book.build import build as build_book
    from graphsearch.book.toml import read_config

    found = read_config(config)
    for note in found.notes:
        say(f"note: {note}")
    limits = BuildLimits(seconds=time, evaluations=evaluations, forever=forever)
    with (
        StopSignals("Stopping: finishing the wave and saving...\n") as signals,
        compiling("search"),
        build_display(signals) as show,
    ):
        signals.arm()
        report = build_book(
            store,
            found,
            limits=limits,
            workers=workers,
            ram_bytes=graph_ram(ram),
            stop=signals.stop,
            on_progress=show,
        )
    _print_report(report, store, json=json)
    if signals.exit_code:
        raise typer.Exit(signals.exit_code)
    if report.failed:
        raise typer.Exit(FAILED)


def _print_report(report: BuildReport, store: Path, *, json: bool) -> None:
    for fen, error in report.failed:
        say(f"graphsearch: could not search {fen}: {error}")
    if json:
        print_json(report.as_dict())
        return
    for line in report_lines(report):
        print(line)
    ask = [*program_name().split(), "book", "status", "--store", str(store)]
    say(f"See how far it is: {shlex.join(ask)}")


@command(
    "Print how far books are, and what was done in each run.",
    "graphsearch book status --store books.graph",
    "graphsearch book status --store books.graph --book white --json",
)
def status(store: StoreOption, book: BookName = None, json: Json = False) -> None:
    """Print how far the books of a file are: positions by ply, roots, runs, queue, and what is searched now.

    It only reads the file, also while a book is built; then it shows what was last saved.
    """
    from graphsearch.book.status import status as status_of

    found = status_of(store, book)
    say_if_unfinished(store)
    if json:
        print_json({"books": [item.as_dict() for item in found]})
        return
    for i, item in enumerate(found):
        if i:
            print()
        for line in status_lines(item):
            print(line)
        print()
        print_view(lambda _, item=item: runs_table(item))  # type: ignore[misc]


@command(
    "Print what was decided on a position, and why.",
    'graphsearch book why startpos --moves "1. d4" --store books.graph',
    'graphsearch book why startpos --moves "1. d4 d5 2. c4" --store books.graph --book white --json',
)
def why(
    store: StoreOption,
    position: PositionOptions,
    book: BookName = None,
    json: Json = False,
) -> None:
    """Print what a book decided on a position: every legal move, in or out, by which rule and which numbers.

    Of a position that it has not, it prints where the game leaves the book, and why; exit code 1.
    """
    from graphsearch.book.why import why as ask

    board = position.board()
    found = ask(store, board, book)
    if json:
        print_json(found.as_dict())
    else:
        for line in position_lines(found):
            print(line)
        if found.verdicts:
            print()
            print_view(lambda width: verdicts_table(found, width))
    if not found.found:
        raise typer.Exit(FAILED)


app = group(
    "Build opening books in a graph file, and ask why they are what they are.",
    build,
    status,
    why,
    book_todo.todo,
)
app.add_typer(book_queue.app, name="queue")
