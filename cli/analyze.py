"""`graphsearch analyze`, `review` and `watch`: searches of one position, of many, and of several in turn."""

from __future__ import annotations

import sys
import time as clocks
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import chess
import typer

from graphsearch.base.errors import EvaluatorError, UnsavedError
from graphsearch.base.limits import LINE, check_size
from graphsearch.evaluators.uci.program import find_program
from graphsearch.graph.graph import Graph
from graphsearch.graph.view import NodeView, view
from graphsearch.position.board import MAX_MOVES, board_of
from graphsearch.position.notation import begins_with_fen, holds_positions, read_moves, sans_of
from graphsearch.position.values import cp_of
from graphsearch.query.brief import Brief, brief
from graphsearch.query.routes import routes
from graphsearch.query.source import Records
from graphsearch.search.detached import ROUND_SECONDS, Turns, open_searches, search_in_turns
from graphsearch.search.job import Control, SearchJob
from graphsearch.search.loop import search
from graphsearch.search.params import Limits, SearchParams
from graphsearch.search.results import Progress, SearchResult, TableLine
from graphsearch.search.warm import other_kernels_compiling
from graphsearch.solvers.mate.beside import MateFinder
from graphsearch.store.file import file_bytes
from graphsearch.store.store import Store

from . import options, tables
from . import output as out
from .progress import StopSignals, compile_search, compiled, progress_display, titled_bar
from .render import brief_parts, game_text, move_number, node_parts, numbered, opening_line, way_text

if TYPE_CHECKING:
    from graphsearch.book.review.review import GameReview, MoveReview, Player, ReviewReport, Value
    from graphsearch.book.review.sessions import SetReport, SetRow

STRONGER = "Stockfish is installed: in a new file --evaluator nnue:stockfish finds better moves sooner."
REASONS = {  # why a search ended before its limit
    "memory": "The search ended because its memory is full; a larger --ram holds more.",
    "proven": "The search ended because the result is proven.",
    "exhausted": "The search ended because nearly every position it can reach is known.",
    "reader": out.ENDED_BY_READER,
}


def analyze(request: Request) -> int:
    """Search a position and print the best lines; with --store, resume from a graph file and save to it.

    The search stops at the first limit it reaches, or at Ctrl-C. Limits count new work only.

    With --all, every position of the games in a PGN file is searched; a table has every move, the best one,
    and what it lost. Of a file with a position on each line (EPD), all are searched; --game K takes one of
    them. A table says which are solved (bm, am, dm), their points (STS), and the evaluations and the time
    after which the best move was right and stayed so. In both, limits are those of each position, 1,000
    visits without any, and visits in the file count, so the same command resumes. A line that cannot be read
    is named and left out; exit code 1 then.

    POSITION may be - for standard input: moves, a game in PGN, or positions as of an EPD file.

    JSON: of an EPD file one object for each position.

    \b
    Examples:
      graphsearch analyze first.graph --time 10
      graphsearch analyze "1. e4 e5 2. Nf3" --visits 10k --json
      graphsearch analyze "8/8/8/8/4k3/8/4P3/4K3 w - - 0 1" --evaluations 5000
      graphsearch analyze first.graph games.pgn --game 2 --ply 30 --time 5m
      graphsearch analyze first.graph games.pgn --all --visits 10k -o analyzed.pgn
      graphsearch analyze first.graph positions.epd --time 10 -o solved.epd
    """
    if request.position.position == options.STDIN and not request.every:
        request = from_stdin(request)
    if request.every or is_set(request):
        return analyze_many(request)
    if request.search.workers is not None:
        raise typer.BadParameter("--workers searches several positions, with --all or an EPD file")
    if request.output:
        raise typer.BadParameter("-o writes games, with --all, or the lines of an EPD file")
    chosen = request.search.evaluator.of_file(request.store)
    request = replace(request, search=replace(request.search, evaluator=chosen))
    with StopSignals() as signals:
        try:
            result, said = _search(request, signals)
        except UnsavedError as error:  # the result is still worth printing
            if error.result is not None:
                out.print_answer(error.result, _result_parts(request, error.result, ()))
            raise
        facts = result.as_dict() | {"brief": said.as_dict()}
        out.print_answer(facts, _result_parts(request, result, said.lines))
        sys.stdout.flush()
        for line in _epilogue(request, result):
            out.say(line)
        return signals.exit_code


