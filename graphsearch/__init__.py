"""graphsearch: a best-first (PUCT) chess graph search whose memory is a file.

    >>> import chess
    >>> from graphsearch import Graph, Limits, analyze
    >>> with Graph.open(None) as graph:
    ...     result = analyze(graph, chess.Board(), Limits(visits=100))
    >>> result.visits
    100

These names are the public API. They are loaded when first used: reading a file needs no Numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base.version import __version__

if TYPE_CHECKING:
    from .base.errors import GraphSearchError
    from .evaluators.protocol import Evaluator
    from .graph.graph import Graph
    from .graph.view import MoveView, NodeView, show
    from .position.values import WDL
    from .query.brief import Brief, brief
    from .query.sql import frame
    from .search.loop import analyze
    from .search.params import Limits, SearchParams
    from .search.results import Progress, SearchResult

__all__ = [
    "WDL",
    "Brief",
    "Evaluator",
    "Graph",
    "GraphSearchError",
    "Limits",
    "MoveView",
    "NodeView",
    "Progress",
    "SearchParams",
    "SearchResult",
    "__version__",
    "analyze",
    "brief",
    "frame",
    "show",
]

_HOMES = {
    "Brief": "query.brief",
    "Evaluator": "evaluators.protocol",
    "Graph": "graph.graph",
    "GraphSearchError": "base.errors",
    "Limits": "search.params",
    "MoveView": "graph.view",
    "NodeView": "graph.view",
    "Progress": "search.results",
    "SearchParams": "search.params",
    "SearchResult": "search.results",
    "WDL": "position.values",
    "analyze": "search.loop",
    "brief": "query.brief",
    "frame": "query.sql",
    "show": "graph.view",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
