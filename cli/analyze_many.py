"""`graphsearch analyze` over many positions: every one of games, or a set in EPD."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from io import BufferedReader, BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated, cast

import typer

from .commands import command_line
from .compiling import compiled
from .options import (
    EvaluatorOptions,
    Json,
    Lines,
    Param,
    PositionOptions,
    Ram,
    StoreToSave,
    Time,
    Workers,
    graph_ram,
    option,
)
from .output import FAILED, NOT_SAVED, print_json, print_parts, say
from .progress import titled_bar
from .render import (
    FILL,
    LEFT,
    WHOLE,
    Part,
    count,
    detailed,
    game_text,
    heading,
    is_white,
    move_number,
    numbered,
    rate,
    score,
    signed,
    table,
)
from .signals import StopSignals

if TYPE_CHECKING:
    from graphsearch.book.review.results import GameReview, MoveReview
    from graphsearch.book.review.sets import SetProgress, SetReport, SetRow
    from graphsearch.evaluators.factory import EvaluatorSpec
    from graphsearch.evaluators.protocol import Evaluator
    from graphsearch.exchange.epd_import import SetLine
    from graphsearch.search.params import SearchParams
STDIN = "-"
KINDS = {"Line": LEFT, "Id": WHOLE, "Wanted": WHOLE, "Best": WHOLE, "Solved": LEFT, "PV": FILL}
SPARE = ("Visits", "Line", "PV", "Solved after", "Wanted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of one call."""

    position: PositionOptions
    store: StoreToSave = None
    visits: Annotated[int | None, option("--visits N", "Stop after N more visits of the position.")] = None
    evaluations: Annotated[int | None, option("--evaluations N", "Stop after N evaluations.")] = None
    time: Time = None
    ram: Ram = None
    workers: Workers = None
    lines: Lines = 5
    evaluator: EvaluatorOptions
    param: Param = None
    every: Annotated[bool, option("--all", "Of a PGN file: every position of its games in turn.")] = False
    output: Annotated[
        str | None,
        option(
            "-o --output OUT",
            "Of games: write them with evaluations, marks and better lines to this PGN file. Of an EPD file: "
            "write its lines with results.",
        ),
    ] = None
    searchmoves: Annotated[
        str | None,
        option("--searchmoves MOVES", 'Search only these moves of the position: "e4 d4" or "e2e4 d2d4".'),
    ] = None
    json: Json = False


def is_set(request: Request) -> bool:
    """Returns whether a request is for all positions of an EPD file."""
    from graphsearch.position.notation import holds_positions

    position = request.position
    return not position.given and (position.position == STDIN or holds_positions(position.position))


def from_stdin(request: Request) -> Request:
    """Returns a request with the moves or the game on standard input; unchanged if it has lines of positions.

    Raises:
      typer.BadParameter: if standard input is empty.
    """
    from graphsearch.base.limits import LINE, check_size
    from graphsearch.position.notation import begins_with_fen

    stream = BufferedReader(BytesIO()) if sys.stdin is None else cast("BufferedReader", sys.stdin.buffer)
    if not request.position.given and begins_with_fen(stream.peek()[:1000].decode("utf-8", "replace")):
        return request
    data = stream.read(LINE.most + 1)
    check_size(len(data), LINE, "standard input")
    text = data.decode("utf-8-sig", "replace").strip()
    if not text:
        raise typer.BadParameter("standard input is empty; give moves, a game or positions")
    position = request.position
    if "\n" in text or text.startswith("["):
        with NamedTemporaryFile(suffix=".pgn") as file:
            file.write(data)
            file.flush()
            text = game_text(position.board_after(file.name))
            position = PositionOptions()
    return replace(request, position=replace(position, position=text))


def analyze_many(request: Request) -> None:
    """Searches every position of games, or of a set.

    Raises:
      typer.BadParameter: for an option that applies to one position only.
    """
    if request.searchmoves is not None:
        raise typer.BadParameter("--searchmoves works for one position only, not for a file of them")
    if is_set(request):
        _analyze_set(request)
    else:
        _analyze_games(request)


def _analyze_games(request: Request) -> None:
    """Reviews the games of a file, or one of them, and prints every move."""
    from . import review

    position = request.position
    if request.store is None:
        raise typer.BadParameter("--all needs a graph file to save to: --store FILE")
    if (position.moves, position.ply) != (None, None) or not Path(position.position).is_file():
        raise typer.BadParameter("--all needs a PGN file; --game K selects one of its games")
    asked = review.Request(
        file=position.position,
        store=request.store,
        visits=request.visits,
        evaluations=request.evaluations,
        time=request.time,
        output=request.output,
        game=None if position.game is None else [position.game],
        ram=request.ram,
        workers=request.workers,
        evaluator=request.evaluator,
        param=request.param,
        json=request.json,
    )
    review.run_review(asked, resume=command_line("analyze", request), every=_game_parts)


