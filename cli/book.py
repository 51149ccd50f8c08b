"""`graphsearch book`: opening books, built over weeks in the graph file that searches use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import book_queue
from .commands import command, group
from .options import (
    Json,
    PositionOptions,
    Ram,
    StoreOption,
    StoreToMake,
    Threads,
    Time,
    argument,
    graph_ram,
    option,
)
from .output import FAILED, print_answer, print_json, print_parts, say, say_if_unfinished
from .program import command_text
from .progress import Screen, progress_display
from .render import count, duration, moment, opening_at, opening_line
from .scores import detailed, heading, is_white, look, signed, value_score
from .signals import StopSignals
from .tables import LEFT, WHOLE, Cells, Part, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from graphsearch.book.build_report import BuildProgress, BuildReport, RootValue
    from graphsearch.book.status import RunRow, Status
    from graphsearch.book.why import Why

MAX_ROOTS = 20  # roots in the output; JSON has all
ENDED = {
    "complete": "nothing is left to search",
    "stop": "stopped",
    "time": "the time limit was reached",
    "evaluations": "the evaluation limit was reached",
    "failed": "failed",
}
STATES = {
    "leaf": "not searched yet",
    "open": "searched",
    "end": "end: nothing follows here",
    "apart": "no root leads here any more",
}

BookName = Annotated[str | None, option("--book NAME", "Which book, if the file has several.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildRequest:
    """The options of `book build`."""

    config: Annotated[Path, argument("BOOK.toml", "The book's settings (docs/books.md).")]
    store: StoreToMake
    time: Time = None
    evaluations: Annotated[
        int | None, option("--evaluations N", "Start no search that might exceed N evaluations.", min=1)
    ] = None
    forever: Annotated[bool, option("--forever", "Wait for the queue when nothing is left to search.")] = (
        False
    )
    threads: Threads = None
    ram: Ram = None
    json: Json = False


@command(
    "Build a book, or resume building it.",
    "graphsearch book build white.toml --store books.graph --time 1h",
    "graphsearch book build white.toml --store books.graph --forever",
)
def build(request: BuildRequest) -> None:
    """Build a book: search its next leaf, add the moves that its windows admit, and repeat.

    Without a limit, building ends when nothing is left to search. Ctrl-C saves; after a kill only some
    seconds are lost. Repeat the command to resume: no position is evaluated twice. BOOK.toml may be changed
    between two runs. Items of the queue (`book queue`) come first, including those added in the meantime.
    """
    from graphsearch.book.build import build as build_book
    from graphsearch.book.config import BuildLimits, Resources
    from graphsearch.book.toml import read_config
    from graphsearch.evaluators.factory import with_threads

    config = read_config(request.config)
    for note in config.notes:
        say(f"note: {note}")
    if request.threads is not None:
        config = replace(config, evaluator=with_threads(config.evaluator, request.threads))
    resources = Resources(ram_bytes=graph_ram(request.ram))
    limits = BuildLimits(seconds=request.time, evaluations=request.evaluations, forever=request.forever)
    with (
        StopSignals() as signals,
        progress_display(signals, lambda now: "   ".join(_progress_lines(now)), _drawn) as show,
    ):
        signals.arm()
        report = build_book(
            request.store, config, limits=limits, resources=resources, stop=signals.stop, on_progress=show
        )
    print_answer(report, _report_lines(report), json=request.json)
    if not request.json:
        say(f"See its progress: {command_text('book', 'status', '--store', str(request.store))}")
    if signals.exit_code:
        raise typer.Exit(signals.exit_code)


@command(
    "Print the progress of books and every run.",
    "graphsearch book status --store books.graph",
    "graphsearch book status --store books.graph --book white --json",
    views=True,
)
def status(store: StoreOption, book: BookName = None, json: Json = False) -> None:
    """Print the progress of the books in a file: positions by ply, roots, runs and queue.

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
        cells = (_run_cells(run, is_last=run is item.runs[-1]) for run in item.runs)
        runs = table(cells, {"Started (UTC)": LEFT, "Ended": LEFT})
        print_parts([*_status_lines(item), "", runs])


