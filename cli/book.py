"""`graphsearch book`: opening books, built over weeks in the graph file that searches use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import chess
import typer

from graphsearch.base.limits import text_lines, whole_number
from graphsearch.book import queue
from graphsearch.book.growth import RootValue
from graphsearch.book.questions import KINDS, RunRow, Status, TodoRow, Why, book_names
from graphsearch.book.questions import status as status_of
from graphsearch.book.questions import todo as find_work
from graphsearch.book.questions import why as explain
from graphsearch.book.queue import GivenItem, NewItem, QueueItem
from graphsearch.evaluators.factory import EvaluatorSpec, with_threads
from graphsearch.position.board import board_of
from graphsearch.position.notation import holds_positions, legal_part, sans_of

from . import options, tables
from .output import FAILED, command_text, fail, print_answer, problem_lines, say
from .progress import StopSignals, progress_display
from .render import numbered, opening_at, opening_cells, opening_line, value_score

if TYPE_CHECKING:
    from graphsearch.book.build import BuildReport

ALL_STATES = "all"
BookName = Annotated[str | None, options.option("--book NAME", "Which book, if the file has several.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRequest:
    """The options of `book queue`.

    Attributes:
      positions: POSITION...: What to add: startpos, chess960:N, FENs or moves in quotes, PGN files (all
        games), files with a FEN, an EPD line or moves on each line, or - for such lines on stdin.
      drop: --drop ITEM: Remove this waiting item, or all. May be repeated.
      kind: --kind KIND: List what is waiting, done, refused, dropped or all.
    """

    positions: list[str] | None = None
    store: options.StoreOption
    line: options.LineOptions
    book: options.OfBook = None
    drop: list[str] | None = None
    kind: str = "waiting"


def queue_items(request: QueueRequest) -> int:
    """List the queue of a book; with POSITION, add to it; with --drop, remove from it.

    A book searches its queue first, even while it is being built. Every position of a line or a game goes
    into the book, up to its maximum ply. Items that already wait are not added again, those that a builder
    has started not removed. What cannot be read is reported, the rest is added, and the exit code is 1.
    Without --book, an item is for whichever book is built next.

    JSON: `items`, each with the columns of the table `book_queue` (`schema/store.md`); of what was added:
    `added` are the numbers of new items, `duplicates` already waited as item `id`, `problems` could not be
    read; of what was removed: `dropped` is their number, `left` no longer waited.

    \b
    Examples:
      graphsearch book queue first.graph
      graphsearch book queue first.graph "1. d4 d5 2. c4"
      graphsearch book queue first.graph games.pgn --game 2 --ply 12
      graphsearch book queue first.graph --drop 1
    """
    if request.positions and request.drop:
        raise typer.BadParameter("give positions to add or --drop, one of the two")
    if request.positions or request.line.given:
        return _add_items(request, request.positions or ["startpos"])
    if request.drop:
        _drop_items(request, request.drop)
    else:
        _list_queue(request)
    return 0


# ------------------------------------------------------------------------ add
def _add_items(request: QueueRequest, positions: list[str]) -> int:
    if request.line.moves is not None and len(positions) > 1:
        raise typer.BadParameter("--moves needs exactly one position")
    problems: list[str] = []
    added = queue.add(request.store, _items(request.line, positions, problems), book=request.book)
    names = None if request.book is None else book_names(request.store)
    if names is not None and request.book not in names:  # it may be misspelt
        known = f"it has {', '.join(names)}" if names else "it has none"
        say(f"note: {request.store} has no book {request.book!r} yet; {known}")
    known_before = [
        {"id": number, "fen": item.fen, "moves": list(item.moves), "origin": item.origin}
        for item, number in added.duplicates
    ]
    facts = {"added": list(added.ids), "duplicates": known_before, "problems": problems}
    numbers = f": {added.ids[0]}" if added.ids else ""
    numbers += f" to {added.ids[-1]}" if len(added.ids) > 1 else ""
    print_answer(facts, [f"Added {tables.count(len(added.ids), 'item')} to the queue{numbers}"])
    waiting = [
        f"note: already waiting as item {number}: {line_text(item.fen, item.moves)}"
        for item, number in added.duplicates
        if not tables.is_json()
    ]
    for line in problem_lines(waiting, len(waiting)):
        say(line)
    return FAILED if problems else 0


def _items(line: options.LineOptions, positions: list[str], problems: list[str]) -> Iterator[NewItem]:
    """Yields the items to add, prints notes about them, and adds to `problems` those of unreadable ones."""
    for text in positions:
        for given in _given(line, text):
            for note in given.notes:
                say(f"note: {note}")
            if given.item:
                yield given.item
            else:
                problems.append(given.problem)
                fail(given.problem)


def _given(line: options.LineOptions, text: str) -> Iterator[GivenItem]:
    path = Path(text)
    if text == options.STDIN and line.given:
        raise typer.BadParameter("--moves, --game and --ply cannot be used with stdin")
    if text != options.STDIN and not path.exists():
        if (line.game, line.ply) != (None, None):
            raise typer.BadParameter("--game and --ply need a PGN file")
        yield queue.from_text(text, moves=line.moves)
        return
    if line.moves is not None:
        raise typer.BadParameter("--moves needs startpos or a FEN; use --ply to cut a game short")
    if text != options.STDIN and not holds_positions(text):
        yield from queue.from_games(path, ply=line.ply, only=None if line.game is None else [line.game])
        return
    if line.given:
        raise typer.BadParameter(f"--game and --ply need a PGN file, and {text} holds positions")
    shown = "stdin" if text == options.STDIN else text
    with options.open_input(text) as file:  # with a position on each line
        yield from queue.from_lines(text_lines(file, shown), shown)


def line_text(fen: str, moves: tuple[str, ...]) -> str:
    """Returns a line with move numbers, after its first position unless that is the start position."""
    board = board_of(fen)
    text = numbered(fen, sans_of(board, legal_part(board, moves)))
    return text if moves and fen == chess.STARTING_FEN else f"{fen}: {text}" if moves else fen


_Kind = TypeVar("_Kind", bound=str)


def _kind(text: str, kinds: Sequence[_Kind]) -> _Kind:
    for kind in kinds:
        if kind == text:
            return kind
    raise typer.BadParameter(f"--kind must be one of {', '.join(kinds)}, not {text!r}")


# ----------------------------------------------------------------- list, drop
def _list_queue(request: QueueRequest) -> None:
    kind = _kind(request.kind, (*queue.STATES, ALL_STATES))
    chosen = next((known for known in queue.STATES if known == kind), None)
    found = list(queue.items(request.store, state=chosen, book=request.book))
    facts = {"items": [item.as_dict() for item in found]}
    print_answer(facts, [tables.Table(map(_item_cells, found), {"Line": tables.LEFT})])
    if not found and not tables.is_json():
        say("The queue is empty." if chosen is None else f"No item is {chosen}.")


def _item_cells(item: QueueItem) -> dict[str, str]:
    return {
        "Item": str(item.id),
        "State": item.state,
        "Book": item.book or "any",
        "Added (UTC)": tables.moment(item.added),
        "From": item.origin,
        "Line": line_text(item.fen, item.moves),
        "Note": item.note or "",
    }


def _drop_items(request: QueueRequest, texts: list[str]) -> None:
    every = ALL_STATES in texts
    if request.book is not None and not every:
        raise typer.BadParameter("--book needs --drop all")
    items = [] if every else [whole_number(text) for text in texts]
    left = [] if every else queue.drop(request.store, items)
    dropped = queue.drop_all(request.store, book=request.book) if every else len(set(items)) - len(left)
    for item in left:
        say(f"note: item {item.id} is already {item.state} and stays as it is")
    facts = {"dropped": dropped, "left": [item.as_dict() for item in left]}
    print_answer(facts, [f"Dropped {tables.count(dropped, 'item')}"])


EMPTY = {
    "leaves": "Every position of the book has been searched.",
    "gaps": "Every likely or popular reply has an answer.",
}


def todo(
    store: options.StoreOption,
    book: BookName = None,
    *,
    kind: str = "leaves",
    lines: options.Lines = 20,
    min_games: options.Count = 20,
    queued: bool = False,
) -> None:
    """List what a book needs next, the most urgent first; works while the book is built.

    Leaves come in the builder's order. Gaps are ranked by how likely the book reaches them: the product of
    the replies' shares of the imported games along the line (of P where fewer than 20 games are known), own
    moves counting 1; own positions without a move are gaps too.

    JSON: `items`, each with FEN, and the line from the root in UCI and in SAN.

    \b
    Examples:
      graphsearch book todo --store white.graph
      graphsearch book todo --book white --kind gaps --lines 50 --queue --store books.graph

    Args:
      kind: --kind KIND: leaves: positions not searched yet; gaps: likely or popular replies without an
        answer.
      min_games: --min-games N: Gaps: or replies with at least N imported games.
      queued: --queue: Also add them to the book's queue.
    """
    found = find_work(store, book, _kind(kind, KINDS), top=lines, min_games=min_games)
    print_answer(
        found, [tables.Table(map(_todo_cells, found.rows), {"Line": tables.LEFT, "P": tables.RIGHT})]
    )
    if not found.rows and not tables.is_json():
        say(EMPTY[found.kind])
    if queued:
        added = queue.add(store, [row.item for row in found.rows], book=found.book)
        there = f"; {tables.count(len(added.duplicates), 'item')} already waiting" if added.duplicates else ""
        say(f"Added {tables.count(len(added.ids), 'item')} to the queue{there}")


def _todo_cells(row: TodoRow) -> dict[str, str]:
    lead = {**opening_cells(opening_at(row.at.fen)), "Position": row.at.fen}
    if row.reach is None:
        return {
            "Line": row.line or "start",
            **lead,
            "Priority": "" if row.priority is None else f"{row.priority:.3f}",
            "Ply": str(row.at.ply),
        }
    return {
        "Line": row.line if row.move else f"{row.line}, no move yet",
        **lead,
        "Reach": f"{100 * row.reach:.2f}%",
        "P": "" if row.p is None else f"{100 * row.p:.1f}%",
        "Games": f"{row.games:,}" if row.games else "",
    }


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


def build(
    config: Path,
    store: options.StoreToMake,
    time: options.Time = None,
    evaluations: options.Count | None = None,
    forever: bool = False,
    workers: options.Workers = None,
    pool: options.Pool = None,
    threads: options.Threads = None,
    ram: options.Ram = None,
) -> int:
    """Build a book: search its next leaf, add the moves that its windows admit, and repeat.

    Without a limit, building ends when nothing is left to search. Ctrl-C saves; after a kill only some
    seconds are lost. Repeat the command to resume: no position is evaluated twice. BOOK.toml may be changed
    between two runs. Items of the queue (`book queue`) come first, including those added in the meantime.
    Several workers pay with engines and networks: `builtin` uses all cores in one process.

    \b
    Examples:
      graphsearch book build white.toml --store books.graph --time 1h
      graphsearch book build white.toml --store books.graph --forever --workers 4

    Args:
      config: BOOK.toml: The book's settings (docs/books.md).
      evaluations: --evaluations N: Start no search that might exceed N evaluations, except the first.
      forever: --forever: Wait for the queue when nothing is left to search.
    """
    from graphsearch.book.build import build as build_book
    from graphsearch.book.config import BuildSettings, read_config

    chosen = read_config(config)
    for note in chosen.notes:
        say(f"note: {note}")
    if chosen.evaluator == EvaluatorSpec():
        chosen = replace(chosen, evaluator=options.EvaluatorOptions().of_file(store).spec()[0])
    if threads is not None:
        chosen = replace(chosen, evaluator=with_threads(chosen.evaluator, threads))
    settings = BuildSettings(
        seconds=time,
        evaluations=evaluations,
        forever=forever,
        workers=workers,
        pool=pool,
        ram_bytes=options.graph_ram(ram),
    )
    with (
        StopSignals() as signals,
        progress_display(signals, lambda now: "   ".join(_progress_lines(now)), _progress_lines) as show,
    ):
        signals.arm()
        report = build_book(store, chosen, settings=settings, stop=signals.stop, on_progress=show)
    options.remember(options.identity_of(store), chosen.evaluator)
    print_answer(report, _report_lines(report))
    if not tables.is_json():
        say(f"See its progress: {command_text('book', 'status', '--store', str(store))}")
    return signals.exit_code


def status(store: options.StoreOption, book: BookName = None) -> None:
    """Print the progress of the books in a file: positions by ply, roots, runs and queue.

    The file is only read, even while a book is built; the output is what was last saved.

    \b
    Examples:
      graphsearch book status --store books.graph
      graphsearch book status --store books.graph --book white --json
    """
    found = status_of(store, book)
    print_answer({"books": [item.as_dict() for item in found]}, _books(found))


def _books(found: Sequence[Status]) -> Iterator[tables.Part]:
    for i, item in enumerate(found):
        yield from [""] * (i > 0)
        total = item.open + item.leaf + item.end
        yield (
            f"Book {item.book.name} ({item.book.side}): {tables.count(total, 'position')},"
            f" {tables.count(item.moves, 'move')}; {item.open:,} searched, {item.leaf:,} to search,"
            f" {tables.count(item.end, 'end')}"
        )
        yield f"Begun {tables.moment(item.book.created)}, last built {tables.moment(item.book.updated)} (UTC)"
        yield from _root_lines(item.roots)
        if item.queue:
            yield "Queue: " + ", ".join(f"{n:,} {state}" for state, n in sorted(item.queue.items()))
        if item.apart:
            yield f"{tables.count(item.apart, 'more position')} that no root leads to any more"
        yield from ["", *_plies(item), ""]
        yield tables.Table([_run_cells(run, is_last=run is item.runs[-1]) for run in item.runs])


def why(store: options.StoreOption, position: options.PositionOptions, book: BookName = None) -> int:
    """Explain what a book decided on a position: every legal move, in or out, with its rule and numbers.
    `kept` marks a move that was added before and that the rules no longer admit: `export` leaves it out.

    If the book does not have the position, print where the game leaves the book and why; exit code 1.

    \b
    Examples:
      graphsearch book why startpos --moves "1. d4" --store books.graph
      graphsearch book why startpos --moves "1. d4 d5 2. c4" --store books.graph --book white --json
    """
    found = explain(store, position.board(), book)
    print_answer(found, [*_why(found), *([""] if found.verdicts else []), _verdicts_table(found)])
    return 0 if found.found else FAILED


# ------------------------------------------------------------------ lines and tables
def _report_lines(report: BuildReport) -> Iterator[str]:
    yield (
        f"Book {report.book}: {tables.count(report.positions, 'position')},"
        f" {tables.count(report.leaves, 'leaf', 'leaves')} to search; {ENDED[report.ended]}"
    )
    yield (
        f"This run: {tables.count(report.searched, 'position')} searched, {report.added:,} added,"
        f" {tables.count(report.evaluations, 'evaluation')}, {tables.duration(report.seconds)}"
    )
    yield from _root_lines(report.roots)


def _root_lines(roots: Sequence[RootValue]) -> Iterator[str]:
    """Yields the value of each root, from White's view."""
    for root in roots[:MAX_ROOTS]:
        best = f", best {root.best}" if root.best else ""
        name = " ".join(opening_line(opening_at(root.position))).removeprefix("Opening: ") or root.position
        worth = value_score(root.value, root.mate, root.position) or "unknown"
        yield f"{root.origin}: {worth}{best}   {name}"
    if len(roots) > MAX_ROOTS:
        yield f"and {len(roots) - MAX_ROOTS:,} more roots; --json has all"


