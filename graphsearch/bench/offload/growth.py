"""Growing a file by the flush path alone, and the searches in RAM that others are compared with."""

from __future__ import annotations

import time
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ...evaluators.uniform import UniformEvaluator
from ...graph import arena_kernel
from ...graph.arena import Arena, Saving
from ...graph.graph import Graph
from ...graph.summary import top_rows
from ...position.board import POSITION_WORDS, key_of
from ...search import wave_kernel
from ...search.loop import analyze
from ...search.params import Limits, SearchParams
from ...store.file import file_bytes
from ...store.store import Store
from ...store.upkeep.compact import tidy
from .instruments import MeasuredSearch, SlowEvaluator, Stopwatch, io_counters, per
from .plan import LARGE_WAVE, READ_BATCH, READ_BATCHES, WAVE, Figures, Plan

FLUSH_RECORDS = 200_000  # of one transaction, as in a long search
GROWN_AT_ONCE = 1 << 18  # visits


def grow(plan: Plan) -> Figures:
    """Makes the file by the flush path alone, and measures the searches that go on with all of it in RAM."""
    graph = Graph(UniformEvaluator(), None)
    _log_all(graph.arena, plan.nodes)
    begin = time.perf_counter()
    while graph.node_count < plan.nodes:
        some = min(GROWN_AT_ONCE, max(WAVE, plan.nodes - graph.node_count))
        analyze(graph, chess.Board(), Limits(visits=some), SearchParams(minibatch_size=WAVE))
    grown = time.perf_counter() - begin
    figures: Figures = {"nodes": graph.node_count, "grow_in_ram_nodes_per_s": round(graph.node_count / grown)}
    figures["ram_bytes_per_node"] = round(graph.arena.bytes_used / graph.node_count, 1)
    figures |= _save(plan, graph)
    arena = graph.arena
    arena.arrays = arena.arrays._replace(log=np.zeros(0, np.uint64))  # nothing is dirty from now on
    return figures | _in_ram(plan, graph)


def _log_all(arena: Arena, nodes: int) -> None:
    """Lets an arena log what is dirty, with room for all of it: the log holds the order of creation."""
    rows = nodes + 4 * (wave_kernel.ENTRIES_PER_LEAF * LARGE_WAVE + wave_kernel.SPARE_ENTRIES)
    arena.arrays = arena.arrays._replace(log=np.zeros(rows * arena_kernel.LOG_WORDS, np.uint64))


def _save(plan: Plan, graph: Graph) -> Figures:
    """Saves an arena of dirty records as a long search does, merges included."""
    nodes, before, watch = graph.node_count, io_counters(), Stopwatch()
    saver = _InPieces(watch)
    begin = time.perf_counter()
    with Store.open(plan.file, identity=graph.evaluator.identity, create=True) as store:
        saver.save(store, graph)
        saved = time.perf_counter()
        tidy(store)
        free = _pragma(store, "freelist_count") * _pragma(store, "page_size")
        runs = len(store.catalog.segments)
    seconds = time.perf_counter() - begin
    np.save(plan.sample, _sample(graph.arena.arrays.log, nodes))
    marks = [(0, begin), *saver.marks, (nodes, saved)]
    first = next(mark for mark in marks if mark[0] >= 0.9 * nodes)
    first = marks[max(0, marks.index(first) - (first[0] == nodes))]
    last_rate = (nodes - first[0]) / (saved - first[1])
    shares = {f"share_{name}_grow": round(spent / seconds, 3) for name, spent in watch.seconds.items()}
    return {
        "grow_nodes_per_s": round(nodes / seconds),
        "grow_nodes_per_s_last_tenth": round(last_rate),
        **shares,
        "written_bytes_per_node": per(nodes, before, "wchar"),
        "written_to_disk_bytes_per_node": per(nodes, before, "write_bytes"),
        "file_bytes_per_node": round(file_bytes(plan.file) / nodes, 2),
        "file_free_bytes_per_node": round(free / nodes, 2),
        "file_runs": runs,
    }


def _pragma(store: Store, name: str) -> int:
    return int(store.connection.execute(f"PRAGMA {name}").fetchone()[0])


