"""`graphsearch import`: games, books and positions from elsewhere into a graph file."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from .commands import command, group
from .options import Json
from .output import FAILED, print_json, say
from .progress import titled_bar
from .signals import StopSignals

if TYPE_CHECKING:
    import threading
    from typing import BinaryIO

    from graphsearch.exchange.importing import ImportProgress
    from graphsearch.exchange.report import FileReport
    from graphsearch.exchange.sources import Given
    from graphsearch.store.tables.games import Imported

    OnProgress = Callable[[ImportProgress], None]
    Work = Callable[[list[Given], threading.Event, OnProgress | None], list[FileReport]]

MAX_PROBLEMS = 20  # of each file that are told; JSON has all

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...", help="Files, plain, .gz or .zst; - for standard input.", show_default=False
    ),
]
IntoStore = Annotated[
    Path,
    typer.Option(
        "--store", metavar="FILE", help="The graph file, made if it is missing.", show_default=False
    ),
]
Again = Annotated[bool, typer.Option("--again", help="Take in files that were imported before once more.")]
Variations = Annotated[
    bool, typer.Option("--variations", help="Count the moves of variations too, in a column of their own.")
]
MaxPly = Annotated[
    int | None,
    typer.Option(
        "--max-ply", metavar="N", min=1, help="Count the first N half-moves of a game, by its move numbers."
    ),
]


@command(
    "Count games and their results, move by move.",
    "graphsearch import pgn games.pgn --store first.graph",
    "graphsearch import pgn games.pgn --store games.graph --variations --max-ply 40 --json",
)
def pgn(
    files: Files,
    store: IntoStore,
    variations: Variations = False,
    max_ply: MaxPly = None,
    again: Again = False,
    json: Json = False,
) -> None:
    """Count the games of PGN files in a graph file: how often each move was played, and with which result.

    The counts stand in tables of their own; what a search knows stays as it is. Games are read strictly: one
    with an illegal or unreadable move is told with its line, and counts nothing. Games of other variants are
    counted by name and left out. A file that was imported before is known by its bytes and left alone; after
    Ctrl-C or a kill the same command goes on where it was. Exit code 1 if a file cannot be read, or none of
    its games counts.

    JSON: of each of `files`, `taken` and `skipped` count games in all, `new_taken` and `new_skipped` those of
    this time; `problems` has the line and reason of every broken game.
    """
    from graphsearch.exchange.pgn_import import import_pgn

    def work(given: list[Given], stop: threading.Event, show: OnProgress | None) -> list[FileReport]:
        return import_pgn(
            store,
            given,
            variations=variations,
            max_ply=max_ply,
            again=again,
            stop=stop,
            on_progress=show,
        )

    _run(files, store, work, "game", json=json)


@command(
    "Take in the entries of Polyglot books.",
    "graphsearch import polyglot book.bin --store first.graph",
)
def polyglot(files: Files, store: IntoStore, again: Again = False, json: Json = False) -> None:
    """Take every entry of Polyglot books into a graph file, as it stands.

    A book knows positions by their keys only. Their FENs are looked up in the graph file, and found along the
    moves of the book and over single moves that it leaves out, from there and from the start of the game. It
    is told how many are known, and what is odd: moves that are illegal, entries out of order or of weight 0,
    a book that is cut short.
    """
    from graphsearch.exchange.polyglot_import import import_polyglot

    def work(given: list[Given], stop: threading.Event, show: OnProgress | None) -> list[FileReport]:
        return import_polyglot(store, given, again=again, stop=stop, on_progress=show)

    _run(files, store, work, "entry", json=json)


@command(
    "Take in the positions of EPD files.",
    "graphsearch import epd positions.epd --store first.graph --json",
)
def epd(files: Files, store: IntoStore, again: Again = False, json: Json = False) -> None:
    """Take the positions of EPD files into a graph file, with their operations.

    A line that cannot be read is told with its reason and left out.
    """
    from graphsearch.exchange.epd_import import import_epd

    def work(given: list[Given], stop: threading.Event, show: OnProgress | None) -> list[FileReport]:
        return import_epd(store, given, again=again, stop=stop, on_progress=show)

    _run(files, store, work, "position", json=json)


def _run(files: list[str], store: Path, work: Work, noun: str, *, json: bool) -> None:
    """Does the work and tells about it; ends with the exit code of what happened."""
    given = [_given(name) for name in files]
    if files.count("-") > 1:
        raise typer.BadParameter("standard input (-) can be read once only")
    with (
        StopSignals("Stopping: saving what was taken in...\n") as signals,
        titled_bar("Reading", title) as show,
    ):
        if "-" not in files:  # a read that waits for a pipe is to end at once; what was counted is saved
            signals.arm()
        reports = work(given, signals.stop, show)
    left = files[len(reports) :]
    if json:
        _print_json(store, reports, left)
    for report in reports:
        _tell_problems(report, noun)
        if not json and not report.error:
            print(_summary(report, noun))
    if signals.stop.is_set() and (left or any(report.state == "stopped" for report in reports)):
        taken = sum(report.new for report in reports)
        say(f"Saved: {count(taken, noun)}. The same command goes on.")
        raise typer.Exit(signals.exit_code)
    if any(report.failed for report in reports):
        raise typer.Exit(FAILED)


def count(number: int, noun: str) -> str:
    """Returns a number with its noun.

    >>> count(1, "entry"), count(2, "entry"), count(2, "game")
    ('1 entry', '2 entries', '2 games')
    """
    return (
        f"{number:,} {noun}"
        if number == 1
        else f"{number:,} {noun.removesuffix('y')}{'ies' if noun.endswith('y') else 's'}"
    )


def _given(name: str) -> Given:
    from graphsearch.exchange.sources import STDIN, Given

    if name != STDIN:
        return Given(name)
    return Given(name, cast("BinaryIO", sys.stdin.buffer))


def _print_json(store: Path, reports: list[FileReport], left: list[str]) -> None:
    found = _imported(store).as_dict()
    totals = {name: number for name, number in found.items() if name != "sources"}
    print_json({"store": str(store), "files": [r.as_dict() for r in reports], "not_read": left, **totals})


def _imported(store: Path) -> Imported:
    from graphsearch.store.store import Store
    from graphsearch.store.tables.games import imported

    with Store.open(store, read_only=True) as opened:
        return imported(opened)


def _tell_problems(report: FileReport, noun: str) -> None:
    """Says on stderr what was left out of a file, and what is odd about it."""
    place = "entry" if report.kind == "polyglot" else "line"
    for problem in report.problems[:MAX_PROBLEMS]:
        say(f"{report.name}, {place} {problem.place}: {problem.reason}")
    more = len(report.problems) - MAX_PROBLEMS
    if more > 0:
        say(f"{report.name}: and {more:,} more; --json has all")
    for name, number in report.variants.items():
        say(f"{report.name}: {count(number, noun)} of {name} left out; only standard chess can be searched")
    for note in report.notes:
        say(f"note: {report.name}: {note}")
    if report.error:
        kept = f"; {count(report.new, noun)} before that kept" if report.new else ""
        say(f"graphsearch: {report.error}{kept}")


def _summary(report: FileReport, noun: str) -> str:
    """Returns what became of a file, in one line."""
    taken = count(report.taken, noun)
    if report.state == "known":
        return f"{report.name}: imported before ({taken}); --again takes it in once more"
    broken, others = report.new_skipped - sum(report.variants.values()), Counter(report.variants)
    skipped = [f"{broken:,} broken"] if broken > 0 else []
    skipped += [f"{number:,} of {name}" for name, number in others.items()]
    tail = f", left out: {', '.join(skipped)}" if skipped else ""
    before = f" ({report.new_taken:,} of them now)" if report.new_taken < report.taken else ""
    pace = f", {report.new / report.seconds:,.0f} per second" if report.seconds > 0 else ""
    return f"{report.name}: {taken} taken in{before}{tail}; {report.seconds:.1f} s{pace}"


def title(now: ImportProgress) -> str:
    """Returns what an import is at; the bar counts bytes."""
    rate = f", {now.count:,}, {now.rate:,.0f}/s" if now.count else ""
    return f"{now.stage} {now.name}{rate}"


app = group("Take games, books and positions from elsewhere into a graph file.", pgn, polyglot, epd)
