"""What a search costs that goes on with a file, beside the same one that never stopped."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import chess

from ..graph.graph import Graph
from ..search.loop import analyze
from ..search.params import Limits

RESUMED_NODES, PART, TURNS = 300_000, 6, 5  # of a file; then one part of so many more, in so many turns
SHORT_SEARCHES = 5


def resumed_figures(nodes: int = RESUMED_NODES) -> dict[str, float]:
    """Returns the figures by their names: a visit of either search, their ratio, and reading the file.

    Both searches go on from the same graph, in turns, and make the same visits. Reading the file, which
    comes first, is counted apart. All are CPU-seconds of the process, with saving and merging.
    """
    with tempfile.TemporaryDirectory() as folder:
        alone, path = _grown(Path(folder) / "alone.graph", nodes), Path(folder) / "resumed.graph"
        _grown(path, nodes).close()
        begin = time.process_time()
        resumed = Graph.open(path)
        resumed.load_ahead()
        while resumed.load_some(1.0):
            pass
        reading = (time.process_time() - begin) / resumed.node_count
        with alone, resumed:
            turns = [(_per_visit(alone, nodes), _per_visit(resumed, nodes)) for _ in range(TURNS)]
            one = statistics.median(_searched(resumed, 1)[1] for _ in range(SHORT_SEARCHES))
    unstopped, again = (statistics.median(column) for column in zip(*turns, strict=True))
    return {
        "one_evaluation_s": round(one, 3),
        "resumed_us_per_visit": round(1e6 * again, 2),
        "unstopped_us_per_visit": round(1e6 * unstopped, 2),
        "resumed_of_unstopped": round(statistics.median(b / a for a, b in turns), 2),
        "resumed_read_us_per_node": round(1e6 * reading, 2),
    }


def _grown(path: Path, nodes: int) -> Graph:
    graph = Graph.open(path)
    _searched(graph, nodes)
    return graph


def _per_visit(graph: Graph, nodes: int) -> float:
    """Returns the CPU-seconds of a visit of the next turn."""
    visits, seconds = _searched(graph, nodes // PART // TURNS)
    return seconds / visits


def _searched(graph: Graph, evaluations: int) -> tuple[int, float]:
    """Returns the visits of a search of the start position, and its CPU-seconds."""
    begin = time.process_time()
    visits = analyze(graph, chess.Board(), Limits(evaluations=evaluations)).new_visits
    return visits, time.process_time() - begin
