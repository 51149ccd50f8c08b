"""Measures a search resumed from a file against the same search without a stop."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import chess

from graphsearch.evaluators.factory import create
from graphsearch.graph.graph import Graph
from graphsearch.search.loop import analyze
from graphsearch.search.params import Limits
from graphsearch.store.store import Store
from graphsearch.store.tables.unfinished import IMAGE

RESUMED_NODES, PART, TURNS = 300_000, 6, 5  # in the file; a search adds 1/PART of them in TURNS turns
SHORT_SEARCHES = 5


def resumed_figures(nodes: int = RESUMED_NODES) -> dict[str, float]:
    """Returns the figures by name: the cost of a visit in either search, their ratio, and opening the file.

    Both searches continue from the same graph, in turns, and make the same visits. Loading the image of the
    graph, and reading a file without an image, are measured separately. All are CPU-seconds of the process,
    saving and merging included.
    """
    with tempfile.TemporaryDirectory() as folder:
        alone, path = _grown(Path(folder) / "alone.graph", nodes), Path(folder) / "resumed.graph"
        _grown(path, nodes).close()
        graph, opening = _opened(path)
        taking = opening / graph.node_count
        graph.close()
        with Store.open(path) as store:
            store.write_fact(IMAGE, None)
        resumed, opening = _opened(path)
        reading = opening / resumed.node_count
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
        "resumed_image_us_per_node": round(1e6 * taking, 2),
    }


def _opened(path: Path) -> tuple[Graph, float]:
    """Loads a whole file; returns its graph and the CPU-seconds of loading."""
    begin = time.process_time()
    graph = Graph.open(path, evaluator=create("builtin", {"threads": "1"}))
    graph.load_ahead()
    while graph.load_some(1.0):
        pass
    return graph, time.process_time() - begin


def _grown(path: Path, nodes: int) -> Graph:
    graph = Graph.open(path, evaluator=create("builtin", {"threads": "1"}))
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