def _game_parts(game: GameReview) -> Iterator[Part]:
    """Yields all moves of a game, values seen by White."""
    from .review import game_lines

    yield f"Game {game.number}, {game.player(True)} - {game.player(False)}"
    yield from game_lines(game)
    yield table(map(_move_cells, game.moves), {"Move": WHOLE, "Best": WHOLE}, spare=("Visits", "Its score"))
    yield ""


def _move_cells(move: MoveReview) -> dict[str, str]:
    from .review import value_text

    return {
        "Move": f"{move_number(move.number, white=move.white)} {move.san}{move.glyph}",
        "Best": move.best_san,
        "Its score": value_text(move.best_cp, move.best_mate, white=move.white),
        "Score": value_text(move.cp, move.mate, white=move.white),
        "Loss %": f"{50 * move.loss:.1f}" if move.loss else "",
        "Visits": f"{move.n:,}",
        **detailed({"Q before": f"{move.best_q:+.3f}", "Q after": f"{move.q:+.3f}"}),
    }


# ---------------------------------------------------------------- sets
def _analyze_set(request: Request) -> None:
    from graphsearch.base.limits import open_file
    from graphsearch.book.review.sets import read_lines
    from graphsearch.exchange.output import check_target

    name = request.position.position
    output = Path(request.output) if request.output else None
    check_target(output, store=request.store, source=Path(name))
    with nullcontext(sys.stdin.buffer) if name == STDIN else open_file(name, piped=True) as file:
        lines, problems = read_lines(file, name)
    for problem in problems:
        say(f"graphsearch: line {problem.place}: {problem.reason}")
    for given in lines:
        for fault in given.faults:
            say(f"graphsearch: line {given.number}: {fault}")
    rows: list[SetRow] = []
    with ExitStack() as stack, StopSignals() as signals:
        evaluator, params = compiled(
            request.evaluator, request.param, request.store, stack, workers=request.workers
        )
        signals.arm()
        report = _searched(request, lines, (evaluator, params), signals, rows)
    if not request.json:
        print_parts([f"({heading()})", table(map(_cells, rows), KINDS, spare=SPARE)])
    for line in _report_lines(request, report, skipped=len(problems), output=output):
        say(line)
    if signals.exit_code or problems:
        raise typer.Exit(signals.exit_code or FAILED)


def _searched(
    request: Request,
    lines: list[SetLine],
    engine: tuple[Evaluator | EvaluatorSpec, SearchParams],
    signals: StopSignals,
    rows: list[SetRow],
) -> SetReport:
    """Returns the report of a set; prints its rows as JSON, or adds them to `rows`."""
    from graphsearch.book.review.sets import SetSettings, search_set
    from graphsearch.search.params import Limits

    from .review import limits_of

    def keep(row: SetRow) -> None:
        if request.json:
            print_json(row.as_dict())
        else:
            rows.append(row)

    settings = SetSettings(
        limits=Limits(**limits_of(request.visits, request.evaluations, request.time)),
        params=engine[1],
        workers=request.workers,
        pool=request.evaluator.pool,
        output=Path(request.output) if request.output else None,
    )
    with titled_bar("Reading", _title) as show:
        return search_set(
            request.store,
            lines,
            settings,
            evaluator=engine[0],
            ram_bytes=graph_ram(request.ram),
            stop=signals.stop,
            on_progress=show,
            on_row=keep,
        )


def _title(now: SetProgress) -> str:
    return f"{now.name}, {now.solved:,} solved, {rate(now.rate)} evaluations/s"


def _cells(row: SetRow) -> dict[str, str]:
    white = is_white(row.position)
    after = "" if row.solved_seconds is None else f"{row.solved_evaluations:,} ({row.solved_seconds:.2f} s)"
    return {
        "Line": str(row.line),
        "Id": row.id,
        "Wanted": row.wanted,
        "Best": row.pv[0] if row.pv else "",
        "Solved": "" if row.solved is None else "yes" if row.solved else "no",
        "Points": "" if row.points is None else f"{row.points} of {row.most_points}",
        "Score": score(row.cp, row.mate, white=white),
        "Visits": f"{row.visits:,}",
        "Solved after": after,
        **detailed({"Q": signed(row.q, white=white), "Spent": f"{row.evaluations:,}"}),
        "PV": numbered(row.position, row.pv),
    }


def _report_lines(request: Request, report: SetReport, *, skipped: int, output: Path | None) -> Iterator[str]:
    yield from (f"note: {note}" for note in report.notes)
    if report.judged:
        points = f"; {report.points:,} of {report.most_points:,} points" if report.most_points else ""
        yield f"solved: {report.solved:,} of {report.judged:,}{points}"
    left_out = f", {count(skipped, 'line')} left out" if skipped else ""
    yield (
        f"{count(report.searched, 'position')} searched, {report.known:,} known before{left_out};"
        f" {report.evaluations:,} evaluations, {report.seconds:.1f} s"
    )
    if report.stopped:
        yield f"No file was written. Resume with: {command_line('analyze', request)}"
    elif output is not None:
        yield f"{output}: {count(report.done, 'position')}"
    if request.store is None:
        yield NOT_SAVED