def _plies(found: Status) -> Iterator[str]:
    """Yields a row of a bar chart for each ply: # searched, . to search, - ends."""
    most = max((row.open + row.leaf + row.end for row in found.plies), default=1)
    yield "Ply  searched  to search      ends"
    for row in found.plies:
        parts = ((row.open, "#"), (row.leaf, "."), (row.end, "-"))
        bar = "".join(sign * (-(-30 * number // most)) for number, sign in parts)
        yield f"{row.ply:>3}{row.open:>10,}{row.leaf:>11,}{row.end:>10,}  {bar}"


def _run_cells(run: RunRow, *, is_last: bool) -> dict[str, str]:
    without = "active, or killed" if is_last else "killed"  # one build at a time writes a file
    return {
        "Run": str(run.number),
        "Started (UTC)": tables.moment(run.started),
        "Time": tables.duration(run.seconds),
        "Searched": f"{run.searched:,}",
        "Added": f"{run.positions:,}",
        "Evaluations": f"{run.evaluations:,}",
        "Ended": without if run.ended is None else ENDED.get(run.ended, run.ended),
    }


def _why(found: Why) -> Iterator[tables.Part]:
    yield f"{found.position}   key {found.at.key}" if tables.is_detailed() else found.position
    yield from opening_line(opening_at(found.position))
    if not found.found:
        yield f"Not in book {found.book}."
        if found.left_at:
            left = found.left_at
            where = f"after {left.line}" if left.line else "at a root"
            yield f"The game leaves the book {where}: {left.move} is not in it."
            reason = left.verdict.reason if left.verdict else f"that position is {STATES[left.state]}"
            yield f"Why: {reason}."
        elif found.roots:
            others = tables.count(len(found.roots) - 1, "more position")
            more = f", and at {others}" if len(found.roots) > 1 else ""
            yield f"Why: the book begins at {found.roots[0]}{more}; no move of it leads here."
        return
    at = found.at
    said = [] if at.state == "open" else [STATES[at.state]]
    times = f"searched {tables.count(at.searches, 'time')}, {tables.count(at.n, 'visit')}"
    said += [times] if at.searches else []
    yield f"Book {found.book}, ply {at.ply}: {'; '.join(said) or 'its moves were chosen'}"
    yield f"Line: {found.line or ('none' if at.state == 'apart' else 'a root')}"
    yield f"Score: {value_score(at.value, found.mate, found.position) or 'unknown'}   {tables.VIEW}"
    if at.outside is not None:
        mate = next((v.candidate.mate for v in found.verdicts if v.candidate.move == at.outside_move), None)
        yield f"Best outside the book: {found.outside_san} {value_score(at.outside, mate, found.position)}"
    if found.rank is not None and found.priority is not None:
        yield f"To search: number {found.rank:,} of {found.leaves:,} leaves, cost {found.priority:.2f}"


def _verdicts_table(found: Why) -> tables.Table:
    """Returns every legal move with its decision, best value first."""
    white = tables.is_white(found.position)
    return tables.Table(
        {
            "Move": move.san,
            "": "out" if not verdict.rule else "in" if verdict.admitted else "kept",
            "Score": value_score(move.value, move.mate, found.position),
            "Loss": "" if verdict.loss is None else f"{verdict.loss / 100:.2f}",
            "Visits": f"{move.n:,}",
            "P": f"{100 * move.p:.1f}%",
            "Value": tables.signed(move.value, white=white),
            "Games": f"{move.games:,}" if move.games else "",
            "Run": str(found.since.get(move.move) or ""),
            "Why": verdict.reason,
        }
        for verdict in found.verdicts
        for move in [verdict.candidate]
    )


# ------------------------------------------------------------------ the progress of a build
def _progress_lines(now: BuildReport, _width: int = 0) -> list[str]:
    if now.ended != "building":
        return [f"{now.ended.capitalize()} the book, {tables.duration(now.seconds)}"]
    rate = now.evaluations / now.seconds if now.seconds else 0.0
    waiting = f"; {tables.count(now.waiting, 'item')} of the queue" if now.waiting else ""
    leaves = tables.count(now.leaves, "leaf", "leaves")
    return [
        f"{tables.duration(now.seconds)}: {tables.count(now.searched, 'position')} searched,"
        f" {now.added:,} added, {tables.count(now.evaluations, 'evaluation')} ({rate:,.0f}/s)",
        f"Book: {tables.count(now.positions, 'position')}, {leaves}{waiting}",
        f"Now: {now.line} (ply {now.ply})" if now.line else "Now: nothing",
    ]
