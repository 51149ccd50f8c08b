"""Speed of exports in each format."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import chess
from graphsearch.cli.bench.starting import process_seconds

from graphsearch import Graph, Limits, analyze

from .harness import Row, benchmark

FORMATS = {"csv": ("--min-visits", "1"), "jsonl": ("--min-visits", "1"), "epd": (), "pgn": (), "bin": ()}


@benchmark("format")
def exports(*, store: Path | None = None, nodes: int = 1_000_000) -> Iterator[Row]:
    """Exports of a graph, CPU-seconds of whole processes; per_cpu_s counts the nodes of the file.

    Without --store the graph is that of a search of the start position with about --nodes evaluations.
    """
    with tempfile.TemporaryDirectory(prefix="graphsearch-bench-") as name:
        file = store or Path(name) / "grown.graph"
        with Graph.open(file) as graph:
            if store is None:
                analyze(graph, chess.Board(), Limits(evaluations=nodes))
            count = graph.node_count
        for ending, options in FORMATS.items():
            out = Path(name) / f"out.{ending}"
            arguments = ("export", "--store", str(file), "-o", str(out), *options)
            spent = process_seconds(arguments, os.environ)
            yield {
                "format": ending,
                "per_cpu_s": count / spent,
                "cpu_s": spent,
                "mb": out.stat().st_size / 1e6,
            }
            out.unlink()
