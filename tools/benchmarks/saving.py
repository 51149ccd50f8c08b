"""Costs of a graph file: saving and loading nodes, and a search with a file beside one without."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import chess

from graphsearch import Graph, Limits, analyze
from graphsearch.evaluators.factory import create
from graphsearch.graph.arena import Arena
from graphsearch.store.store import Store

from .harness import Row, benchmark, timed


@benchmark("evaluator", "what", across="what", compare=("cpu_us",))
def saving(*, nodes: int = 1_000_000, builtin_nodes: int = 100_000, pairs: int = 3) -> Iterator[Row]:
    """CPU time of a search without a file and with one, and of loading its nodes again.

    The difference of the first two is the cost of saving. cpu_us is for each node; opening and closing are
    included, and everything is searched once before, so that nothing is compiled while the clock runs.
    """
    for kind, size in (("uniform", nodes), ("builtin", builtin_nodes)):
        with tempfile.TemporaryDirectory(prefix="graphsearch-bench-") as folder:
            path = Path(folder) / "saved.graph"
            for number in range(-1, pairs):
                searched = size if number >= 0 else 1000
                path.unlink(missing_ok=True)
                for what, file in (("search", None), ("search with a file", path)):
                    _, spent = timed(partial(_search, kind, file, searched))
                    if number >= 0:
                        yield {"evaluator": kind, "what": what, "cpu_us": 1e6 * spent / size}
                _, spent = timed(partial(_load, path))
                if number >= 0:
                    each = {"cpu_us": 1e6 * spent / size, "bytes": path.stat().st_size / size}
                    yield {"evaluator": kind, "what": "load", **each}


def _search(kind: str, path: Path | None, evaluations: int) -> None:
    with Graph.open(path, evaluator=create(kind, {"threads": "1"})) as graph:
        analyze(graph, chess.Board(), Limits(evaluations=evaluations))


def _load(path: Path) -> None:
    arena = Arena(logged=False)
    with Store.open(path, read_only=True) as store:
        for batch in store.scan():
            arena.load(batch)
