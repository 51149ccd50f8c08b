"""`graphsearch review`: every position of games searched, every move judged."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .commands import command, command_line
from .export_summary import STDOUT, opened_target
from .imports import given_file
from .options import EvaluatorOptions, Json, Ram, StoreToMake, closing, graph_ram
from .output import FAILED, print_json, print_view, say
from .progress import titled_bar
from .render import count, rate
from .review_view import moments_table, players_table, problem_lines, report_lines, unlisted_lines
from .signals import StopSignals

if TYPE_CHECKING:
    from graphsearch.book.review.games import GameChoice
    from graphsearch.book.review.results import GameReview
    from graphsearch.book.review.review import ReviewSettings
    from graphsearch.book.review.review_report import ReviewProgress, ReviewReport
    from graphsearch.evaluators.factory import EvaluatorSpec
    from graphsearch.evaluators.protocol import Evaluator
    from graphsearch.search.params import SearchParams

PACKED = {".gz", ".zst"}
_STOPPING = "Stopping: finishing the wave and saving...\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOptions:
    """The choice of games."""

    game: Annotated[
        list[int] | None,
        typer.Option("--game", metavar="K", min=1, help="Only this game of the file. May be repeated."),
    ] = None
    player: Annotated[
        str | None,
        typer.Option(
            "--player",
            metavar="NAME",
            help="Only games of this player: every word of NAME is a part of the name, in any case.",
        ),
    ] = None
    color: Annotated[
        str | None, typer.Option("--color", metavar="white|black", help="That the player has.")
    ] = None
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="DATE", help="Only games since 2024, 2024-05 or 2024-05-17."),
    ] = None

    def choice(self) -> GameChoice:
        """Returns the choice for a review.

        Raises:
          InvalidParameterError: for a wrong color or date.
        """
        from graphsearch.book.review.games import GameChoice, read_since

        return GameChoice(
            player=self.player or "",
            color=self.color or "",
            since=None if self.since is None else read_since(self.since),
            games=frozenset(self.game or ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of one call."""

    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Games in PGN, plain, .gz or .zst; - for standard input.", show_default=False
        ),
    ]
    store: StoreToMake
    visits: Annotated[
        int, typer.Option("--visits", metavar="N", min=10, help="Visits of every position.")
    ] = 1000
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="The annotated games; - for stdout. By default NAME-reviewed.pgn beside NAME.pgn.",
        ),
    ] = None
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="OUT", help="Also write a report, one file of HTML; - for stdout."),
    ] = None
    choice: ChoiceOptions
    strip: Annotated[
        bool, typer.Option("--strip", help="Leave out the comments, variations and glyphs of the source.")
    ] = False
    ram: Ram = None
    evaluator: EvaluatorOptions
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", metavar="NAME=VALUE", help="A search parameter such as CPuct=2; may be repeated."
        ),
    ] = None
    json: Json = False


@command(
    "Review games: search every position, judge every move.",
    "graphsearch review games.pgn --store first.graph --visits 400 -o reviewed.pgn",
    'graphsearch review games.pgn --store first.graph --player "Carlsen" --since 2024 --html report.html',
    scores=True,
)
def review(request: Request) -> None:
    """Give every position of games N visits, and write what that says of their moves.

    The annotated games have an evaluation of every move, ?!, ? and ?? for moves that lose 0.1, 0.2 and 0.3 of
    Q, ! for an only good move, the better line as a variation, and N for the first move that no imported game
    has played. Both sides are judged, whatever --player says. A table has the accuracy, the mean loss and the
    marks of every player.

    A position that has its visits in the graph file costs nothing, so games that share moves share work, and
    after Ctrl-C or a kill the same command resumes. Files are written at the end, whole. Broken games are
    reported with their lines and left out. Exit code 1 if the file cannot be read, or none of its games can
    be reviewed.

    JSON: `games` has every move, seen by White; `players` and `problems` as in the tables.
    """
    from graphsearch.book.review.review import ReviewSettings

    output = request.output or default_output(request.file)
    printed = {"-o -": output == STDOUT, "--html -": request.html == STDOUT, "--json": request.json}
    if sum(printed.values()) > 1:
        both = " and ".join(name for name, prints in printed.items() if prints)
        raise typer.BadParameter(f"{both} print on stdout, which takes one of them; name a file")
    choice = request.choice.choice()
    with ExitStack() as files:
        evaluator, params = _compiled(request, files)
        settings = ReviewSettings(
            visits=request.visits,
            choice=choice,
            pgn=files.enter_context(opened_target(output)) if output else None,
            html=files.enter_context(opened_target(request.html)) if request.html else None,
            bare=request.strip,
            params=params,
        )
        games: list[GameReview] = []
        code, report = _reviewed(request, settings, evaluator, games)
    _print(request, report, games, table=STDOUT not in (output, request.html))
    if report.stopped:
        say(_stopped_line(request, report))
        raise typer.Exit(code)
    if report.failed:
        say(f"graphsearch: none of the {count(report.chosen, 'chosen game')} can be reviewed")
        raise typer.Exit(FAILED)


