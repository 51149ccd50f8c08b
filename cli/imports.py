"""`graphsearch import`: imports games, books and positions into a graph file."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from .commands import command
from .options import Json, StoreToMake, argument, option
from .output import FAILED, print_json, problem_lines, say
from .progress import titled_bar
from .render import count
from .signals import StopSignals

if TYPE_CHECKING:
    from typing import BinaryIO

    from graphsearch.exchange.importing import FileReport
    from graphsearch.exchange.sources import FileProgress, GivenFile

ENDINGS = {".pgn": "pgn", ".bin": "polyglot", ".epd": "epd", ".fen": "epd"}
NOUNS = {"pgn": "game", "polyglot": "entry", "epd": "position"}

Depth = Annotated[
    int | None,
    option("--depth N", "Of PGN: count only the first N half-moves of a game, by its move numbers.", min=1),
]


@command(
    "Import games, Polyglot books and positions into a graph file.",
    "graphsearch import first.graph games.pgn",
    "graphsearch import books.graph games.pgn --players",
    "graphsearch import first.graph book.bin",
    "graphsearch import games.graph games.pgn --players --variations --depth 40 --json",
    name="import",
)
def import_files(
    files: Annotated[list[str], argument("FILE...", "Files, plain, .gz or .zst; - for standard input.")],
    store: StoreToMake,
    form: Annotated[
        str | None,
        option("--format FORMAT", "pgn, polyglot (.bin) or epd; by default the ending of each file says it."),
    ] = None,
    variations: Annotated[
        bool, option("--variations", "Of PGN: also count the moves of variations, in a separate column.")
    ] = False,
    depth: Depth = None,
    players: Annotated[
        bool,
        option(
            "--players",
            "Of PGN: also keep the games: names, Elo, date, event, result, moves, comments and variations; "
            "also of files that were imported before without them.",
        ),
    ] = False,
    again: Annotated[bool, option("--again", "Import files again that were imported before.")] = False,
    json: Json = False,
) -> None:
    """Import games (PGN), books (Polyglot, .bin) or positions (EPD) into a graph file.

    Games: how often each move was played, and with which results, goes into separate tables; the search graph
    does not change. A game that python-chess reads is read. One with an illegal move, or a word that could be
    a move, is reported with its line and not counted; other words and unreadable tags are reported. Games of
    other variants are counted by variant and skipped. With --players, `players`,
    `prepare` and `games --list` work; without it nothing is kept of who played. A file that was imported
    without it is read once more, only for that: its games count no second time.

    Books: every entry, unchanged. A book identifies positions only by their keys; their FENs are looked up in
    the graph file and by following the moves of the book.

    A file that was imported before is recognised by its bytes and skipped. After Ctrl-C or a kill, repeat the
    command to resume. Exit code 1 if a file cannot be read, or nothing of it counts.

    JSON: for each of `files`, `taken` and `skipped` count all of it, `new_taken` and `new_skipped` only
    what is of this call; `players` counts games whose players were kept in this call; `problems` has the line
    and reason of everything broken.
    """
    forms = {form or _format(name) for name in files}
    form = forms.pop()
    if forms or form not in NOUNS:
        raise typer.BadParameter("give files of one format, or name it: --format pgn, polyglot or epd")
    if form != "pgn" and (variations or players or depth is not None):
        raise typer.BadParameter("--variations, --players and --depth are options of PGN files")
    if form == "pgn":
        from graphsearch.exchange.pgn_import import import_pgn

        work: Callable[..., list[FileReport]] = partial(
            import_pgn, variations=variations, max_ply=depth, players=players
        )
    elif form == "polyglot":
        from graphsearch.exchange.polyglot_import import import_polyglot as work
    else:
        from graphsearch.exchange.epd_import import import_epd as work
    _import(files, store, work, NOUNS[form], again=again, json=json)


def _format(name: str) -> str:
    """Returns the format of a file by its ending; PGN for standard input and other endings.

    >>> _format("book.bin"), _format("games.pgn.zst"), _format("-")
    ('polyglot', 'pgn', 'pgn')
    """
    return ENDINGS.get(unpacked(name).suffix.lower(), "pgn")


def unpacked(name: str) -> Path:
    """Returns the path of a file without the ending of its compression."""
    path = Path(name)
    return path.with_suffix("") if path.suffix.lower() in (".gz", ".zst") else path


def _import(
    files: list[str],
    store: Path,
    work: Callable[..., list[FileReport]],
    noun: str,
    *,
    again: bool,
    json: bool,
) -> None:
    from graphsearch.store.store import Store
    from graphsearch.store.tables.games import imported

    given = [given_file(name) for name in files]
    if files.count("-") > 1:
        raise typer.BadParameter("standard input (-) can be given only once")
    with StopSignals("Stopping: saving the import...\n") as signals, titled_bar("Reading", title) as show:
        if "-" not in files:  # Ctrl-C has to end a read from a pipe at once; the counts so far are saved
            signals.arm()
        reports = work(store, given, again=again, stop=signals.stop, on_progress=show)
    left = files[len(reports) :]
    if json:
        with Store.open(store, read_only=True) as opened:
            found = imported(opened).as_dict()
        del found["sources"]
        print_json({"store": str(store), "files": [r.as_dict() for r in reports], "not_read": left, **found})
    for report in reports:
        _say_problems(report, noun)
        if not json and not report.error:
            print(_summary(report, noun))
    if signals.stop.is_set() and (left or any(report.state == "stopped" for report in reports)):
        taken = sum(report.new for report in reports)
        say(f"Saved: {number_of(taken, noun)}. Repeat the command to resume.")
        raise typer.Exit(signals.exit_code)
    if any(report.failed for report in reports):
        raise typer.Exit(FAILED)


def number_of(number: int, noun: str) -> str:
    """Returns a number with its noun.

    >>> number_of(1, "entry"), number_of(2, "entry"), number_of(2, "game")
    ('1 entry', '2 entries', '2 games')
    """
    return count(number, noun, "entries" if noun == "entry" else "")


def given_file(name: str) -> GivenFile:
    """Returns a file named on the command line, `-` for standard input.

    Raises:
      InputFileError: if the name is not a file's.
    """
    from graphsearch.exchange.sources import STDIN, GivenFile, check_file

    if name != STDIN:
        check_file(name)
        return GivenFile(name)
    return GivenFile(name, cast("BinaryIO", sys.stdin.buffer))


def _say_problems(report: FileReport, noun: str) -> None:
    place = "entry" if report.kind == "polyglot" else "line"
    problems = [f"{report.name}, {place} {one.place}: {one.reason}" for one in report.problems]
    for line in problem_lines(problems, len(problems)):
        say(line)
    for name, number in report.variants.items():
        games = number_of(number, noun)
        say(f"{report.name}: {games} of {name} skipped; only standard chess and Chess960 can be searched")
    for note in report.notes:
        say(f"note: {report.name}: {note}")
    if report.error:
        kept = f"; {number_of(report.new, noun)} before that were kept" if report.new else ""
        say(f"graphsearch: {report.error}{kept}")


def _summary(report: FileReport, noun: str) -> str:
    taken = number_of(report.taken, noun)
    if report.state == "known":
        return f"{report.name}: imported before ({taken}); --again imports it again"
    if report.state == "players":
        kept = number_of(report.players, noun)
        return f"{report.name}: imported before ({taken}); players of {kept} added; {report.seconds:.1f} s"
    broken, others = report.new_skipped - sum(report.variants.values()), Counter(report.variants)
    skipped = [f"{broken:,} broken"] if broken > 0 else []
    skipped += [f"{number:,} of {name}" for name, number in others.items()]
    tail = f", skipped: {', '.join(skipped)}" if skipped else ""
    before = f" ({report.new_taken:,} of them now)" if report.new_taken < report.taken else ""
    pace = f", {report.new / report.seconds:,.0f} per second" if report.seconds > 0 else ""
    return f"{report.name}: {taken} imported{before}{tail}; {report.seconds:.1f} s{pace}"


def title(now: FileProgress) -> str:
    """Returns the current step of an import; the bar counts bytes."""
    rate = f", {now.count:,}, {now.rate:,.0f}/s" if now.count else ""
    return f"{now.stage} {now.name}{rate}"
