"""`graphsearch book`: opening books that are built over weeks, in the graph file that searches use."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import book_queue, book_todo
from .book_live import build_display
from .book_view import position_lines, report_lines, runs_table, status_lines, verdicts_table
from .commands import command, group
from .options import Json, PositionOptions, Ram, StoreOption, StoreToMake, Threads, graph_ram
from .output import FAILED, print_json, print_part, print_view, say, say_if_unfinished
from .program import program_name
from .signals import StopSignals

if TYPE_CHECKING:
    from graphsearch.book.build_report import BuildReport

Config = Annotated[
    Path,
    typer.Argument(metavar="BOOK.toml", help="The book's settings (docs/books.md).", show_default=False),
]
BookName = Annotated[
    str | None, typer.Option("--book", metavar="NAME", help="Which book, if the file has several.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """The options of `book build`."""

    config: Config
    store: StoreToMake
    time: Annotated[float | None, typer.Option("--time", metavar="S", help="Stop after S seconds.")] = None
    evaluations: Annotated[
        int | None,
        typer.Option(
            "--evaluations", metavar="N", min=1, help="Start no search that might exceed N evaluations."
        ),
    ] = None
    forever: Annotated[
        bool, typer.Option("--forever", help="Wait for the queue when nothing is left to search.")
    ] = False
    workers: Annotated[
        int, typer.Option("--workers", metavar="K", min=1, max=1024, help="Search processes.")
    ] = 1
    pool: Annotated[
        str | None,
        typer.Option(
            "--pool",
            metavar="WHERE",
            help="Where the workers are: local (processes, the default), ray, ray:auto or ray:ADDRESS.",
        ),
    ] = None
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            metavar="K",
            min=1,
            help="Build in a cluster of K shards: --store is its folder, made if missing.",
        ),
    ] = None
    threads: Threads = None
    ram: Ram = None
    json: Json = False


@command(
    "Build a book, or resume building it.",
    "graphsearch book build white.toml --store books.graph --time 3600",
    "graphsearch book build white.toml --store books.graph --forever --workers 4",
    "graphsearch book build white.toml --store books.graph --pool ray:auto --workers 64",
)
def build(request: BuildRequest) -> None:
    """Build a book: search its next leaf, add the moves that its windows admit, and repeat.

    Without a limit, building ends when nothing is left to search. Ctrl-C saves; after a kill only some
    seconds are lost. Repeat the command to resume: no position is evaluated twice. BOOK.toml may be changed
    between two runs. Items of the queue (`book queue`) come first, including those added in the meantime.
    """
    from graphsearch.book.build import build as build_book
    from graphsearch.book.build_options import BuildLimits, Resources
    from graphsearch.book.toml import read_config
    from graphsearch.evaluators.factory import with_threads

    config = read_config(request.config)
    for note in config.notes:
        say(f"note: {note}")
    if request.threads is not None:
        config = replace(config, evaluator=with_threads(config.evaluator, request.threads))
    resources = Resources(
        workers=request.workers, pool=request.pool, shards=request.shards, ram_bytes=graph_ram(request.ram)
    )
    limits = BuildLimits(seconds=request.time, evaluations=request.evaluations, forever=request.forever)
    with (
        StopSignals("Stopping: finishing the wave and saving...\n") as signals,
        build_display(signals) as show,
    ):
        signals.arm()
        report = build_book(
            request.store,
            config,
            limits=limits,
            resources=resources,
            stop=signals.stop,
            on_progress=show,
        )
    _print_report(report, request.store, json=request.json)
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
    say(f"See its progress: {shlex.join(ask)}")


@command(
    "Print the progress of books and every run.",
    "graphsearch book status --store books.graph",
    "graphsearch book status --store books.graph --book white --json",
)
def status(store: StoreOption, book: BookName = None, json: Json = False) -> None:
    """Print the progress of the books in a file: positions by ply, roots, runs, queue, and current searches.

    The file is only read, even while a book is built; the output is what was last saved.
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
        print_part(runs_table(item))


@command(
    "Explain which moves of a position are in a book.",
    'graphsearch book why startpos --moves "1. d4" --store books.graph',
    'graphsearch book why startpos --moves "1. d4 d5 2. c4" --store books.graph --book white --json',
)
def why(
    store: StoreOption,
    position: PositionOptions,
    book: BookName = None,
    json: Json = False,
) -> None:
    """Explain what a book decided on a position: every legal move, in or out, with its rule and numbers.

    If the book does not have the position, print where the game leaves the book and why; exit code 1.
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
    "Build opening books in a graph file and explain their moves.",
    build,
    status,
    why,
    book_todo.todo,
)
app.add_typer(book_queue.app, name="queue")
