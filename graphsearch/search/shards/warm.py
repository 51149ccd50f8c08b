"""Compiles the kernels of a cluster search before its clock starts, once for all shards of a machine."""

from __future__ import annotations

import chess

from ...evaluators.protocol import Evaluator
from ...graph.graph import Graph
from ...jit.compiler import is_compiled, mark_compiled
from ..job import SearchJob
from ..params import Limits, SearchParams
from .session import search_together

PURPOSE = "cluster search"
KERNELS = 10
SHARDS, LEAVES, VISITS = 2, 16, 40


def kernels_missing() -> int:
    """Returns the number of kernels still to be compiled."""
    return 0 if is_compiled(PURPOSE) else KERNELS


def compile_kernels(evaluator: Evaluator) -> None:
    """Runs a short search with two shards in memory."""
    params = SearchParams(minibatch_size=LEAVES, max_wave_share=1.0)
    job = SearchJob(board=chess.Board(), limits=Limits(visits=VISITS), params=params)
    search_together([Graph.open(None, evaluator=evaluator) for _ in range(SHARDS)], job)
    mark_compiled(PURPOSE)
