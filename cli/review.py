"""`graphsearch review`: searches every position of games and judges every move."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from graphsearch.book.review.games import GameChoice, read_since
from graphsearch.book.review.judging import GameReview, MoveReview, Player
from graphsearch.book.review.review import ReviewReport, ReviewSettings
from graphsearch.book.review.review import review as review_games
from graphsearch.exchange.sources import FileProgress
from graphsearch.search.params import Limits
from graphsearch.search.warm import other_kernels_compiling

from .commands import command
from .exports import STDOUT, opened_target
from .games import given_file, unpacked
from .options import (
    EvaluatorOptions,
    Json,
    Param,
    Ram,
    Side,
    Since,
    StoreToMake,
    TimeEach,
    Workers,
    argument,
    graph_ram,
    option,
    side_of,
)
from .output import command_text, fail, print_json, print_parts, problem_lines, say
from .progress import compiled, titled_bar
from .render import move_number
from .signals import StopSignals
from .tables import FILL, NAME, WHOLE, Part, Table, count, heading, rate, score

MAX_PLAYERS = 40
DEFAULT_VISITS = 1000  # of every position, if no limit is named
PLAYER_SPARE = ("Opening", "Middlegame", "Endgame", "!", "Loss", "Games", "Moves", "Loss %")
GameParts = Callable[[GameReview], Iterable[Part]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of one call."""

    file: Annotated[str, argument("FILE", "Games in PGN, plain, .gz or .zst; - for standard input.")]
    store: StoreToMake
    visits: Annotated[
        int | None, option("--visits N", "Visits of every position; 1,000 if no limit is named.", min=10)
    ] = None
    evaluations: Annotated[
        int | None, option("--evaluations N", "Most evaluations for every position.", min=1)
    ] = None
    time: TimeEach = None
    output: Annotated[
        str | None,
        option(
            "-o --output OUT",
            "The annotated games, - for stdout; by default NAME-reviewed.pgn beside NAME.pgn.",
        ),
    ] = None
    game: Annotated[
        list[int] | None, option("--game K", "Only this game of the file. May be repeated.", min=1)
    ] = None
    player: Annotated[
        str | None,
        option(
            "--player NAME",
            "Only games of this player: every word of NAME is a part of the name, in any case.",
        ),
    ] = None
    side: Side = None
    since: Since = None
    strip: Annotated[
        bool, option("--strip", "Leave out the comments, variations and glyphs of the source.")
    ] = False
    ram: Ram = None
    workers: Workers = None
    evaluator: EvaluatorOptions
    param: Param = None
    json: Json = False


@command(
    "graphsearch review games.pgn --store first.graph --visits 400 -o reviewed.pgn",
    'graphsearch review games.pgn --store first.graph --player "Carlsen" --since 2024 -o won.pgn',
    views=True,
)
def review(request: Request) -> int:
    """Search every position of games, each within the limits, and write what that says of their moves.

    The annotated games have an evaluation of every move, ?!, ? and ?? for moves that lose 5, 10 and 15 % of
    the expected score, ! for an only good move, the better line as a variation, and N for the first move that
    no imported game has played. Both sides are judged, whatever --player says. A table has the accuracy, the
    mean loss and the marks of every player.

    A position that has its visits in the graph file, or had its evaluations or time, costs nothing, so games
    that share moves share work, and after Ctrl-C or a kill the same command resumes. The games are written at
    the end, whole. Broken games are reported with their lines and left out. Exit code 1 if the file cannot be
    read, or none of its games can be reviewed.

    JSON: `games` has every move, seen by White; `players` and `problems` as in the tables.
    """
    return run_review(request)


def run_review(request: Request, *, every: GameParts | None = None) -> int:
    """Reviews games; returns the exit code.

    `every`: makes the output of a game, which replaces the figures; then only a named file is written.
    """
    output = request.output or (default_output(request.file) if every is None else None)
    if request.json and output == STDOUT:
        raise typer.BadParameter("-o - and --json print on stdout, which takes one of them; name a file")
    choice = GameChoice(
        player=request.player or "",
        color=side_of(request.side) or "",
        since=None if request.since is None else read_since(request.since),
        games=frozenset(request.game or ()),
    )
    games: list[GameReview] = []

    def keep(game: GameReview) -> None:
        if request.json or every or not games:
            games.append(game)

    given = given_file(request.file)
    with ExitStack() as files:
        evaluator, params = compiled(
            request.evaluator, request.param, request.store, files, workers=request.workers
        )
        settings = ReviewSettings(
            limits=limits_of(request.visits, request.evaluations, request.time),
            choice=choice,
            pgn=files.enter_context(opened_target(output)) if output else None,
            bare=request.strip,
            params=params,
            workers=request.workers,
            pool=request.evaluator.pool,
        )
        signals = files.enter_context(StopSignals())
        show = files.enter_context(titled_bar("Reading", title))
        if given.stream is None:  # Ctrl-C has to end a read from a pipe at once
            signals.arm()
        with other_kernels_compiling():
            report = review_games(
                request.store,
                given,
                settings,
                evaluator=evaluator,
                ram_bytes=graph_ram(request.ram),
                stop=signals.stop,
                on_progress=show,
                on_game=keep,
            )
    _print(request, report, games, table_wanted=output != STDOUT, every=every)
    if report.stopped:
        say(f"Saved: {count(report.searched, 'position')} searched; no file was written.")
        say(f"Resume with: {command_text()}")
        return signals.exit_code
    if report.failed:
        several = report.chosen > 1
        chosen = f"none of the {report.chosen:,} chosen games can" if several else "the chosen game cannot"
        return fail(f"{chosen} be reviewed")
    return 0


