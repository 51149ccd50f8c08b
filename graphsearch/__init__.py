"""graphsearch: a best-first (PUCT) chess graph search whose memory is a file.

    >>> import chess
    >>> from graphsearch import Graph, Limits, search
    >>> with Graph.open(None) as graph:
    ...     result = search(graph, chess.Board(), Limits(visits=100))
    >>> result.visits
    100

Names are loaded when first used: reading a file needs no Numba.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .evaluators import Evaluator
    from .graph import Graph
    from .params import Limits, SearchParams
    from .query import MoveView, NodeView, query
    from .search import Progress, SearchResult, search
    from .values import WDL

__all__ = [
    "WDL",
    "Evaluator",
    "Graph",
    "Limits",
    "MoveView",
    "NodeView",
    "Progress",
    "SearchParams",
    "SearchResult",
    "__version__",
    "query",
    "search",
]

_HOMES = {
    "Evaluator": "evaluators",
    "Graph": "graph",
    "Limits": "params",
    "MoveView": "query",
    "NodeView": "query",
    "Progress": "search",
    "SearchParams": "params",
    "SearchResult": "search",
    "WDL": "values",
    "query": "query",
    "search": "search",
}


class _Package(ModuleType):
    """Keeps `graphsearch.search` and `graphsearch.query` the functions.

    When modules of that name are imported.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _HOMES.get(name) == name:
            value = getattr(value, name, value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    setattr(sys.modules[__name__], name, value)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
