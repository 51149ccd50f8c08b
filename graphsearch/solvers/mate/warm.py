"""Compiles all kernels of a search, and of its mate finder, before the search begins."""

from __future__ import annotations

import chess

from ...evaluators.protocol import Evaluator
from ...graph.graph import Graph
from ...search.loop import analyze
from ...search.params import Limits, SearchParams
from ...search.warm import kernels_compiling
from . import beside


def compile_search(
    evaluator: Evaluator,
    params: SearchParams,
    *,
    filed: bool,
    told: bool,
    board: chess.Board | None = None,
) -> None:
    """Runs a short search in a graph of its own, to compile its kernels.

    Args:
      filed: also compile the kernels that save to a file.
      told: whether the user already knows about the compilation; else the log says so.
      board: the position of the trial; default: the start position.
    """
    with (
        kernels_compiling(evaluator, filed=filed, prover=beside.__name__, told=told),
        Graph.open(None, evaluator=evaluator) as trial,
    ):
        analyze(trial, board or chess.Board(), Limits(visits=2), params)
        analyze(trial, chess.Board(beside.TRIAL), Limits(visits=2), params, mates=beside.MateFinder())
