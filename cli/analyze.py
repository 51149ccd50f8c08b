"""`graphsearch analyze`: search a position, show the best lines, save the graph."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from graphsearch.errors import UnsavedError

from .analyze_view import search_display
from .commands import command, command_line
from .options import EvaluatorOptions, Json, PositionOptions, Ram, StoreToSave, closing, graph_ram
from .output import ENDED_BY_READER, NOT_SAVED, print_json, print_view, say
from .progress import compile_bar
from .render import count, node_view, size
from .signals import StopSignals

if TYPE_CHECKING:
    import chess

    from graphsearch.evaluators.protocol import Evaluator as EvaluatorObject
    from graphsearch.search.params import Limits, SearchParams
    from graphsearch.search.results import SearchResult

    from .analyze_shards import ShardsJob

STRONGER = "Stockfish is installed: in a new file --evaluator nnue:stockfish finds better moves sooner."
MAX_PROBLEMS = 5  # shown of a damaged file; `store verify` lists all


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of one call."""

    position: PositionOptions
    store: StoreToSave = None
    visits: Annotated[
        int | None, typer.Option("--visits", metavar="N", help="Stop after N more visits of the position.")
    ] = None
    evaluations: Annotated[
        int | None, typer.Option("--evaluations", metavar="N", help="Stop after N evaluations.")
    ] = None
    time: Annotated[float | None, typer.Option("--time", metavar="S", help="Stop after S seconds.")] = None
    batch: Annotated[
        int | None,
        typer.Option(
            "--batch",
            metavar="N",
            help="Leaves to evaluate together (MinibatchSize); by default, or with 0, 1 for those in the "
            "kernels, and for other evaluators the smallest that keeps them busy.",
        ),
    ] = None
    gather: Annotated[
        str | None,
        typer.Option(
            "--gather",
            metavar="NAME",
            help="How batches are filled: flow (the default), classic, budget or exclude (Gather).",
        ),
    ] = None
    ram: Ram = None
    multipv: Annotated[
        int,
        typer.Option(
            "--multipv", metavar="K", min=0, help="Moves in the table, 0 for all; JSON always has all."
        ),
    ] = 5
    evaluator: EvaluatorOptions
    shards: Annotated[
        int | None,
        typer.Option(
            "--shards",
            metavar="K",
            min=1,
            help="Search with K processes over a cluster: --store is its folder, made if missing. With --pool"
            " ray they run on the machines of a Ray cluster.",
        ),
    ] = None
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", metavar="NAME=VALUE", help="A search parameter such as CPuct=2; may be repeated."
        ),
    ] = None
    searchmoves: Annotated[
        str | None,
        typer.Option(
            "--searchmoves",
            metavar="MOVES",
            help='Search only these moves of the position: "e4 d4" or "e2e4 d2d4".',
        ),
    ] = None
    json: Json = False


@command(
    "Search a position; resume from a graph file and save to it.",
    "graphsearch analyze startpos --time 10 --store first.graph",
    'graphsearch analyze startpos --moves "e4 e5 Nf3" --visits 1000 --json',
    'graphsearch analyze "8/8/8/8/4k3/8/4P3/4K3 w - - 0 1" --evaluations 5000',
    "graphsearch analyze games.pgn --game 2 --ply 30 --time 10 --store first.graph",
    scores=True,
)
def analyze(request: Request) -> None:
    """Search a position and print the best lines; with --store, resume from a graph file and save to it.

    The search stops at the first limit it reaches, or at Ctrl-C. Limits count new work only, not what the
    file already holds.
    """
    code = _search_shards(request) if _is_sharded(request) else _search_and_print(request)
    if code:
        raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """The checked arguments of a request."""

    evaluator: EvaluatorObject
    board: chess.Board
    limits: Limits
    params: SearchParams
    ram_bytes: int | None
    searchmoves: tuple[chess.Move, ...]