def default_output(name: str) -> str | None:
    """Returns the default file of the annotated games; None for standard input.

    >>> default_output("games/my.pgn"), default_output("my.pgn.zst"), default_output("-")
    ('games/my-reviewed.pgn', 'my-reviewed.pgn', None)
    """
    if name == STDOUT:
        return None
    path = Path(name)
    path = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return str(path.with_name(f"{path.stem}-reviewed.pgn"))


def _compiled(request: Request, stack: ExitStack) -> tuple[Evaluator | EvaluatorSpec, SearchParams]:
    """Returns the evaluator, for a cluster its spec, and the parameters, after compiling the kernels."""
    from graphsearch.search.params import SearchParams
    from graphsearch.store.sharded.manifest import is_sharded

    from .analyze import compile_search
    from .analyze_shards import compile_shards

    if is_sharded(request.store):
        spec, others = request.evaluator.spec(request.param or ())
        params = SearchParams.from_options(others)
        compile_shards(spec)
        return spec, params
    evaluator, others = request.evaluator.create(request.param or ())
    stack.enter_context(closing(evaluator))
    params = SearchParams.from_options(others)
    compile_search(evaluator, params, filed=True)
    return evaluator, params


def _reviewed(
    request: Request,
    settings: ReviewSettings,
    evaluator: Evaluator | EvaluatorSpec,
    games: list[GameReview],
) -> tuple[int, ReviewReport]:
    """Returns the exit code of a signal, and the report; adds the games to print to `games`."""
    from graphsearch.book.review.review import review as review_games
    from graphsearch.search.warm import paging_kernels_compiling

    given = given_file(request.file)

    def keep(game: GameReview) -> None:
        if request.json or not games:
            games.append(game)

    with StopSignals(_STOPPING) as signals, titled_bar("Reading", title) as show:
        if given.stream is None:  # a read from a pipe has to end at once
            signals.arm()
        with paging_kernels_compiling():
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
        return signals.exit_code, report


def _print(request: Request, report: ReviewReport, games: list[GameReview], *, table: bool) -> None:
    """Prints the report: data on stdout, messages on stderr."""
    for line in problem_lines(report):
        say(line)
    if request.json:
        found: dict[str, Any] = report.as_dict()
        print_json(found | {"games": [game.as_dict() for game in games]})
    elif table and report.reviewed:
        print_view(lambda width: players_table(report, width))
        if report.reviewed == 1 and any(move.glyph for move in games[0].moves):
            print()
            print_view(lambda width: moments_table(games[0], width))
        for line in unlisted_lines(report):
            print(line)
        print()
    for line in report_lines(report):
        print(line) if table and not request.json else say(line)


def _stopped_line(request: Request, report: ReviewReport) -> str:
    return (
        f"Saved: {count(report.searched, 'position')} searched; no file was written."
        f" Resume with: {command_line('review', request)}"
    )


def title(now: ReviewProgress) -> str:
    """Returns the title of the progress bar, which counts bytes, visits or games."""
    pace = f", {rate(now.rate)} visits/s" if now.count else ""
    return f"{now.stage} {now.name}{pace}"
