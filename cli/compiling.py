"""Compiles the kernels of a command's search before its clock starts."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .options import EvaluatorOptions
from .progress import compile_bar

if TYPE_CHECKING:
    import chess

    from graphsearch.evaluators.factory import EvaluatorSpec
    from graphsearch.evaluators.protocol import Evaluator
    from graphsearch.search.params import SearchParams


def compiled(
    chosen: EvaluatorOptions,
    param: list[str] | None,
    store: Path | None,
    stack: ExitStack,
    *,
    workers: int | None = None,
) -> tuple[Evaluator | EvaluatorSpec, SearchParams]:
    """Compiles the kernels; returns the evaluator and the parameters.

    With workers, the evaluator's specification: each worker makes its own, and the first compiles.
    """
    from graphsearch.search.params import SearchParams

    if workers is not None:
        spec, others = chosen.of_file(store).spec(param or ())
        return replace(spec, pool=None), SearchParams.from_options(others)
    evaluator, others = chosen.create(param or (), store)
    stack.enter_context(closing(evaluator))
    params = SearchParams.from_options(others)
    compile_search(evaluator, params, filed=store is not None)
    return evaluator, params


def compile_search(
    evaluator: Evaluator, params: SearchParams, *, filed: bool, board: chess.Board | None = None
) -> None:
    """Compiles the kernels by a short search in its own graph, before the clock starts; Ctrl-C ends it."""
    from graphsearch.search.warm import kernels_missing
    from graphsearch.solvers.mate import beside

    if missing := kernels_missing(evaluator, filed=filed):
        with compile_bar("search", missing) as told:
            beside.compile_search(evaluator, params, filed=filed, told=told, board=board)