def _check(request: Request) -> CheckedRequest:
    evaluator, others = request.evaluator.create(request.param or ())
    try:
        return _checked(request, evaluator, others)
    except BaseException:
        evaluator.close()
        raise


def _checked(request: Request, evaluator: EvaluatorObject, others: list[str]) -> CheckedRequest:
    from graphsearch.position.notation import read_moves
    from graphsearch.search.params import Limits, SearchParams

    for name, value in (("MinibatchSize", request.batch), ("Gather", request.gather)):
        if value is not None:
            others.append(f"{name}={value}")
    params = SearchParams.from_options(others)
    limits = Limits(visits=request.visits, evaluations=request.evaluations, seconds=request.time)
    board = request.position.board()
    listed = None if request.searchmoves is None else tuple(read_moves(board, request.searchmoves))
    return CheckedRequest(evaluator, board, limits, params, graph_ram(request.ram), listed or ())


def _is_sharded(request: Request) -> bool:
    """Returns whether a request is for a cluster, by its option or by its folder."""
    from graphsearch.store.sharded.manifest import is_sharded

    return request.shards is not None or (request.store is not None and is_sharded(request.store))


def _search_shards(request: Request) -> int:
    """Searches a cluster; returns the exit code."""
    from .analyze_shards import search_shards

    job = _shards_job(request)
    with StopSignals() as signals:
        found = search_shards(job, signals)
        if request.json:
            print_json(found.as_dict())
        else:
            print_view(lambda width: node_view(found.result.node, request.multipv, width))
            print(_totals(found.result))
        for line in _epilogue(request, found.result):
            say(line)
        return signals.exit_code


def _shards_job(request: Request) -> ShardsJob:
    from graphsearch.position.notation import read_moves
    from graphsearch.search.params import Limits

    from .analyze_shards import ShardsJob

    if request.store is None:
        raise typer.BadParameter("--shards needs the folder of a cluster: --store FOLDER")
    spec, options = request.evaluator.spec(request.param or ())
    if request.batch is not None:
        options.append(f"MinibatchSize={request.batch}")
    board = request.position.board()
    return ShardsJob(
        folder=request.store,
        shards=request.shards,
        board=board,
        limits=Limits(visits=request.visits, evaluations=request.evaluations, seconds=request.time),
        searchmoves=() if request.searchmoves is None else tuple(read_moves(board, request.searchmoves)),
        spec=spec,
        options=options,
        gather=request.gather,
        ram_bytes=graph_ram(request.ram),
        multipv=request.multipv,
    )


def _search_and_print(request: Request) -> int:
    """Returns the exit code: 0, or 128 + the signal that ended the search."""
    with StopSignals() as signals:
        try:
            result = _search(request, _check(request), signals)
        except UnsavedError as error:  # the result is still worth printing
            if error.result is not None:
                _print_result(request, error.result)
            raise
        _print_result(request, result)
        for line in _epilogue(request, result):
            say(line)
        return signals.exit_code


def stockfish_is_installed() -> bool:
    """Returns whether `nnue:stockfish` finds its program."""
    from graphsearch.errors import EvaluatorError
    from graphsearch.evaluators.uci.program import find_program

    try:
        find_program("stockfish")
    except EvaluatorError:
        return False
    return True


