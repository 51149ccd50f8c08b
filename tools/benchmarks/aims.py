"""Limits on the costs of resuming, saving and exporting, beside the current costs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chess
from graphsearch.cli.bench import (
    RESUMED_NODES,
    SESSION_EVALUATIONS,
    process_seconds,
    resumed_figures,
    session_figures,
)

from graphsearch import Graph, Limits, analyze

from .harness import Row, benchmark, run

FORMATS = {"csv": ("--min-visits", "1"), "jsonl": ("--min-visits", "1"), "epd": (), "pgn": (), "bin": ()}
MOST, LEAST = "at_most", "at_least"


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
            spent, size = process_seconds(arguments, os.environ), out.stat().st_size
            yield {"format": ending, "per_cpu_s": count / spent, "cpu_s": spent, "mb": size / 1e6}
            out.unlink()


@benchmark("figure")
def aims(
    *,
    resumed_nodes: int = RESUMED_NODES,
    session_evaluations: int = SESSION_EVALUATIONS,
    nodes: int = 10_000_000,
    ram_mb: int = 228,
    builtin_nodes: int = 1_000_000,
    builtin_ram_mb: int = 30,
    wave: int = 4096,
    visits: int = 100_000,
    rounds: int = 3,
    seconds: float = 1.0,
) -> Iterator[Row]:
    """Figures that a release keeps, each with its aim: at_most, or at_least.

    They are those of `lab bench` (resumed_*, sessions_of_one) and of the benchmarks `beyond-memory`,
    `exports` and `mates-beside`. With the defaults that takes some ten minutes on a quiet machine.
    """
    bench = resumed_figures(resumed_nodes) | session_figures(session_evaluations)
    memory = _rows(
        "beyond-memory",
        nodes=nodes,
        ram_mb=ram_mb,
        wave=wave,
        visits=visits,
        evaluations=visits // 5,
        builtin_nodes=builtin_nodes,
        builtin_ram_mb=builtin_ram_mb,
    )
    ratios = {row["evaluator"]: row.get("per_s_ratio") for row in memory if row["memory"] != "all"}
    rates = {row["format"]: row["per_cpu_s"] for row in _rows("exports", nodes=builtin_nodes)}
    asked = _rows("mates-beside", visits=visits, rounds=rounds, seconds=seconds)
    beside = {row["positions"]: row for row in asked if row["prover"]}
    decided, others = (
        beside[f"first {seconds:g} s, {kind}"]["visits_per_cpu_s"] for kind in ("decided", "all queens")
    )
    figures: list[tuple[str, Any, str, float]] = [
        ("resumed_of_unstopped", bench["resumed_of_unstopped"], MOST, 1.15),
        ("resumed_image_us_per_node", bench["resumed_image_us_per_node"], MOST, 0.2),
        ("resumed_read_us_per_node", bench["resumed_read_us_per_node"], MOST, 1.0),
        ("sessions_of_one", bench["sessions_of_one"], MOST, 1.3),
        ("beyond memory, uniform", ratios["uniform"], LEAST, 0.2),
        ("beyond memory, builtin", ratios["builtin"], LEAST, 0.5),
        ("beyond memory, 100 us", ratios["100 us"], LEAST, 0.98),
        *((f"export {name}, nodes per CPU-second", rates[name], LEAST, 100_000) for name in FORMATS),
        ("prover, CPU of a decided position", beside["decided"]["cpu_s_ratio"], MOST, 1.06),
        ("prover, visits of the first CPU-second", decided / others, LEAST, 0.9),
    ]
    for name, value, bound, aim in figures:
        yield {"figure": name, "value": value, bound: aim}


def _rows(name: str, **options: float) -> list[Row]:
    """Returns the rows of another benchmark."""
    found: list[Row] = run(name, options)["rows"]
    return found
