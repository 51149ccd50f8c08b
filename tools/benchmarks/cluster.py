"""Compares a cluster search with the same search in one process: speed, messages, time by phase."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import chess

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import EvaluatorSpec, create
from graphsearch.search.job import SearchJob
from graphsearch.search.shards import master, warm
from graphsearch.search.shards.master import ClusterSearch

from .growing import SHARD_PHASES
from .harness import Row, benchmark


@benchmark(
    "evaluator",
    "shards",
    across="shards",
    compare=("visits_per_s", "busiest_cpu_s", "cpu_s"),
)
def cluster(
    *,
    shards: tuple[int, ...] = (2,),
    evaluator: tuple[str, ...] = ("uniform",),
    batch: int = 16_384,
    visits: int = 2_000_000,
    overlap: int = 0,
    pool: str | None = None,
    rounds: int = 1,
) -> Iterator[Row]:
    """A search over a cluster against the same search in one process (0 shards): speed, messages, phases.

    Each shard evaluates with one thread, and so does the search in one process. Without --overlap both make
    the same records. CPU-seconds are those of the busiest process and of all; passing to waiting are seconds
    of a shard; bytes are those of messages for each visit and level.
    """
    params = SearchParams(minibatch_size=batch, overlap=overlap)
    warm.compile_kernels(create(EvaluatorSpec(evaluator="uniform")))
    for _ in range(rounds):
        for name in evaluator:
            spec = EvaluatorSpec(evaluator=name, options=(("threads", "1"),) if name != "uniform" else ())
            with tempfile.TemporaryDirectory() as folder:
                alone = _alone(Path(folder) / "one.graph", spec, visits, params)
                yield {"evaluator": name, "shards": 0} | alone
                for count in shards:
                    target = Path(folder) / f"{count}.cluster"
                    job = SearchJob(board=chess.Board(), limits=Limits(visits=visits), params=params)
                    found = master.analyze(target, job, evaluator=spec, shards=count, pool=pool)
                    same = found.result.new_visits == alone["visits"] and found.result.nodes == alone["nodes"]
                    yield {"evaluator": name, "shards": count} | _figures(found) | {"equal": same}


def _alone(path: Path, spec: EvaluatorSpec, visits: int, params: SearchParams) -> Row:
    with Graph.open(path, evaluator=spec) as graph:
        analyze(graph, chess.Board(), Limits(visits=1), params)
        root = graph.read(chess.Board())
        assert root is not None
        cpu, began = time.process_time(), time.monotonic()
        result = analyze(graph, chess.Board(), Limits(visits=visits - root.visits), params)
        seconds, spent = time.monotonic() - began, time.process_time() - cpu
    return {
        "visits": result.visits,
        "nodes": result.nodes,
        "evaluations": 1 + result.evaluations,
        "seconds": seconds,
        "visits_per_s": result.visits / seconds,
        "busiest_cpu_s": spent,
        "cpu_s": spent,
    }


def _figures(found: ClusterSearch) -> Row:
    parts = found.shards
    seconds, cpu = max(shard.seconds for shard in parts), [shard.cpu_seconds for shard in parts]
    levels = max(1, sum(shard.traffic.visit_levels for shard in parts))
    return {
        "visits": found.result.new_visits,
        "nodes": found.result.nodes,
        "evaluations": found.result.evaluations,
        "seconds": seconds,
        "visits_per_s": found.result.new_visits / seconds,
        "busiest_cpu_s": max(cpu),
        "cpu_s": sum(cpu),
        "steps": parts[0].traffic.steps,
        "messages": sum(shard.traffic.messages for shard in parts),
        "bytes": sum(shard.traffic.bytes for shard in parts) / levels,
        **{
            f"{name}_s": sum(getattr(shard.traffic, name) for shard in parts) / len(parts)
            for name in SHARD_PHASES
        },
    }