@command(
    "Explain which moves of a position are in a book.",
    'graphsearch book why startpos --moves "1. d4" --store books.graph',
    'graphsearch book why startpos --moves "1. d4 d5 2. c4" --store books.graph --book white --json',
    views=True,
)
def why(store: StoreOption, position: PositionOptions, book: BookName = None, json: Json = False) -> None:
    """Explain what a book decided on a position: every legal move, in or out, with its rule and numbers.
    `kept` marks a move that was added before and that the rules no longer admit: `export` leaves it out.

    If the book does not have the position, print where the game leaves the book and why; exit code 1.
    """
    from graphsearch.book.why import why as ask

    board = position.board()
    found = ask(store, board, book)
    verdicts: list[Part] = ["", _verdicts_table(found)] if found.verdicts else []
    print_answer(found, [*_position_lines(found), *verdicts], json=json)
    if not found.found:
        raise typer.Exit(FAILED)


# ------------------------------------------------------------------ lines and tables
def _report_lines(report: BuildReport) -> list[str]:
    lines = [
        f"Book {report.book}: {count(report.positions, 'position')},"
        f" {count(report.leaves, 'leaf', 'leaves')} to search; {ENDED[report.ended]}",
        f"This run: {count(report.searched, 'position')} searched, {report.added:,} added,"
        f" {count(report.evaluations, 'evaluation')}, {duration(report.seconds)}",
    ]
    return lines + _root_lines(report.roots)


def _root_lines(roots: Sequence[RootValue]) -> list[str]:
    """Returns the value of each root, from White's view."""
    lines = []
    for root in roots[:MAX_ROOTS]:
        best = f", best {root.best}" if root.best else ""
        opening = " ".join(opening_line(opening_at(root.position)))
        name = opening.removeprefix("Opening: ") or root.position
        lines.append(f"{root.origin}: {value_score(root.value, root.position) or 'unknown'}{best}   {name}")
    if len(roots) > MAX_ROOTS:
        lines.append(f"and {len(roots) - MAX_ROOTS:,} more roots; --json has all")
    return lines


def _status_lines(found: Status) -> list[str]:
    total = found.open + found.leaf + found.end
    lines = [
        f"Book {found.name} ({found.side}): {count(total, 'position')}, {count(found.moves, 'move')};"
        f" {found.open:,} searched, {found.leaf:,} to search, {count(found.end, 'end')}",
        f"Begun {moment(found.created)}, last built {moment(found.updated)} (UTC)",
    ]
    lines += _root_lines(found.roots)
    if found.queue:
        lines.append("Queue: " + ", ".join(f"{n:,} {state}" for state, n in sorted(found.queue.items())))
    if found.apart:
        lines.append(f"{count(found.apart, 'more position')} that no root leads to any more")
    return [*lines, "", *_plies(found)]


