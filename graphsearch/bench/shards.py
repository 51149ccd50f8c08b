"""A search over a cluster against the same search in one process: speed, messages, where the time goes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chess

from ..cluster import master, warm
from ..cluster.job import ShardReport
from ..evaluators.factory import EvaluatorSpec, create
from ..graph.graph import Graph
from ..search.loop import analyze
from ..search.params import Limits, SearchParams

PHASES = ("passing", "admitting", "evaluating", "backing", "waiting")


def measure(
    report: Callable[[str], None] = lambda _: None,
    *,
    shards: int,
    evaluator: str = "uniform",
    batch: int = 16_384,
    visits: int = 2_000_000,
    overlap: int = 0,
    pool: str | None = None,
) -> dict[str, Any]:
    """Returns the figures of one search in one process, and of the same one over so many shards.

    Each shard evaluates with one thread, and so does the search in one process. Without overlap both make the
    same records; with it each evaluates somewhat more or less for the same visits.

    Args:
      report: told what is measured.
      batch: leaves of a wave. visits: of the search, from nothing. overlap: `Overlap` of both searches.
      pool: where shards run, as for `cluster.master.analyze`.
    """
    spec = EvaluatorSpec(evaluator=evaluator, options=(("threads", "1"),) if evaluator != "uniform" else ())
    params = SearchParams(minibatch_size=batch, overlap=overlap)
    warm.compile_kernels(create(EvaluatorSpec(evaluator="uniform")))
    with tempfile.TemporaryDirectory() as folder:
        report("search in one process")
        alone = _alone(Path(folder) / "one.graph", spec, visits, params)
        report(f"search over {shards} shards")
        target, limits = Path(folder) / "a.cluster", Limits(visits=visits)
        found = master.analyze(
            target, chess.Board(), limits, params, evaluator=spec, shards=shards, pool=pool
        )
    return {
        "shards": shards,
        "evaluator": evaluator,
        "batch": batch,
        "overlap": overlap,
        "visits": found.result.new_visits,
        "evaluations": found.result.evaluations,
        "nodes": found.result.nodes,
        "equal": alone["visits"] == found.result.new_visits and alone["nodes"] == found.result.nodes,
        "alone": alone,
    } | _figures(found.shards, found.result.new_visits, alone)


def _alone(path: Path, spec: EvaluatorSpec, visits: int, params: SearchParams) -> dict[str, Any]:
    evaluator = create(spec)
    try:
        with Graph.open(path, evaluator=evaluator) as graph:
            analyze(graph, chess.Board(), Limits(visits=1), params)
            cpu, began = time.process_time(), time.monotonic()
            result = analyze(graph, chess.Board(), Limits(visits=visits - _root_visits(graph)), params)
            seconds, spent = time.monotonic() - began, time.process_time() - cpu
    finally:
        evaluator.close()
    return {
        "visits": result.visits,
        "evaluations": 1 + result.evaluations,
        "nodes": result.nodes,
        "seconds": seconds,
        "cpu_seconds": spent,
    }


def _root_visits(graph: Graph) -> int:
    """Returns the visits of the start position."""
    record = graph.read(chess.Board())
    return record.visits if record else 0


def _figures(shards: list[ShardReport], visits: int, alone: dict[str, Any]) -> dict[str, Any]:
    """Returns what the reports of all shards say together."""
    seconds = max(shard.seconds for shard in shards)
    cpu = [shard.cpu_seconds for shard in shards]
    levels = max(1, sum(shard.traffic.visit_levels for shard in shards))
    return {
        "seconds": seconds,
        "speedup": alone["seconds"] / seconds * visits / alone["visits"],
        "cpu_seconds": sum(cpu),
        "most_cpu_seconds": max(cpu),
        "cpu_speedup": alone["cpu_seconds"] / max(cpu) * visits / alone["visits"],
        "steps": shards[0].traffic.steps,
        "messages": sum(shard.traffic.messages for shard in shards),
        "message_bytes": sum(shard.traffic.bytes for shard in shards),
        "bytes_per_visit_level": sum(shard.traffic.bytes for shard in shards) / levels,
        "visit_levels": levels,
        "entry_levels": sum(shard.traffic.entry_levels for shard in shards),
        "phases": {
            name: sum(getattr(shard.traffic, name) for shard in shards) / len(shards) for name in PHASES
        },
    }