def _search(request: Request, signals: StopSignals) -> tuple[SearchResult, Brief]:
    """Searches, saves everything and closes the file; returns the result, and what it means."""
    asked = request.search
    evaluator, others = asked.evaluator.create(asked.param or (), request.store)
    starts_file = request.store is not None and not request.store.exists()
    with closing(evaluator):
        limits, params, board = asked.limits, SearchParams.from_options(others), request.position.board()
        out.say_clock(board)
        listed = () if request.searchmoves is None else tuple(read_moves(board, request.searchmoves))
        lines = None if tables.is_json() else request.lines or None  # a line takes a millisecond
        job = SearchJob(
            board=board,
            limits=limits,
            params=params,
            searchmoves=listed,
            lines=lines,
            mates=MateFinder,
        )
        with Graph.open(request.store, evaluator=evaluator, ram_bytes=asked.ram_bytes) as graph:
            compile_search(evaluator, params, filed=request.store is not None, board=board)
            if not limits.as_dict() and not graph.evaluator.best_moves(board):
                out.say("No limit is set; press Ctrl-C to stop.")
            if starts_file and not asked.evaluator.named:
                with suppress(EvaluatorError):
                    find_program("stockfish")
                    out.say(STRONGER)

            def shown(progress: Progress, height: int) -> list[tables.Part]:
                rows = max(1, min(request.lines or MAX_MOVES, height - FRAME_LINES))
                return [*node_parts(progress.node(rows), rows), status_line(progress)]

            signals.arm()
            with (
                other_kernels_compiling() if request.store else nullcontext(),
                progress_display(signals, lambda now: status_line(now).replace("\n", "   "), shown) as draw,
            ):
                result = search(graph, job, Control(on_progress=draw, stop=signals.stop))
            kept = view(graph.read, board, lines=0) if listed else None
            if kept is not None:
                # the visits of listed moves only are not kept at the root: its numbers are those of `show`
                node = replace(result.node, visits=kept.visits, q=kept.q, wdl=kept.wdl)
                result = replace(result, node=node)
            source = Records(request.store or Path(), graph.read, graph.store)
            return result, brief(source, board, node=kept or result.node)


def _result_parts(request: Request, result: SearchResult, said: Sequence[str]) -> Iterator[tables.Part]:
    yield from opening_line(result.opening)
    yield from brief_parts(said)
    if result.tablebase is not None:
        yield tablebase_text(board_of(result.position), result.tablebase)
    yield from node_parts(result.node, request.lines)
    best = "" if result.bestmove is None else f"bestmove {result.bestmove.uci()}   "
    yield f"{best}depth {result.depth}/{result.seldepth}   {result.seconds:.1f} s"
    more = tables.detail(f"   catch-ups {result.catch_ups:,}   collisions {result.collisions:,}")
    yield f"new visits {result.new_visits:,}   evaluations {result.evaluations:,}{more}"


def tablebase_text(board: chess.Board, found: TableLine) -> str:
    """Returns the answer of tablebases to a position, with the line; moves are those of the winner.

    >>> won = chess.Board("7k/8/5KQ1/8/8/8/8/8 w - - 0 1")
    >>> tablebase_text(won, TableLine(1, (chess.Move.from_uci("g6g7"),)))
    'tablebase: White wins, mate or zeroing in 1: 1. Qg7#'
    >>> tablebase_text(won, TableLine(0, ()))
    'tablebase: draw'
    """
    if not found.result:
        return "tablebase: draw"
    wins = board.turn == (found.result > 0)
    plies = len(found.line) + (found.result > 0)
    line = numbered(board.fen(), sans_of(board, found.line))
    return f"tablebase: {'White' if wins else 'Black'} wins, mate or zeroing in {plies // 2}: {line}"


