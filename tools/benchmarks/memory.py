"""Compares a search within a memory budget with the same search with its whole graph in memory."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from hashlib import pbkdf2_hmac
from pathlib import Path
from typing import Any

import chess
import numpy as np

from graphsearch import Graph, Limits, SearchParams, analyze
from graphsearch.base.system import peak_memory
from graphsearch.evaluators.factory import create
from graphsearch.evaluators.protocol import Evaluation, Evaluator, PositionBatch
from graphsearch.evaluators.uniform import UniformEvaluator
from graphsearch.graph import arena_kernel
from graphsearch.search.results import Progress

from .clocks import timed
from .harness import Row, benchmark, fresh

SLICES = 10  # parts of a measured search; rates are medians over them
WARM_UP = 2  # the warm-up is 1/2 of the measured work; while memory is not full, up to 8 times the work
MOST_WARM_UP = 8
CALIBRATION = 200_000  # rounds
MB = 1_000_000
UNIFORM, BUILTIN = "uniform", "builtin"
ONE_THREAD = {"threads": "1"}


class SlowEvaluator(Evaluator):
    """Evaluates like `uniform`, outside the kernels, and keeps one core busy for `us` microseconds each.

    Attributes:
      seconds: spent so far.
    """

    identity = UniformEvaluator.identity

    def __init__(self, us: float) -> None:
        self._uniform, self.seconds = UniformEvaluator(), 0.0
        self._rounds = us * CALIBRATION / (1e6 * min(timed(lambda: _spin(CALIBRATION))[0] for _ in range(5)))

    def evaluate(self, batch: PositionBatch) -> Evaluation:
        """Returns equal probabilities, late."""
        begin = time.perf_counter()
        _spin(max(1, round(self._rounds * len(batch))))
        found = self._uniform.evaluate(batch)
        self.seconds += time.perf_counter() - begin
        return found


def _spin(rounds: int) -> None:
    """Keeps a core busy while other threads run."""
    pbkdf2_hmac("sha1", b"", b"", rounds)


@benchmark("evaluator", "memory", across="memory", compare=("per_s", "per_cpu_s"))
def beyond_memory(
    *,
    nodes: int = 10_000_000,
    ram_mb: int = 256,
    wave: int = 4096,
    visits: int = 500_000,
    evaluations: int = 80_000,
    slow_us: float = 100.0,
    builtin_nodes: int = 0,
    builtin_ram_mb: int = 30,
) -> Iterator[Row]:
    """A search that outgrows its memory beside the same one in memory, with fast and slow evaluations.

    A graph of --nodes is grown with `uniform`. The search continues it with all of it in memory and, from its
    file, within --ram-mb, each in a process of its own: --visits of `uniform`, --evaluations of an evaluator
    outside the kernels that takes --slow-us for a position. Rates are medians of ten parts of equal work.
    stall_s is the longest time between two waves, busy the evaluator's share of the time. With
    --builtin-nodes, --visits of `builtin`, one by one, in a graph of so many, within --builtin-ram-mb, too.
    """
    with tempfile.TemporaryDirectory(prefix="graphsearch-bench-") as name:
        works = [
            (UNIFORM, nodes, ram_mb, wave, 0.0, visits),
            (UNIFORM, nodes, ram_mb, wave, slow_us, evaluations),
            (BUILTIN, builtin_nodes, builtin_ram_mb, 1, 0.0, visits),
        ]
        for evaluator, count, ram, leaves, us, amount in works if builtin_nodes else works[:2]:
            file = Path(name) / f"{evaluator}.graph"
            if not file.exists():
                fresh(_grow, file, count, leaves, evaluator)
            for mb in (0, ram):
                key = {"evaluator": f"{us:g} us" if us else evaluator, "memory": f"{mb} MB" if mb else "all"}
                yield key | fresh(_search, file, count, mb * MB, leaves, us, amount, evaluator)


def _grow(file: Path, nodes: int, wave: int, evaluator: str) -> None:
    with Graph.open(file, evaluator=create(evaluator, ONE_THREAD)) as graph:
        _grow_graph(graph, nodes, wave)


def _grow_graph(graph: Graph, nodes: int, wave: int) -> None:
    while graph.node_count < nodes:
        some = Limits(visits=max(wave, (nodes - graph.node_count) // 2))
        analyze(graph, chess.Board(), some, SearchParams(minibatch_size=wave))


def _search(file: Path, nodes: int, budget: int, wave: int, us: float, amount: int, evaluator: str) -> Row:
    """Returns the figures of a search that continues the graph."""
    copy = file.with_name("copy.graph")
    if budget:
        shutil.copyfile(file, copy)
    _rehearse(file.with_name("tiny.graph"), evaluator)
    one = create(evaluator, ONE_THREAD)
    with Graph.open(copy if budget else None, evaluator=one, ram_bytes=budget or None) as graph:
        if budget:
            watched = _Watched("new_visits", wave, amount, graph)
            watched.search(graph, wave)  # fills the memory
        else:
            _grow_graph(graph, nodes, wave)
        slow = SlowEvaluator(us) if us else None
        graph.evaluator = slow or graph.evaluator
        found = _Watched("evaluations" if us else "new_visits", amount // WARM_UP, amount)
        found.search(graph, wave)
        busy = {"busy": slow.seconds / found.seconds} if slow else {}
        figures = found.figures() | busy | {"resident": graph.arena.node_count}
    return figures | {"peak_mb": peak_memory() / 1e6}


def _rehearse(file: Path, name: str) -> None:
    """Loads the kernels of searches with little memory, with evaluators inside and outside the kernels."""
    _grow(file, 3000, 64, name)
    for evaluator in (name, SlowEvaluator(1.0)) if name == UNIFORM else (name,):
        with Graph.open(file, evaluator=evaluator, ram_bytes=8_000_000) as graph:
            graph.pager.start_over()
            analyze(graph, chess.Board(), Limits(visits=2048), SearchParams(minibatch_size=64))
            graph.arena.evict(0, 0, [np.zeros(0, np.uint64)])
    file.unlink()


class _Watched:
    """A search of the start position that stops after a given amount of work beyond a warm-up.

    Attributes:
      seconds: wall time of the whole search.
    """

    def __init__(self, of: str, warm_up: int, amount: int, filled: Graph | None = None) -> None:
        self._of, self._warm_up, self._amount = of, warm_up, amount
        self._filled = filled  # the warm-up lasts until this graph's memory is full
        self._marks: list[tuple[float, float, int, int]] = []  # seconds, CPU-seconds, done, records read
        self._first = -1
        self._stop, self.seconds = threading.Event(), 0.0

    def search(self, graph: Graph, wave: int) -> None:
        """Searches; raises SystemExit if the search ends by itself."""
        params = SearchParams(minibatch_size=wave)
        began = time.perf_counter()
        found = analyze(
            graph, chess.Board(), None, params, on_progress=self._step, interval=0.0, stop=self._stop
        )
        self.seconds = time.perf_counter() - began
        if not self._stop.is_set():
            raise SystemExit(f"a search ended by {found.stop_reason}")

    def _step(self, now: Progress) -> None:
        if self._stop.is_set():
            return
        done = int(getattr(now, self._of))
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
            "counted": self._of,
            "per_s": float(np.median(parts / np.maximum(walls, 1e-9))),
            "per_cpu_s": float(np.median(parts / np.maximum(cpus, 1e-9))),
            "reads_each": float((measured[-1, 3] - measured[0, 3]) / (measured[-1, 2] - measured[0, 2])),
            "stall_s": float(np.diff(marks[:, 0]).max(initial=0.0)),
        }
