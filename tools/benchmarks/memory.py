"""Compares a search within a memory budget with the same search with its whole graph in memory."""

from __future__ import annotations

import resource
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import chess
import numpy as np

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import create
from graphsearch.graph import arena_kernel
from graphsearch.search.results import SearchResult

from .harness import Row, benchmark, fresh, timed

WARM_UP = 2  # the warm-up is 1/2 of the measured work; while memory is not full, up to 8 times the work
MOST_WARM_UP = 8
MB = 1_000_000
UNIFORM, BUILTIN = "uniform", "builtin"
ONE_THREAD = {"threads": "1"}


@benchmark("evaluator", "memory", across="memory", compare=("per_s", "per_cpu_s"))
def beyond_memory(
    *,
    nodes: int = 10_000_000,
    ram_mb: int = 256,
    wave: int = 4096,
    visits: int = 500_000,
    builtin_nodes: int = 0,
    builtin_ram_mb: int = 30,
) -> Iterator[Row]:
    """A search that outgrows its memory beside the same one in memory.

    A graph of --nodes is grown with `uniform`. --visits continue it with all of it in memory and, from its
    file, within --ram-mb, each in a process of its own. With --builtin-nodes the same with `builtin`, one
    visit at a time, in a graph of so many, within --builtin-ram-mb.
    """
    with tempfile.TemporaryDirectory(prefix="graphsearch-bench-") as name:
        works = [
            (UNIFORM, nodes, ram_mb, wave),
            (BUILTIN, builtin_nodes, builtin_ram_mb, 1),
        ]
        for evaluator, count, ram, leaves in works if builtin_nodes else works[:1]:
            file = Path(name) / f"{evaluator}.graph"
            fresh(_grow, file, count, leaves, evaluator)
            for mb in (0, ram):
                key = {"evaluator": evaluator, "memory": f"{mb} MB" if mb else "all"}
                yield key | fresh(_search, file, count, mb * MB, leaves, visits, evaluator)


def _grow(file: Path, nodes: int, wave: int, evaluator: str) -> None:
    with Graph.open(file, evaluator=create(evaluator, ONE_THREAD)) as graph:
        _grow_graph(graph, nodes, wave)


def _grow_graph(graph: Graph, nodes: int, wave: int) -> None:
    while graph.node_count < nodes:
        some = Limits(visits=max(wave, (nodes - graph.node_count) // 2))
        analyze(graph, chess.Board(), some, SearchParams(minibatch_size=wave))


def _search(file: Path, nodes: int, budget: int, wave: int, amount: int, evaluator: str) -> Row:
    """Returns the figures of a search that continues the graph."""
    copy = file.with_name("copy.graph")
    if budget:
        shutil.copyfile(file, copy)
    _rehearse(file.with_name("tiny.graph"), evaluator)
    one, results = create(evaluator, ONE_THREAD), list[SearchResult]()
    with Graph.open(copy if budget else None, evaluator=one, ram_bytes=budget or None) as graph:

        def search(visits: int) -> None:
            params = SearchParams(minibatch_size=wave)
            results.append(analyze(graph, chess.Board(), Limits(visits=visits), params))
            if results[-1].stop_reason != "visits":
                raise SystemExit(f"a search ended by {results[-1].stop_reason}")

        if not budget:
            _grow_graph(graph, nodes, wave)
        search(amount // WARM_UP)
        while budget and not graph.arena.counters[arena_kernel.EVICTED] and len(results) < MOST_WARM_UP:
            search(amount)
        wall, cpu = timed(partial(search, amount))
        done = results[-1].new_visits
        return {
            "per_s": done / wall,
            "per_cpu_s": done / cpu,
            "reads_each": results[-1].read_back / done,
            "resident": graph.arena.node_count,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
        }


def _rehearse(file: Path, name: str) -> None:
    """Loads the kernels of searches with little memory."""
    _grow(file, 3000, 64, name)
    with Graph.open(file, evaluator=name, ram_bytes=8_000_000) as graph:
        graph.pager.start_over()
        analyze(graph, chess.Board(), Limits(visits=2048), SearchParams(minibatch_size=64))
        graph.arena.evict(0, 0, [np.zeros(0, np.uint64)])
    file.unlink()
