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

from .harness import Row, benchmark

PHASES = ("passing", "admitting", "evaluating", "backing", "waiting")


@benchmark(
    *("evaluator", "shards"),
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
    job = SearchJob(board=chess.Board(), limits=Limits(visits=visits), params=params)
    warm.compile_kernels(create("uniform"))
    for name in evaluator * rounds:
        spec = EvaluatorSpec(evaluator=name, options=(("threads", "1"),))
        with tempfile.TemporaryDirectory() as folder:
            alone = _alone(Path(folder) / "one.graph", spec, visits, params)
            yield {"evaluator": name, "shards": 0} | alone
            for count in shards:
                target = Path(folder) / f"{count}.cluster"
                found = _figures(master.analyze(target, job, evaluator=spec, shards=count, pool=pool))
                same = all(found[key] == alone[key] for key in ("visits", "nodes"))
                yield {"evaluator": name, "shards": count} | found | {"equal": same}


def _alone(path: Path, spec: EvaluatorSpec, visits: int, params: SearchParams) -> Row:
    with Graph.open(path, evaluator=spec) as graph:
        analyze(graph, chess.Board(), Limits(visits=1), params)
        root = graph.read(chess.Board())
        assert root is not None
        cpu, began = time.process_time(), time.monotonic()
        result = analyze(graph, chess.Board(), Limits(visits=visits - root.visits), params)
        seconds, spent = time.monotonic() - began, time.process_time() - cpu
    return _row(result.visits, result.nodes, 1 + result.evaluations, seconds, [spent])


def _row(visits: int, nodes: int, evaluations: int, seconds: float, cpu: list[float]) -> Row:
    return {
        "visits": visits,
        "nodes": nodes,
        "evaluations": evaluations,
        "seconds": seconds,
        "visits_per_s": visits / seconds,
        "busiest_cpu_s": max(cpu),
        "cpu_s": sum(cpu),
    }


def _figures(found: ClusterSearch) -> Row:
    parts, result = found.shards, found.result
    traffic, cpu = [shard.traffic for shard in parts], [shard.cpu_seconds for shard in parts]
    levels, seconds = max(1, sum(t.visit_levels for t in traffic)), max(shard.seconds for shard in parts)
    return _row(result.new_visits, result.nodes, result.evaluations, seconds, cpu) | {
        "steps": traffic[0].steps,
        "messages": sum(t.messages for t in traffic),
        "bytes": sum(t.bytes for t in traffic) / levels,
        **{f"{phase}_s": sum(getattr(t, phase) for t in traffic) / len(parts) for phase in PHASES},
    }
