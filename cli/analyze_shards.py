"""`graphsearch analyze` over a cluster: the same options, in several processes or on several machines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from .analyze_view import search_display
from .options import closing
from .output import say
from .progress import compile_bar
from .signals import StopSignals

if TYPE_CHECKING:
    import chess

    from graphsearch.evaluators.factory import EvaluatorSpec
    from graphsearch.search.params import Limits
    from graphsearch.search.shards.shards import ClusterSearch


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardsJob:
    """A search over a cluster.

    Attributes:
      folder: of the cluster. shards: how many, None for an existing cluster's.
      spec: the evaluator. options: `NAME=VALUE` of the search. gather: the value of `--gather`.
    """

    folder: Path
    shards: int | None
    board: chess.Board
    limits: Limits
    searchmoves: tuple[chess.Move, ...]
    spec: EvaluatorSpec
    options: list[str]
    gather: str | None
    ram_bytes: int | None
    multipv: int


def search_shards(job: ShardsJob, signals: StopSignals) -> ClusterSearch:
    """Returns the result of a search over a cluster, when everything is saved."""
    from graphsearch.position.board import MAX_MOVES
    from graphsearch.search.params import SearchParams
    from graphsearch.search.shards.master import analyze

    if job.gather not in (None, "flow"):
        raise typer.BadParameter("a cluster is searched with --gather flow only")
    params = SearchParams.from_options(job.options)
    compile_shards(job.spec)
    if not job.limits.as_dict():
        say("No limit is set; press Ctrl-C to stop.")
    with search_display(job.multipv or MAX_MOVES, signals) as show:
        return analyze(
            job.folder,
            job.board,
            job.limits,
            params,
            evaluator=job.spec,
            shards=job.shards,
            pool=job.spec.pool,
            ram_bytes=job.ram_bytes,
            searchmoves=job.searchmoves,
            on_ready=signals.arm,
            on_progress=show,
            on_loss=lambda line: say(f"note: {line}"),
            stop=signals.stop,
        )


def compile_shards(spec: EvaluatorSpec) -> None:
    """Compiles the kernels of a search before its clock starts; shards on other machines do so themselves."""
    from graphsearch.evaluators.factory import EvaluatorSpec, create
    from graphsearch.search.shards import warm

    inside = spec.evaluator in (None, "builtin")  # others are no kernels, or take long to load
    if missing := warm.kernels_missing():
        name, options = ("builtin", (("threads", "1"),)) if inside else ("uniform", ())
        evaluator = create(EvaluatorSpec(evaluator=name, options=options))
        with compile_bar("cluster search", missing), closing(evaluator):
            warm.compile_kernels(evaluator)
