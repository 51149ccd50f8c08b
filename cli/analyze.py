"""`graphsearch analyze`: search a position, show the best lines, save the graph."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from graphsearch.base.errors import UnsavedError

from .analyze_many import STDIN, Request, analyze_many, from_stdin, is_set
from .commands import command, command_line
from .compiling import compile_search
from .options import graph_ram
from .output import (
    ENDED_BY_READER,
    MOST_DAMAGED,
    NOT_SAVED,
    print_json,
    print_parts,
    print_view,
    say,
    say_clock,
)
from .progress import Screen, clock, progress_display
from .render import count, detail, node_view, opening_line, rate, size
from .signals import StopSignals

if TYPE_CHECKING:
    from rich.console import RenderableType

    from graphsearch.search.job import SearchJob
    from graphsearch.search.results import Progress, SearchResult

STRONGER = "Stockfish is installed: in a new file --evaluator nnue:stockfish finds better moves sooner."
REASONS = {  # why a search ended before its limit
    "memory": "The search ended because its memory is full; a larger --ram holds more.",
    "proven": "The search ended because the result is proven.",
    "exhausted": "The search ended because nearly every position it can reach is known.",
    "reader": ENDED_BY_READER,
}


@command(
    "Search a position; resume from a graph file and save to it.",
    "graphsearch analyze first.graph --time 10",
    'graphsearch analyze "1. e4 e5 2. Nf3" --visits 10k --json',
    'graphsearch analyze "8/8/8/8/4k3/8/4P3/4K3 w - - 0 1" --evaluations 5000',
    "graphsearch analyze first.graph games.pgn --game 2 --ply 30 --time 5m",
    "graphsearch analyze first.graph games.pgn --all --visits 10k -o analyzed.pgn",
    "graphsearch analyze first.graph positions.epd --time 10 -o solved.epd",
    views=True,
)
def analyze(request: Request) -> None:
    """Search a position and print the best lines; with --store, resume from a graph file and save to it.

    The search stops at the first limit it reaches, or at Ctrl-C. Limits count new work only, not what the
    file already holds.

    With --all, every position of the games in a PGN file is searched; a table has every move, the best one,
    and what it lost. Of a file with a position on each line (EPD), all are searched; --game K takes one of
    them. A table says which are solved (bm, am, dm), their points (STS), and the evaluations and the time
    after which the best move was right and stayed so. In both, limits are those of each position, and visits
    that it has in the file count; without limits, it gets 1,000 visits. What was searched before is passed
    over, so the same command resumes. A line that cannot be read is named and left out; exit code 1 then.

    POSITION may be - for standard input: moves, a game in PGN, or positions as of an EPD file.

    JSON: of an EPD file one object for each position.
    """
    if request.position.position == STDIN and not request.every:
        request = from_stdin(request)
    if request.every or is_set(request):
        analyze_many(request)
        return
    if request.workers is not None:
        raise typer.BadParameter("--workers searches several positions, with --all or an EPD file")
    if request.output:
        raise typer.BadParameter("-o writes games, with --all, or the lines of an EPD file")
    request = replace(request, evaluator=request.evaluator.of_file(request.store))
    with StopSignals() as signals:
        try:
            result = _search(request, signals)
            _print_result(request, result)
        except UnsavedError as error:  # the result is still worth printing
            if error.result is not None:
                _print_result(request, error.result)
            raise
        for line in _epilogue(request, result):
            say(line)
        if signals.exit_code:
            raise typer.Exit(signals.exit_code)


def _job(request: Request, options: list[str]) -> SearchJob:
    """Returns the search of a request. `options`: the `NAME=VALUE` texts that the evaluator does not take."""
    from graphsearch.position.notation import read_moves
    from graphsearch.search.job import SearchJob
    from graphsearch.search.params import Limits, SearchParams

    params = SearchParams.from_options(options)
    limits = Limits(visits=request.visits, evaluations=request.evaluations, seconds=request.time)
    board = request.position.board()
    say_clock(board)
    listed = () if request.searchmoves is None else tuple(read_moves(board, request.searchmoves))
    lines = None if request.json else request.lines or None  # a line takes a millisecond
    return SearchJob(board=board, limits=limits, params=params, searchmoves=listed, lines=lines)


def _say_endless(job: SearchJob) -> None:
    if not job.limits.as_dict():
        say("No limit is set; press Ctrl-C to stop.")


def stockfish_is_installed() -> bool:
    """Returns whether `nnue:stockfish` finds its program."""
    from graphsearch.base.errors import EvaluatorError
    from graphsearch.evaluators.uci.program import find_program

    try:
        find_program("stockfish")
    except EvaluatorError:
        return False
    return True


def _search(request: Request, signals: StopSignals) -> SearchResult:
    """Searches, saves everything and closes the file; returns the result."""
    from graphsearch.graph.graph import Graph
    from graphsearch.position.board import MAX_MOVES
    from graphsearch.search.job import Control
    from graphsearch.search.loop import search
    from graphsearch.search.warm import paging_kernels_compiling
    from graphsearch.solvers.mate.beside import MateFinder

    evaluator, options = request.evaluator.create(request.param or (), request.store)
    starts_file = request.store is not None and not request.store.exists()
    with closing(evaluator):
        job = _job(request, options)
        ram_bytes, limits = graph_ram(request.ram), job.limits
        with Graph.open(request.store, evaluator=evaluator, ram_bytes=ram_bytes) as graph:
            compile_search(evaluator, job.params, filed=request.store is not None, board=job.board)
            if not job.searchmoves and graph.evaluator.best_moves(job.board):
                say("The tablebases know this position; only their best moves are searched.")
            _say_endless(job)
            if starts_file and not request.evaluator.named and stockfish_is_installed():
                say(STRONGER)
            signals.arm()
            with (
                paging_kernels_compiling() if request.store else nullcontext(),
                search_display(request.lines or MAX_MOVES, signals) as show,
            ):
                mates = MateFinder(seconds=limits.seconds, visits=limits.visits or limits.evaluations)
                return search(graph, job, Control(on_progress=show, stop=signals.stop, mates=mates))


def _print_result(request: Request, result: SearchResult) -> None:
    if request.json:
        print_json(result.as_dict())
    else:
        print_parts(opening_line(result.opening))
        print_view(lambda width: node_view(result.node, request.lines, width))
        best = [] if result.bestmove is None else [f"bestmove {result.bestmove.uci()}"]
        print(*best, f"depth {result.depth}/{result.seldepth}", f"{result.seconds:.1f} s", sep="   ")
        more = detail(f"   catch-ups {result.catch_ups:,}   collisions {result.collisions:,}")
        print(f"new visits {result.new_visits:,}   evaluations {result.evaluations:,}{more}")
    if sys.stdout is not None:
        sys.stdout.flush()


def _epilogue(request: Request, result: SearchResult) -> list[str]:
    """Returns the closing lines: the saved results, the evaluator, and the command that resumes."""
    from graphsearch.store.side_files import file_bytes

    lines = []
    if result.unkept_visits:
        unkept = count(result.unkept_visits, "visit")
        lines.append(
            f"{unkept} ended in a draw by repetition of this game's positions; the graph does not keep them."
        )
    lines += [REASONS[result.stop_reason]] if result.stop_reason in REASONS else []
    damaged = result.problems[:MOST_DAMAGED]
    lines += [f"Damaged record, evaluated again if needed: {problem}" for problem in damaged]
    if request.store is None:
        lines.append(NOT_SAVED)
    else:
        held = size(file_bytes(request.store))
        lines.append(f"Saved: {request.store} holds {count(result.nodes, 'node')} ({held}).")
    chosen = request.evaluator
    if chosen.evaluator in (None, "builtin") and chosen.policy is None and chosen.value is None:
        lines.append("Evaluated by the built-in evaluator; --evaluator selects another one.")
    if request.store is not None:
        lines.append(f"Resume with: {command_line('analyze', request)}")
    return lines


FRAME_LINES = 8  # lines of the live display that are not moves


def search_display(multipv: int, signals: StopSignals) -> AbstractContextManager[Callable[[Progress], None]]:
    """Returns a context that yields a progress callback for a search."""

    def view(progress: Progress, screen: Screen) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        rows = max(1, min(multipv, screen.height - FRAME_LINES))
        return Group(node_view(progress.node(rows), rows, screen.width), Text(status_line(progress)))

    return progress_display(signals, lambda now: status_line(now).replace("\n", "   "), view)


def status_line(progress: Progress) -> str:
    """Returns the counters of a running search in one line, a second one if it has a file."""
    parts = (
        clock(progress.seconds),
        f"nodes {progress.nodes:,}",
        f"visits/s {rate(progress.visits_per_s)}",
        f"evaluations/s {rate(progress.evaluations_per_s)}",
        detail(f"catch-ups {progress.catch_ups:,}"),
        f"depth {progress.depth}/{progress.seldepth}",
    )
    counters = "   ".join(filter(None, parts))
    if not progress.stored:
        return counters
    share = 100 * progress.resident / max(progress.nodes, 1)
    if progress.loaded:
        done, total = progress.loaded
        read = f"reading the graph: {done:,} of {total:,} nodes ({size(progress.ram_bytes)})"
        return f"{counters}\n{read}   {rate(done / max(progress.seconds, 1e-9))}/s"
    memory = [f"RAM {share:.0f} % of the nodes ({size(progress.ram_bytes)})"]
    memory += [f"read back {progress.read_back:,}"] if progress.read_back else []
    memory += [f"written {progress.written:,}"] if progress.written else []
    return f"{counters}\n{'   '.join(memory)}"