class _InPieces:
    """Saves dirty records in the order in which they were made, a piece of the log at a time.

    Attributes:
      marks: how many nodes were saved and merged, and when.
    """

    def __init__(self, watch: Stopwatch) -> None:
        self.marks: list[tuple[int, float]] = []
        for method, name in (("_copy", "copying"), ("_append", "appending"), ("_merge", "merging")):
            watch.watch(self, method, name)

    def save(self, store: Store, graph: Graph) -> None:
        """Saves all of it, and what a person reads about the search."""
        arena, whole = graph.arena, graph.arena.arrays
        total = arena.dirty_count
        for begin in range(0, total, FLUSH_RECORDS):
            count = min(FLUSH_RECORDS, total - begin)
            saving = self._copy(arena, whole, begin, count)
            self._append(store, saving)
            self._merge(store)
            self.marks.append((begin + count, time.perf_counter()))
        arena.arrays = whole
        _write_tables(store, graph)

    def _copy(self, arena: Arena, whole: arena_kernel.ArenaArrays, begin: int, count: int) -> Saving:
        rows = slice(begin * arena_kernel.LOG_WORDS, (begin + count) * arena_kernel.LOG_WORDS)
        arena.arrays = whole._replace(log=whole.log[rows])
        arena.counters[arena_kernel.DIRTY_NODES] = count
        saving = arena.begin_saving()
        arena.end_saving(saving)
        return saving

    def _append(self, store: Store, saving: Saving) -> None:
        with store.transaction():
            store.append_parts(saving.batches, fresh=saving.fresh)
        store.checkpoint()

    def _merge(self, store: Store) -> None:
        while store.merge_step():
            store.checkpoint()
        store.checkpoint()


def _sample(log: NDArray[np.uint64], nodes: int) -> NDArray[np.uint64]:
    """Returns some of the positions of a log in random order, `[K, 10]`."""
    rows = log.reshape(-1, arena_kernel.LOG_WORDS)[:nodes, :POSITION_WORDS]
    picked = np.random.default_rng(1).choice(nodes, min(nodes, READ_BATCH * READ_BATCHES), replace=False)
    return rows[picked]


def _write_tables(store: Store, graph: Graph) -> None:
    """Writes what the plain tables say of a search of the start position."""
    board = chess.Board()
    record = graph.read(board)
    assert record is not None
    with store.transaction():
        run = store.begin_run(board.fen(), {}, SearchParams(minibatch_size=WAVE).as_dict())
        store.finish_run(run, record.visits, graph.node_count)
        store.record_root(f"{key_of(board):016x}", board.fen(), record.visits)
        store.write_top(*top_rows(graph.read, board))


def _in_ram(plan: Plan, graph: Graph) -> Figures:
    """Returns the speeds of searches that go on from here in memory."""
    options: dict[str, Any] = {"warm_up": plan.visits // 10, "amount": plan.visits, "batch": plan.wave}
    uniform = MeasuredSearch(graph, of="new_visits", **options).search()
    single = MeasuredSearch(graph, of="new_visits", **{**options, "batch": 1}).search()
    slow = SlowEvaluator(plan.rounds)
    graph.evaluator = slow
    options |= {"warm_up": plan.evaluations // 4, "amount": plan.evaluations}
    late = MeasuredSearch(graph, of="evaluations", **options).search()
    return {
        "ram_visits_per_s_uniform": round(uniform.rate()),
        "ram_visits_per_s_uniform_whole": round(uniform.whole_rate()),
        "ram_visits_per_cpu_s_uniform": round(uniform.cpu_rate()),
        **_of_ram(uniform.figures("uniform")),
        "ram_visits_per_s_single": round(single.rate()),
        "ram_visits_per_cpu_s_single": round(single.cpu_rate()),
        "ram_evaluations_per_s_100us": round(late.rate()),
        "ram_evaluations_per_s_100us_whole": round(late.whole_rate()),
        **_of_ram(late.figures("100us")),
        "ram_us_per_evaluation_100us": round(slow.us, 1),
    }


def _of_ram(figures: Figures) -> Figures:
    """Returns those figures that a search without a file has."""
    own = ("cores_used", "search_thread_queued")
    return {f"ram_{name}": value for name, value in figures.items() if name.startswith(own)}
