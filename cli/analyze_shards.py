"""`graphsearch analyze` over a cluster: the same options, in several processes or on several machines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .analyze_view import search_display
from .options import closing, graph_ram
from .output import say
from .progress import compile_bar
from .signals import StopSignals

if TYPE_CHECKING:
    from graphsearch.cluster.master import ClusterSearch
    from graphsearch.evaluators.factory import EvaluatorSpec

    from .analyze import Request


def search_shards(request: Request, folder: Path, signals: StopSignals) -> ClusterSearch:
    """Returns what a search over the cluster in a folder found, when all of it is saved."""
    from graphsearch.cluster.master import analyze
    from graphsearch.position.board import MAX_MOVES
    from graphsearch.position.notation import read_moves
    from graphsearch.search.params import Limits, SearchParams

    spec, others = request.evaluator.spec(request.param or ())
    if request.batch is not None:
        others.append(f"MinibatchSize={request.batch}")
    if request.gather not in (None, "flow"):
        raise typer.BadParameter("a cluster is searched with --gather flow only")
    params = SearchParams.from_options(others)
    limits = Limits(visits=request.visits, evaluations=request.evaluations, seconds=request.time)
    board = request.position.board()
    listed = () if request.searchmoves is None else tuple(read_moves(board, request.searchmoves))
    _compile(spec)
    if not limits.as_dict():
        say("No limit is set; press Ctrl-C to stop.")
    signals.arm()
    with search_display(request.multipv or MAX_MOVES, signals) as show:
        return analyze(
            folder,
            board,
            limits,
            params,
            evaluator=spec,
            shards=request.shards,
            pool=request.evaluator.pool,
            ram_bytes=graph_ram(request.ram),
            searchmoves=listed,
            on_progress=show,
            on_loss=lambda line: say(f"note: {line}"),
            stop=signals.stop,
        )


def _compile(spec: EvaluatorSpec) -> None:
    """Compiles the kernels of a search before its clock starts; shards on other machines do so themselves."""
    from graphsearch.cluster import warm
    from graphsearch.evaluators.uniform import UniformEvaluator

    if missing := warm.kernels_missing():
        evaluator = UniformEvaluator()
        with compile_bar("cluster search", missing), closing(evaluator):
            warm.compile_kernels(evaluator)