def _plies(found: Status) -> list[str]:
    """Returns a row of a bar chart for each ply: # searched, . to search, - ends."""
    most = max((row.open + row.leaf + row.end for row in found.plies), default=1)
    lines = ["Ply  searched  to search      ends"]
    for row in found.plies:
        parts = ((row.open, "#"), (row.leaf, "."), (row.end, "-"))
        bar = "".join(sign * (-(-30 * number // most)) for number, sign in parts)
        lines.append(f"{row.ply:>3}{row.open:>10,}{row.leaf:>11,}{row.end:>10,}  {bar}")
    return lines


def _run_cells(run: RunRow, *, is_last: bool) -> dict[str, str]:
    without = "active, or killed" if is_last else "killed"  # one build at a time writes a file
    return {
        "Run": str(run.number),
        "Started (UTC)": moment(run.started),
        "Time": duration(run.seconds),
        "Searched": f"{run.searched:,}",
        "Added": f"{run.positions:,}",
        "Evaluations": f"{run.evaluations:,}",
        "Ended": without if run.ended is None else ENDED.get(run.ended, run.ended),
    }


def _position_lines(found: Why) -> list[str]:
    lines = [f"{found.position}   key {found.key}" if look.details else found.position]
    lines += opening_line(opening_at(found.position))
    if not found.found:
        lines.append(f"Not in book {found.book}.")
        if found.left_at:
            left = found.left_at
            where = f"after {left.line}" if left.line else "at a root"
            lines.append(f"The game leaves the book {where}: {left.move} is not in it.")
            reason = left.verdict.reason if left.verdict else f"that position is {STATES[left.state]}"
            lines.append(f"Why: {reason}.")
        elif found.roots:
            more = f", and at {count(len(found.roots) - 1, 'more position')}" if len(found.roots) > 1 else ""
            lines.append(f"Why: the book begins at {found.roots[0]}{more}; no move of it leads here.")
        return lines
    assert found.state is not None
    times = "" if not found.searches else f" {count(found.searches, 'time')}, {count(found.n or 0, 'visit')}"
    lines.append(f"Book {found.book}, ply {found.ply}: {STATES[found.state]}{times}")
    lines.append(f"Line: {found.line or 'a root'}")
    lines.append(f"Score: {value_score(found.value, found.position) or 'unknown'}   ({heading()})")
    if found.outside is not None:
        lines.append(
            f"Best outside the book: {found.outside_san} {value_score(found.outside, found.position)}"
        )
    if found.rank is not None and found.priority is not None:
        lines.append(
            f"To search: number {found.rank:,} of {found.leaves:,} leaves, cost {found.priority:.2f}"
        )
    return lines


def _verdicts_table(found: Why) -> Cells:
    """Returns every legal move with its decision, best value first."""
    has_games = any(verdict.candidate.games for verdict in found.verdicts)
    white = is_white(found.position)
    rows = []
    for verdict in found.verdicts:
        move = verdict.candidate
        since = found.since.get(move.move)
        rows.append(
            {
                "Move": move.san,
                "": "out" if not verdict.rule else "in" if verdict.admitted else "kept",
                "Score": value_score(move.value, found.position),
                "Loss": "" if verdict.loss is None else f"{verdict.loss / 100:.2f}",
                "Visits": f"{move.n:,}",
                **detailed({"P": f"{100 * move.p:.1f}%", "Value": signed(move.value, white=white)}),
                "Games": f"{move.games:,}" if has_games else "",
                "Run": "" if since is None else str(since),
                "Why": verdict.reason,
            }
        )
    return table(rows, {"Move": WHOLE, "": WHOLE, "Why": LEFT})


# ------------------------------------------------------------------ the progress of a build
def _drawn(now: BuildProgress, _: Screen) -> RenderableType:
    from rich.text import Text

    return Text("\n".join(_progress_lines(now)), overflow="ellipsis", no_wrap=True)


def _progress_lines(now: BuildProgress) -> list[str]:
    if now.stage != "building":
        return [f"{now.stage.capitalize()} the book, {duration(now.seconds)}"]
    rate = now.evaluations / now.seconds if now.seconds else 0.0
    left = "" if now.left is None else f"; about {duration(now.left)} to search them all"
    waiting = f"; {count(now.waiting, 'item')} of the queue" if now.waiting else ""
    return [
        f"{duration(now.seconds)}: {count(now.searched, 'position')} searched, {now.added:,} added,"
        f" {count(now.evaluations, 'evaluation')} ({rate:,.0f}/s)",
        f"Book: {count(now.positions, 'position')}, {count(now.leaves, 'leaf', 'leaves')}{left}{waiting}",
        f"Now: {now.line} (ply {now.ply})" if now.line else "Now: nothing",
    ]


app = group(
    "Opening books: build, status, why, todo, queue.",
    build,
    status,
    why,
    book_queue.todo,
    book_queue.queue_items,
)