def _epilogue(request: Request, result: SearchResult) -> Iterator[str]:
    """Yields the closing lines: the saved results, the evaluator, and the command that resumes."""
    if result.unkept_visits:
        unkept = tables.count(result.unkept_visits, "visit")
        yield f"{unkept} ended in a draw by repetition of this game's positions; no graph keeps them."
    if result.stop_reason in REASONS:
        yield REASONS[result.stop_reason]
    for problem in result.problems[: out.MOST_DAMAGED]:
        yield f"Damaged record, evaluated again if needed: {problem}"
    if request.store is None:
        yield out.NOT_SAVED
    else:
        held = tables.size(file_bytes(request.store))
        yield f"Saved: {request.store} holds {tables.count(result.nodes, 'node')} ({held})."
    chosen = request.search.evaluator
    if chosen.evaluator in (None, "builtin") and chosen.policy is None and chosen.value is None:
        yield "Evaluated by the built-in evaluator; --evaluator selects another one."
    if request.store is not None:
        yield f"Resume with: {out.command_text()}"


FRAME_LINES = 8  # lines of the live display that are not moves


def status_line(progress: Progress) -> str:
    """Returns the counters of a running search in one line, a second one if it has a file."""
    parts = (
        tables.clock(progress.seconds),
        f"nodes {progress.nodes:,}",
        f"visits/s {tables.rate(progress.visits_per_s)}",
        f"evaluations/s {tables.rate(progress.evaluations_per_s)}",
        tables.detail(f"catch-ups {progress.catch_ups:,}"),
        f"depth {progress.depth}/{progress.seldepth}",
    )
    counters = "   ".join(filter(None, parts))
    if not progress.stored:
        return counters
    share = 100 * progress.resident / max(progress.nodes, 1)
    if progress.loaded:
        done, total = progress.loaded
        read = f"reading the graph: {done:,} of {total:,} nodes ({tables.size(progress.ram_bytes)})"
        return f"{counters}\n{read}   {tables.rate(done / max(progress.seconds, 1e-9))}/s"
    memory = [f"RAM {share:.0f} % of the nodes ({tables.size(progress.ram_bytes)})"]
    memory += [f"read back {progress.read_back:,}"] if progress.read_back else []
    memory += [f"written {progress.saved_nodes:,}"] if progress.saved_nodes else []
    return f"{counters}\n{'   '.join(memory)}"