def limits_of(visits: int | None, evaluations: int | None, seconds: float | None) -> Limits:
    """Returns the limits of each position; without any, `DEFAULT_VISITS`."""
    if (visits, evaluations, seconds) == (None, None, None):
        visits = DEFAULT_VISITS
    return Limits(visits=visits, evaluations=evaluations, seconds=seconds)


def default_output(name: str) -> str | None:
    """Returns the default file of the annotated games; None for standard input.

    >>> default_output("games/my.pgn"), default_output("my.pgn.zst"), default_output("-")
    ('games/my-reviewed.pgn', 'my-reviewed.pgn', None)
    """
    if name == STDOUT:
        return None
    path = unpacked(name)
    return str(path.with_name(f"{path.stem}-reviewed.pgn"))


def _print(
    request: Request,
    report: ReviewReport,
    games: list[GameReview],
    *,
    table_wanted: bool,
    every: GameParts | None,
) -> None:
    """Prints the report: data on stdout, messages on stderr."""
    problems = [f"{report.name}, line {one.place}: {one.reason}" for one in report.problems]
    notes = [f"note: {report.name}: {note}" for note in report.notes]
    for lines in (problems, notes):
        for line in problem_lines(lines, len(lines)):
            say(line)
    if request.json:
        found: dict[str, Any] = report.as_dict()
        print_json(found | {"games": [game.as_dict() for game in games]})
    elif table_wanted and every:
        for game in games:
            print_parts(every(game))
    elif table_wanted and report.reviewed:
        rows = map(_player_cells, report.players.listed()[:MAX_PLAYERS])
        print_parts([Table(rows, {"Player": NAME}, spare=PLAYER_SPARE)])
        if report.reviewed == 1 and any(move.glyph for move in games[0].moves):
            cells = [_moment_cells(move) for move in games[0].moves if move.glyph]
            marked = Table(cells, {"Move": WHOLE, "Better": FILL}, spare=("Its score", "Better", "Loss %"))
            print_parts(["", *game_lines(games[0]), marked])
        unlisted = len(report.players.listed()) - MAX_PLAYERS
        if unlisted > 0:
            print(f"and {unlisted:,} more players; --json has all")
        print()
    for line in _report_lines(report):
        print(line) if table_wanted and not request.json else say(line)


def title(now: FileProgress) -> str:
    """Returns the title of the progress bar, which counts bytes, visits or games."""
    pace = f", {rate(now.rate)} visits/s" if now.count else ""
    return f"{now.stage} {now.name}{pace}"


# ------------------------------------------------------------------ tables and lines


def _player_cells(player: Player) -> dict[str, str]:
    found = player.all
    return {
        "Player": player.name,
        "Games": f"{player.games:,}",
        "Moves": f"{found.moves:,}",
        "Accuracy": _decimal(found.accuracy),
        "Loss %": _decimal(found.mean_loss),
        "Loss": "" if found.mean_loss_cp is None else f"{found.mean_loss_cp / 100:.2f}",
        "??": str(found.blunders),
        "?": str(found.mistakes),
        "?!": str(found.inaccuracies),
        "!": str(found.good),
        **{phase.capitalize(): _decimal(of.accuracy) or "-" for phase, of in player.phases.items()},
    }


def _decimal(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def game_lines(game: GameReview) -> list[str]:
    """Returns the lines with the opening of a game and the view of its scores."""
    opening = [f"Opening: {game.opening}"] if game.opening else []
    return [*opening, f"({heading()})"]


def _moment_cells(move: MoveReview) -> dict[str, str]:
    better = move.better if move.loss else ""
    return {
        "Move": f"{move_number(move.number, white=move.white)} {move.san}{move.glyph}",
        "Score": value_text(move.cp, move.mate, white=move.white),
        "Loss %": f"{50 * move.loss:.1f}" if move.loss else "",
        "Better": better,
        "Its score": value_text(move.best_cp, move.best_mate, white=move.white) if better else "",
    }


def value_text(cp: int, mate: int | None, *, white: bool) -> str:
    """Returns a score, given from White's view, in the shown view."""
    if mate == 0:
        return "mate"
    shown = None if mate is None else round(mate if white else -mate)
    return score(cp if white else -cp, shown, white=white)


def _report_lines(report: ReviewReport) -> Iterator[str]:
    """Yields the report line by line."""
    skipped = f", {report.skipped:,} skipped" if report.skipped else ""
    yield (
        f"{count(report.reviewed, 'game')} reviewed{skipped}; {count(report.searched, 'position')} searched,"
        f" {report.known:,} known before; {report.new_visits:,} visits, {report.evaluations:,} evaluations,"
        f" {report.seconds:.1f} s"
    )
    if report.output is not None:
        yield f"Written: {report.output}"