def _search(request: Request, call: CheckedRequest, signals: StopSignals) -> SearchResult:
    """Returns the result of the search, when everything is saved and the file is closed."""
    from graphsearch.graph.graph import Graph
    from graphsearch.position.board import MAX_MOVES
    from graphsearch.search.loop import analyze, moves_of_tables
    from graphsearch.search.warm import paging_kernels_compiling
    from graphsearch.solvers.mate.beside import MateFinder

    starts_file = request.store is not None and not request.store.exists()
    with (
        closing(call.evaluator),
        Graph.open(request.store, evaluator=call.evaluator, ram_bytes=call.ram_bytes) as graph,
    ):
        compile_search(call.evaluator, call.params, filed=request.store is not None, board=call.board)
        listed = call.searchmoves or tuple(moves_of_tables(graph, call.board))
        if listed and not call.searchmoves:
            say("The tablebases know this position; only their best moves are searched.")
        if not call.limits.as_dict():
            say("No limit is set; press Ctrl-C to stop.")
        if starts_file and not request.evaluator.named and stockfish_is_installed():
            say(STRONGER)
        signals.arm()
        with (
            paging_kernels_compiling() if request.store else nullcontext(),
            search_display(request.multipv or MAX_MOVES, signals) as show,
        ):
            return analyze(
                graph,
                call.board,
                call.limits,
                call.params,
                on_progress=show,
                stop=signals.stop,
                searchmoves=listed,
                mates=MateFinder(
                    seconds=call.limits.seconds, visits=call.limits.visits or call.limits.evaluations
                ),
            )


def compile_search(
    evaluator: EvaluatorObject, params: SearchParams, *, filed: bool, board: chess.Board | None = None
) -> None:
    """Runs a short search in a graph of its own: kernels are compiled before the clock starts, and Ctrl-C
    still ends the program at once.
    """
    from graphsearch.search.warm import kernels_missing
    from graphsearch.solvers.mate import warm

    if missing := kernels_missing(evaluator, filed=filed):
        with compile_bar("search", missing) as told:
            warm.compile_search(evaluator, params, filed=filed, told=told, board=board)


def _print_result(request: Request, result: SearchResult) -> None:
    if request.json:
        print_json(result.as_dict())
    else:
        print_view(lambda width: node_view(result.node, request.multipv, width))
        print(_totals(result))
    if sys.stdout is not None:
        sys.stdout.flush()


def _totals(result: SearchResult) -> str:
    best = [] if result.bestmove is None else [f"bestmove {result.bestmove.uci()}"]
    first = (*best, f"depth {result.depth}/{result.seldepth}", f"{result.seconds:.1f} s")
    second = (
        f"new visits {result.new_visits:,}",
        f"evaluations {result.evaluations:,}",
        f"catch-ups {result.catch_ups:,}",
        f"collisions {result.collisions:,}",
    )
    return "\n".join("   ".join(parts) for parts in (first, second))


def _epilogue(request: Request, result: SearchResult) -> list[str]:
    """Returns the closing lines: the saved results, the evaluator, and the command that resumes."""
    from graphsearch.store.file import file_bytes
    from graphsearch.store.sharded.files import sharded_bytes

    lines = []
    if result.unkept_visits:
        unkept = count(result.unkept_visits, "visit")
        lines.append(
            f"{unkept} ended in a draw by repetition of this game's positions; the graph does not keep them."
        )
    if result.stop_reason == "memory":
        lines.append("The search ended because its memory is full; a larger --ram holds more.")
    if result.stop_reason == "proven":
        lines.append("The search ended because the result is proven.")
    if result.stop_reason == "exhausted":
        lines.append("The search ended because every position it can reach is known.")
    if result.stop_reason == "reader":
        lines.append(ENDED_BY_READER)
    lines += [
        f"Damaged record, evaluated again if needed: {problem}" for problem in result.problems[:MAX_PROBLEMS]
    ]
    if request.store is None:
        lines.append(NOT_SAVED)
    else:
        held = size(sharded_bytes(request.store) if _is_sharded(request) else file_bytes(request.store))
        lines.append(f"Saved: {request.store} holds {count(result.nodes, 'node')} ({held}).")
    chosen = request.evaluator
    if chosen.evaluator in (None, "builtin") and chosen.policy is None and chosen.value is None:
        lines.append("Evaluated by the built-in evaluator; --evaluator selects another one.")
    if request.store is not None:
        lines.append(f"Resume with: {command_line('analyze', request)}")
    return lines
