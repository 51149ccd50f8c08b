"""Compiling all kernels of a search, and of the finder of mates beside it, before the search begins."""

from __future__ import annotations

import chess

from ..evaluators.protocol import Evaluator
from ..graph.graph import Graph
from ..search.loop import analyze
from ..search.params import Limits, SearchParams
from ..search.warm import kernels_compiling
from . import beside


def compile_search(
    evaluator: Evaluator,
    params: SearchParams,
    *,
    filed: bool,
    told: bool,
    board: chess.Board | None = None,
) -> None:
    """Searches briefly in a graph of its own.

    Args:
      filed: also what saves to a file.
      told: whether a person knows that kernels are compiled; else the log says so.
      board: the position of the trial; default: the start position.
    """
    with (
        kernels_compiling(evaluator, filed=filed, prover=beside.__name__, told=told),
        Graph.open(None, evaluator=evaluator) as trial,
    ):
        analyze(trial, board or chess.Board(), Limits(visits=2), params)
        analyze(trial, chess.Board(beside.TRIAL), Limits(visits=2), params, mates=beside.MateFinder())
