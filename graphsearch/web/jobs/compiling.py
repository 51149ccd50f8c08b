"""Compiles kernels before a task opens the file, so that a stop can end its process at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...evaluators.factory import EvaluatorSpec, create

if TYPE_CHECKING:
    from ...evaluators.protocol import Evaluator
    from .orders import Tell


@contextmanager
def ready(spec: EvaluatorSpec, tell: Tell) -> Iterator[Evaluator]:
    """Yields an evaluator whose kernels are compiled, with those of a search that saves."""
    from ...search.warm import kernels_missing

    with contextlib.closing(create(spec)) as evaluator:
        if kernels_missing(evaluator, filed=True):
            from ...search.params import SearchParams
            from ...solvers.mate.warm import compile_search

            tell({"stage": "compiling"})
            compile_search(evaluator, SearchParams(), filed=True, told=True)
            tell({"stage": "starting"})
        yield evaluator