SET_SPARE = ("Visits", "Line", "PV", "Solved after", "Wanted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of one call.

    Attributes:
      every: --all: Of a PGN file: every position of its games in turn.
      output: -o --output OUT: Of games: write them with evaluations, marks and better lines to this PGN file.
        Of an EPD file: write its lines with results.
      searchmoves: --searchmoves MOVES: Search only these moves of the position: "e4 d4" or "e2e4 d2d4".
    """

    position: options.PositionOptions
    store: options.StoreToSave = None
    search: options.SearchOptions
    lines: options.Lines = 5
    every: bool = False
    output: str | None = None
    searchmoves: str | None = None


def is_set(request: Request) -> bool:
    """Returns whether a request is for all positions of an EPD file."""
    position = request.position
    return not position.given and (position.position == options.STDIN or holds_positions(position.position))


def from_stdin(request: Request) -> Request:
    """Returns a request with the moves or the game on stdin; unchanged if that has lines of positions."""
    stream = cast(BufferedReader, sys.stdin.buffer)
    if not request.position.given and begins_with_fen(stream.peek()[:1000].decode("utf-8", "replace")):
        return request
    data = stream.read(LINE.most + 1)
    check_size(len(data), LINE, "standard input")
    text = data.decode("utf-8-sig", "replace").strip()
    if not text:
        raise typer.BadParameter("standard input is empty; give moves, a game or positions")
    position = request.position
    if "\n" in text or text.startswith("["):
        with TemporaryDirectory() as folder:
            file = Path(folder, "stdin.pgn")
            file.write_bytes(data)
            text = game_text(position.board_after(str(file)))
            position = options.PositionOptions()
    out.typed[:] = [text if word == options.STDIN else word for word in out.typed]  # to be resumed
    return replace(request, position=replace(position, position=text))


def analyze_many(request: Request) -> int:
    """Searches every position of games, or of a set; returns the exit code."""
    if request.searchmoves is not None:
        raise typer.BadParameter("--searchmoves works for one position only, not for a file of them")
    if is_set(request):
        return _analyze_set(request)
    position = request.position
    if request.store is None:
        raise typer.BadParameter("--all needs a graph file to save to: --store FILE")
    if (position.moves, position.ply) != (None, None) or not Path(position.position).is_file():
        raise typer.BadParameter("--all needs a PGN file; --game K selects one of its games")
    asked = ReviewRequest(
        file=position.position,
        store=request.store,
        search=request.search,
        output=request.output,
        game=None if position.game is None else [position.game],
    )
    return run_review(asked, every=True)


def _move_cells(move: MoveReview) -> dict[str, str]:
    return {
        "Move": f"{move_number(move.number, white=move.white)} {move.san}{move.glyph}",
        "Best": move.best_san,
        "Its score": value_text(move.best_value),
        "Score": value_text(move.value),
        "Loss %": f"{50 * move.loss:.1f}" if move.loss else "",
        "Visits": f"{move.n:,}",
        "Q before": f"{move.best_value.q:+.3f}",
        "Q after": f"{move.value.q:+.3f}",
    }


# ---------------------------------------------------------------- sets
def _analyze_set(request: Request) -> int:
    from graphsearch.book.review.sessions import SetSettings, read_lines, search_set
    from graphsearch.exchange.output import check_target

    from .exports import target_of

    name = request.position.position
    output = target_of(request.output) if request.output else None
    check_target(output, store=request.store, source=Path(name))
    with options.open_input(name) as file:
        lines, problems = read_lines(file, name)
    for problem in problems:
        out.fail(f"line {problem.place}: {problem.reason}")
    for given in lines:
        for fault in given.faults:
            out.fail(f"line {given.number}: {fault}")
    rows: list[SetRow] = []
    keep = (lambda row: out.print_json(row.as_dict())) if tables.is_json() else rows.append
    with ExitStack() as stack, StopSignals() as signals:
        evaluator, params = compiled(request.search, request.store, stack)
        settings = SetSettings(output=output, **request.search.settings(params))
        signals.arm()
        title = lambda now: f"{now.name}, {now.count:,} solved, {tables.rate(now.rate)} evaluations/s"  # noqa: E731
        show = stack.enter_context(titled_bar("Reading", title))
        report = search_set(
            request.store,
            lines,
            settings,
            evaluator=evaluator,
            ram_bytes=request.search.ram_bytes,
            stop=signals.stop,
            on_progress=show,
            on_row=keep,
        )
    if not tables.is_json() and request.output != options.STDOUT:
        table = tables.Table(map(_set_cells, rows), {"Line": tables.LEFT}, spare=SET_SPARE)
        out.print_parts([tables.VIEW, table])
    for line in _report_lines(request, report, skipped=len(problems)):
        out.say(line)
    return signals.exit_code or (out.FAILED if problems else 0)


def _set_cells(row: SetRow) -> dict[str, str]:
    node, white = row.node, tables.is_white(row.node.position)
    after = "" if row.solved_seconds is None else f"{row.solved_evaluations:,} ({row.solved_seconds:.2f} s)"
    return {
        "Line": str(row.source.number),
        "Id": row.source.id,
        "Wanted": row.wanted,
        "Best": row.sans[0] if row.pv else "",
        "Solved": "" if row.solved is None else "yes" if row.solved else "no",
        "Points": "" if row.points is None else f"{row.points} of {row.most_points}",
        "Score": tables.score(row.cp, node.mate, white=white),
        "Visits": f"{node.visits:,}",
        "Solved after": after,
        "Q": tables.signed(node.q, white=white),
        "Spent": f"{row.evaluations:,}",
        "PV": numbered(node.position, row.sans),
    }


def _report_lines(request: Request, report: SetReport, *, skipped: int) -> Iterator[str]:
    yield from (f"note: {note}" for note in report.notes)
    if report.judged:
        points = f"; {report.points:,} of {report.most_points:,} points" if report.most_points else ""
        yield f"solved: {report.solved:,} of {report.judged:,}{points}"
    left_out = f", {tables.count(skipped, 'line')} left out" if skipped else ""
    yield (
        f"{tables.count(report.searched, 'position')} searched, {report.known:,} known before{left_out};"
        f" {report.evaluations:,} evaluations, {report.seconds:.1f} s"
    )
    if report.stopped:
        yield f"No file was written. Resume with: {out.command_text()}"
    elif request.output:
        yield f"{request.output}: {tables.count(report.done, 'position')}"
    if request.store is None:
        yield out.NOT_SAVED


# ---------------------------------------------------------------- reviews
PLAYER_SPARE = ("Loss", "Opening", "Middlegame", "Endgame", "!", "Games", "Moves", "Loss %")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest:
    """The options of one call of `review`.

    Attributes:
      file: FILE: Games in PGN, plain, .gz or .zst; - for standard input.
      output: -o --output OUT: The annotated games, - for stdout; by default NAME-reviewed.pgn beside
        NAME.pgn.
      game: --game K: Only this game of the file. May be repeated.
      player: --player NAME: Only games of this player: every word of NAME is a part of the name, in any case.
    """

    file: str
    store: options.StoreToMake
    search: options.SearchOptions
    output: str | None = None
    game: list[options.Count] | None = None
    player: str | None = None
    side: options.Side = None
    since: options.Since = None


def review(request: ReviewRequest) -> int:
    """Search every position of games, each within the limits, and write what that says of their moves.

    The annotated games have an evaluation of every move, ?!, ? and ?? for moves that lose 5, 10 and 15 % of
    the expected score, ! for an only good move, the better line as a variation, and N for the first move that
    no imported game has played. Both sides are judged, whatever --player says. A table has the accuracy, the
    mean loss and the marks of every player.

    A position that has its visits in the graph file, or had its evaluations or time, costs nothing: games
    share work, and after Ctrl-C or a kill the same command resumes. The games are written at the end. Broken
    ones are reported with their lines and left out. Exit code 1 if none can be reviewed.

    JSON: `games` has every move, seen by White; `players` and `problems` as in the tables.

    \b
    Examples:
      graphsearch review games.pgn --store first.graph --visits 400 -o reviewed.pgn
      graphsearch review games.pgn --store first.graph --player "Carlsen" --since 2024 -o won.pgn
    """
    return run_review(request)


def run_review(request: ReviewRequest, *, every: bool = False) -> int:
    """Reviews games; returns the exit code.

    `every`: prints every move of the games in place of the figures; then only a named file is written.
    """
    from graphsearch.book.review.review import GameChoice, ReviewSettings
    from graphsearch.book.review.review import review as review_games

    from .exports import target_of
    from .games import file_title, given_file

    output = request.output or (None if every else default_output(request.file))
    pgn = target_of(output) if output else None
    choice = GameChoice(
        player=request.player or "",
        color=options.side_of(request.side) or "",
        since=request.since or "",
        games=frozenset(request.game or ()),
    )
    games: list[GameReview] = []

    def keep(game: GameReview) -> None:
        if tables.is_json() or every or not games:
            games.append(game)

    given = given_file(request.file)
    with ExitStack() as files:
        evaluator, params = compiled(request.search, request.store, files)
        settings = ReviewSettings(choice=choice, pgn=pgn, **request.search.settings(params))
        signals = files.enter_context(StopSignals())
        show = files.enter_context(titled_bar("Reading", file_title))
        if given.stream is None:  # Ctrl-C has to end a read from a pipe at once
            signals.arm()
        with other_kernels_compiling():
            report = review_games(
                request.store,
                given,
                settings,
                evaluator=evaluator,
                ram_bytes=request.search.ram_bytes,
                stop=signals.stop,
                on_progress=show,
                on_game=keep,
            )
    _print_review(request, report, games, table_wanted=output != options.STDOUT, every=every)
    if report.stopped:
        out.say(f"Saved: {tables.count(report.searched, 'position')} searched; no file was written.")
        out.say(f"Resume with: {out.command_text()}")
        return signals.exit_code
    if report.failed:
        several = report.chosen > 1
        chosen = f"none of the {report.chosen:,} chosen games can" if several else "the chosen game cannot"
        return out.fail(f"{chosen} be reviewed")
    return 0


def default_output(name: str) -> str | None:
    """Returns the default file of the annotated games; None for standard input.

    >>> default_output("games/my.pgn"), default_output("my.pgn.zst"), default_output("-")
    ('games/my-reviewed.pgn', 'my-reviewed.pgn', None)
    """
    if name == options.STDOUT:
        return None
    from .games import unpacked

    path = unpacked(name)
    return str(path.with_name(f"{path.stem}-reviewed.pgn"))


def _print_review(
    request: ReviewRequest, report: ReviewReport, games: list[GameReview], *, table_wanted: bool, every: bool
) -> None:
    """Prints the report: data on stdout, messages on stderr."""
    problems = [f"{report.name}, line {one.place}: {one.reason}" for one in report.problems]
    notes = [f"note: {report.name}: {note}" for note in report.notes]
    for lines in (problems, notes):
        for line in out.problem_lines(lines, len(lines)):
            out.say(line)
    if tables.is_json():
        found: dict[str, Any] = report.as_dict()
        out.print_json(found | {"games": [game.as_dict() for game in games]})
    elif table_wanted and every:
        for game in games:
            heading = f"Game {game.number}, {game.player(True)} - {game.player(False)}"
            moves = tables.Table(map(_move_cells, game.moves), spare=("Visits", "Its score"))
            out.print_parts([heading, *opening_line(game.opening), tables.VIEW, moves, ""])
    elif table_wanted and report.reviewed:
        players = map(_player_cells, report.players.listed())
        out.print_parts([tables.Table(players, {"Opening": tables.RIGHT}, spare=PLAYER_SPARE)])
        marked = [_moment_cells(move) for move in games[0].moves if move.glyph]
        if report.reviewed == 1 and marked:
            moments = tables.Table(marked, spare=("Its score", "Better", "Loss %"))
            out.print_parts(["", *opening_line(games[0].opening), tables.VIEW, moments])
        print()
    for line in _review_lines(report):
        print(line) if table_wanted and not tables.is_json() else out.say(line)


# ------------------------------------------------------------------ tables and lines
def _player_cells(player: Player) -> dict[str, str]:
    found = player.all
    return {
        "Player": player.name,
        "Games": f"{player.games:,}",
        "Moves": f"{found.moves:,}",
        "Accuracy": tables.decimal(found.accuracy),
        "Loss %": tables.decimal(found.mean_loss),
        "Loss": "" if found.mean_loss_cp is None else f"{found.mean_loss_cp / 100:.2f}",
        "??": str(found.blunders),
        "?": str(found.mistakes),
        "?!": str(found.inaccuracies),
        "!": str(found.good),
        **{phase.capitalize(): tables.decimal(of.accuracy) or "-" for phase, of in player.phases.items()},
    }


def _moment_cells(move: MoveReview) -> dict[str, str]:
    cells, better = _move_cells(move), move.better if move.loss else ""
    kept = {name: cells[name] for name in ("Move", "Score", "Loss %")}
    return kept | {"Better": better, "Its score": cells["Its score"] if better else ""}


def value_text(value: Value) -> str:
    """Returns the score of a value."""
    return "mate" if value.mate == 0 else tables.score(value.cp, value.mate, white=True)


def _review_lines(report: ReviewReport) -> Iterator[str]:
    """Yields the report line by line."""
    skipped = f", {report.skipped:,} skipped" if report.skipped else ""
    yield (
        f"{tables.count(report.reviewed, 'game')} reviewed{skipped};"
        f" {tables.count(report.searched, 'position')} searched, {report.known:,} known before;"
        f" {report.new_visits:,} visits, {report.evaluations:,} evaluations, {report.seconds:.1f} s"
    )
    if report.output is not None:
        yield f"Written: {report.output}"


# ---------------------------------------------------------------- several in turn
MOST_ROOTS = 20  # of a file, if no position is named
WATCH_FRAME_LINES = 3  # lines of the live display that are not roots
WATCH_SPARE = ("PV", "Share", "Visits")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """The options of one call.

    Attributes:
      positions: POSITION...: Positions as for `analyze`; the roots of the file by default, the 20 last
        searched.
      share: --share X: Share of the next position in the time, in their order; 1 by default.
    """

    positions: list[str] | None = None
    store: options.StoreToMake
    share: list[float] | None = None
    work: options.WorkOptions


def watch(request: WatchRequest) -> int:
    """Search several positions in turn, each for its share of the time, until a limit, or Ctrl-C.

    In a round of 30 seconds every position has its turn, and goes on where it was. One whose result is proven
    leaves its time to the others. Positions share all that they find, and everything is saved to the file.
    With --workers, K positions have their turns at once; what a turn finds is saved when it ends. At the end
    come what to play in each position, how sure that is, and why.

    JSON: a line for the searched position after every turn. `seconds` is the time that it had; `ended` says
    why it needs no more. Values are seen by the side to move.

    \b
    Examples:
      graphsearch watch first.graph "1. e4 e5" "1. d4" --share 2 --time 1h
      graphsearch watch first.graph --json
    """
    jobs, work, began = _jobs(request), request.work, clocks.monotonic()

    def table(most: int | None = None) -> tables.Table:
        rows = [_watch_cells(turns, job, view(graph.read, job.board, lines=1)) for job in turns.jobs[:most]]
        return tables.Table(rows, {"Line": tables.LEFT}, spare=WATCH_SPARE)

    def tell(job: SearchJob | None, nodes: int, speed: float) -> None:
        seconds = clocks.monotonic() - began
        title = job.title if job else ""
        line = f"{tables.clock(seconds)}   {title}   nodes {nodes:,}   evaluations/s {tables.rate(speed)}"
        show(SimpleNamespace(seconds=seconds, line=line))

    with ExitStack() as stack, StopSignals() as signals:
        evaluator, params = compiled(work, request.store, stack)
        signals.arm()
        seconds = min(ROUND_SECONDS, work.time or ROUND_SECONDS)
        turns = Turns([replace(job, params=params) for job in jobs], round_seconds=seconds)
        display = progress_display(
            signals,
            lambda now: now.line,
            lambda now, height: [table(max(1, height - WATCH_FRAME_LINES)), now.line],
        )
        show = stack.enter_context(display)
        opened = open_searches(
            request.store,
            evaluator,
            Control(
                on_progress=lambda now: tell(turns.next(), now.nodes, now.evaluations_per_s),
                stop=signals.stop,
            ),
            ram_bytes=work.ram_bytes,
            workers=work.workers,
            pool=work.evaluator.pool,
        )
        with (
            opened as (graph, searches),
            other_kernels_compiling() if work.workers is None else nullcontext(),
        ):
            limits = Limits(seconds=work.time, evaluations=work.evaluations)
            for job, result in search_in_turns(searches, turns, signals.stop, limits):
                graph.save_soon()
                if tables.is_json():
                    out.print_json(_watch_facts(turns, job, view(graph.read, job.board, lines=1)))
                if searches.is_detached:
                    tell(job, graph.node_count, result.evaluations / result.seconds)
            graph.flush()  # with all positions in the file's list, also those of the last seconds
            parts: list[tables.Part] = [tables.VIEW, table()]
            source = Records(request.store, graph.read, graph.store)
            for job in turns.jobs:
                if graph.read(job.board) is not None:
                    parts += [f"\n{job.title}", *brief_parts(brief(source, job.board).lines)][:-1]
    if not tables.is_json():
        out.print_parts(parts)
    out.say(f"Resume with: {out.command_text()}")
    return signals.exit_code


def _jobs(request: WatchRequest) -> list[SearchJob]:
    """Returns the searches of a request, each with the line to its position as title."""
    boards = [options.LineOptions().board_after(text) for text in request.positions or ()]
    boards = boards or _stored(request.store)
    shares = request.share or []
    if len(shares) > len(boards):
        named = tables.count(len(boards), "position")
        raise typer.BadParameter(f"--share is given {len(shares)} times for {named}")
    if any(not 0 < share <= 1000 for share in shares):
        raise typer.BadParameter("--share must be above 0, at most 1,000")
    shares = shares + [1.0] * (len(boards) - len(shares))
    bare = [board.fen() for board in boards if not board.move_stack]
    ways = routes(request.store, bare) if request.store.exists() else {}
    # lines of the file, else as given
    names = [way_text(ways.get(board.fen()), game_text(board)) for board in boards]
    return [
        SearchJob(board=board, title=name, share=share, mates=MateFinder)
        for board, name, share in zip(boards, names, shares, strict=True)
    ]


def _stored(store: Path) -> list[Any]:
    """Returns the roots of a file."""
    if not store.exists():
        raise typer.BadParameter(f"name positions: {store} does not exist, so it has no roots to search")
    with Store.open(store, read_only=True) as file:
        found = [board_of(root.position) for root in file.roots()[:MOST_ROOTS]]
    if not found:
        raise typer.BadParameter(f"name positions; {store} has no roots")
    return found


def _watch_facts(turns: Turns, job: SearchJob, node: NodeView | None) -> dict[str, Any]:
    """Returns the state of a job for JSON."""
    best = node.moves[0] if node and node.moves else None
    return {
        "line": job.title,
        "position": job.board.fen(),
        "share": job.share,
        "seconds": round(turns.had(job), 1),
        "ended": turns.ended(job),
        "visits": node.visits if node else 0,
        "q": node.q if node else None,
        "cp": cp_of(node.q) if node else None,
        "mate": node.mate if node else None,
        "best_move": best.move.uci() if best else None,
        "pv": [move.uci() for move in best.pv] if best else [],
    }


def _watch_cells(turns: Turns, job: SearchJob, node: NodeView | None) -> dict[str, str]:
    cells = {
        "Line": job.title,
        "Share": f"{100 * job.share / sum(one.share for one in turns.jobs):.0f}%",
        "Searched": turns.ended(job) or tables.clock(turns.had(job)),
    }
    if node is None:
        return cells
    best = node.moves[0] if node.moves else None
    return cells | {
        "Score": tables.score(cp_of(node.q), node.mate, white=job.board.turn),
        "Visits": f"{node.visits:,}",
        "Q": tables.signed(node.q, white=job.board.turn),
        "Best": best.san if best else "",
        "PV": numbered(node.position, sans_of(job.board, best.pv)) if best else "",
    }
