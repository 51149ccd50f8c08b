"""Compares a search within a memory budget with the same search with its whole graph in memory."""

from __future__ import annotations

import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chess
import numpy as np

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.evaluators.factory import create
from graphsearch.graph import arena_kernel
from graphsearch.search.results import Progress

from .harness import Row, benchmark, fresh

SLICES = 10  # parts of a measured search; rates are medians over them
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
    file, within --ram-mb, each in a process of its own. Rates are medians of ten parts of equal work, stall_s
    is the longest time between two waves. With --builtin-nodes the same with `builtin`, one visit at a time,
    in a graph of so many, within --builtin-ram-mb.
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
    one = create(evaluator, ONE_THREAD)
    with Graph.open(copy if budget else None, evaluator=one, ram_bytes=budget or None) as graph:
        if budget:
            watched = _Watched(wave, amount, graph)
            watched.search(graph, wave)  # fills the memory
        else:
            _grow_graph(graph, nodes, wave)
        found = _Watched(amount // WARM_UP, amount)
        found.search(graph, wave)
        figures = found.figures() | {"resident": graph.arena.node_count}
    return figures | {"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6}


def _rehearse(file: Path, name: str) -> None:
    """Loads the kernels of searches with little memory."""
    _grow(file, 3000, 64, name)
    with Graph.open(file, evaluator=name, ram_bytes=8_000_000) as graph:
        graph.pager.start_over()
        analyze(graph, chess.Board(), Limits(visits=2048), SearchParams(minibatch_size=64))
        graph.arena.evict(0, 0, [np.zeros(0, np.uint64)])
    file.unlink()


class _Watched:
    """A search of the start position that stops after a given number of visits beyond a warm-up."""

    def __init__(self, warm_up: int, amount: int, filled: Graph | None = None) -> None:
        self._warm_up, self._amount = warm_up, amount
        self._filled = filled  # the warm-up lasts until this graph's memory is full
        self._marks: list[tuple[float, float, int, int]] = []  # seconds, CPU-seconds, done, records read
        self._first = -1
        self._stop = threading.Event()

    def search(self, graph: Graph, wave: int) -> None:
        """Searches; raises SystemExit if the search ends by itself."""
        params = SearchParams(minibatch_size=wave)
        found = analyze(
            graph, chess.Board(), None, params, on_progress=self._step, interval=0.0, stop=self._stop
        )
        if not self._stop.is_set():
            raise SystemExit(f"a search ended by {found.stop_reason}")

    def _step(self, now: Progress) -> None:
        if self._stop.is_set():
            return
        done = now.new_visits
        self._marks.append((time.perf_counter(), time.process_time(), done, now.read_back))
        if self._first < 0:
            full = self._filled is None or self._filled.arena.counters[arena_kernel.EVICTED]
            if done >= self._warm_up and (full or done > MOST_WARM_UP * self._amount):
                self._first = len(self._marks) - 1
        elif done - self._marks[self._first][2] >= self._amount:
            self._stop.set()

    def figures(self) -> Row:
        """Returns the figures of the measured part; the longest stall is of the whole search."""
        marks: Any = np.array(self._marks, np.float64)
        measured = marks[self._first :]
        bounds = np.linspace(measured[0, 2], measured[-1, 2], SLICES + 1)
        walls, cpus = (np.diff(np.interp(bounds, measured[:, 2], measured[:, k])) for k in (0, 1))
        parts = np.diff(bounds)
        return {
            "per_s": float(np.median(parts / np.maximum(walls, 1e-9))),
            "per_cpu_s": float(np.median(parts / np.maximum(cpus, 1e-9))),
            "reads_each": float((measured[-1, 3] - measured[0, 3]) / (measured[-1, 2] - measured[0, 2])),
            "stall_s": float(np.diff(marks[:, 0]).max(initial=0.0)),
        }
