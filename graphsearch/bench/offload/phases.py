"""The parts of the benchmark by name. Each runs in a process of its own and leaves FOLDER/PHASE.json."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chess
import numpy as np
from numpy.typing import NDArray

from ...evaluators.uniform import UniformEvaluator
from ...graph import arena_kernel
from ...graph.arena import MIN_TABLE
from ...graph.graph import Graph
from ...search.loop import analyze
from ...search.params import Limits, SearchParams
from ...store.file import file_bytes
from ...store.store import Store
from ...workers.process import peak_rss
from .growth import grow
from .instruments import (
    SLOW_US,
    MeasuredSearch,
    SlowEvaluator,
    Stopwatch,
    io_counters,
    per,
    rounds_per_us,
)
from .plan import READ_BATCH, READ_BATCHES, WAVE, Figures, Plan

FEW_NODES = 64
WARM_NODES, WARM_BYTES = 3000, 8_000_000


# ------------------------------------------------------------------ warm
def warm(plan: Plan) -> Figures:
    """Compiles every kernel that is measured by a small run of everything; makes the file of few nodes."""
    with Graph.open(plan.few, evaluator=UniformEvaluator()) as graph:
        analyze(graph, chess.Board(), Limits(visits=FEW_NODES))
    rounds = rounds_per_us()
    small = Path(plan.folder) / "warm"
    small.mkdir()
    tiny = Plan(
        folder=str(small),
        nodes=WARM_NODES,
        ram_bytes=WARM_BYTES,
        visits=WARM_NODES,
        evaluations=2 * WAVE,
        rounds=1,
    )
    grow(tiny)
    shutil.copyfile(tiny.file, tiny.copy)
    page(tiny)
    search_uniform(tiny)
    search_single(tiny)
    search_slow(tiny)
    reads(tiny)
    shutil.copyfile(plan.few, tiny.few)
    open_file(tiny)
    return {"rounds": round(SLOW_US * rounds)}


def page(plan: Plan) -> None:
    """Drops all of a graph, searches on, and outgrows the table, as the long runs do."""
    with Graph.open(plan.copy, evaluator=UniformEvaluator()) as graph:
        graph.pager.start_over()
        analyze(graph, chess.Board(), Limits(visits=WAVE), SearchParams(minibatch_size=16))
        graph.arena.evict(0, 0, [np.zeros(0, np.uint64)])
        graph.arena.make_room(2 * MIN_TABLE)


# ------------------------------------------------------------------ offload
def search_uniform(plan: Plan) -> Figures:
    """Goes on with the copy inside the budget, with `uniform`."""
    base = peak_rss()
    with _budgeted(plan) as (graph, watch, figures):
        fill = _fill(graph, plan)
        rates = MeasuredSearch(
            graph,
            of="new_visits",
            warm_up=plan.visits // 10,
            amount=plan.visits,
            batch=plan.wave,
            watch=watch,
        ).search()
        figures |= {
            "offload_visits_per_s_uniform": round(rates.rate()),
            "offload_visits_per_s_uniform_whole": round(rates.whole_rate()),
            "offload_visits_per_cpu_s_uniform": round(rates.cpu_rate()),
            "longest_stall_s": round(max(fill, rates.longest_gap()), 3),
            **rates.figures("uniform"),
        }
    return {**figures, "peak_rss": peak_rss(), "rss_before_opening": base}


def search_single(plan: Plan) -> Figures:
    """Goes on with the copy inside the budget, with `uniform`, one visit after the other as by default."""
    with _budgeted(plan) as (graph, watch, _):
        _fill(graph, plan)
        options: dict[str, Any] = {"warm_up": plan.visits // 10, "amount": plan.visits}
        rates = MeasuredSearch(graph, of="new_visits", batch=1, watch=watch, **options).search()
        found = {
            "offload_visits_per_s_single": round(rates.rate()),
            "offload_visits_per_cpu_s_single": round(rates.cpu_rate()),
            **rates.figures("single"),
        }
    return {**found, "peak_rss_single": peak_rss()}


def search_slow(plan: Plan) -> Figures:
    """Goes on with the copy inside the budget: once that is full, with the slow evaluator."""
    slow = SlowEvaluator(plan.rounds)
    with _budgeted(plan) as (graph, watch, _):
        _fill(graph, plan)
        graph.evaluator = slow
        options: dict[str, Any] = {"warm_up": plan.evaluations // 4, "amount": plan.evaluations}
        rates = MeasuredSearch(graph, of="evaluations", batch=plan.wave, watch=watch, **options).search()
        found = {
            "offload_evaluations_per_s_100us": round(rates.rate()),
            "offload_evaluations_per_s_100us_whole": round(rates.whole_rate()),
            "longest_gap_s_100us": round(rates.longest_gap(), 3),
            **rates.figures("100us"),
            "offload_us_per_evaluation_100us": round(slow.us, 1),
            "evictions_100us": figures_of_memory(graph)["evictions"],
        }
    return {**found, "peak_rss_100us": peak_rss()}


@contextmanager
def _budgeted(plan: Plan) -> Iterator[tuple[Graph, Stopwatch, Figures]]:
    """Opens the copy; its figures are complete when it is closed."""
    before, figures, watch = io_counters(), Figures(), Stopwatch()
    with Graph.open(plan.copy, evaluator=UniformEvaluator(), ram_bytes=plan.ram_bytes) as graph:
        assert graph.store is not None
        first = graph.node_count
        _watch(watch, graph)
        yield graph, watch, figures
        figures |= figures_of_memory(graph)
        added = graph.node_count - first
    figures |= {
        "search_new_nodes": added,
        "search_written_bytes_per_node": per(added, before, "wchar"),
        "search_written_to_disk_bytes_per_node": per(added, before, "write_bytes"),
        "search_file_bytes_per_node": round(file_bytes(plan.copy) / (first + added), 2),
    }


def figures_of_memory(graph: Graph) -> Figures:
    """Returns what is in memory, and what went."""
    return {
        "resident_nodes": graph.arena.node_count,
        "resident_bytes": graph.arena.bytes_used,
        "evictions": int(graph.arena.counters[arena_kernel.EVICTED]),
        "read_back": graph.pager.read_back,
    }


def _watch(watch: Stopwatch, graph: Graph) -> None:
    for owner, method, name in (
        (graph.pager, "bring", "reading"),
        (graph.arena, "load", "entering"),
        (graph.arena, "evict", "evicting"),
        (graph, "begin_saving", "copying"),
        (graph, "settle", "waiting_for_writer"),
    ):
        watch.watch(owner, method, name)


def _fill(graph: Graph, plan: Plan) -> float:
    """Searches with `uniform` until memory is full; returns the longest time between two steps."""
    counters = graph.arena.counters
    warm_up = max(plan.wave, plan.visits // 2)
    filling = MeasuredSearch(
        graph,
        of="new_visits",
        warm_up=warm_up,
        amount=1,
        batch=plan.wave,
        is_warm=lambda: bool(counters[arena_kernel.EVICTED]),
    )
    return filling.search().longest_gap()


# ------------------------------------------------------------------ reads and opening
def reads(plan: Plan) -> Figures:
    """Reads batches of random positions, their pages dropped from memory before, and again."""
    positions = np.load(plan.sample)
    size = min(READ_BATCH, max(1, len(positions) // READ_BATCHES))
    batches = [positions[i : i + size] for i in range(0, size * (len(positions) // size), size)]
    with Store.open(plan.file, read_only=True) as store:
        switch = "threads" in inspect.signature(store.reader).parameters
        one: dict[str, Any] = {"threads": 1} if switch else {}
        figures = _read(store, plan, batches, "", one)
        if switch:
            figures |= _read(store, plan, batches, "_several_threads", {})
    return {**figures, "read_batch": size}


def _read(
    store: Store, plan: Plan, batches: list[NDArray[np.uint64]], suffix: str, options: dict[str, Any]
) -> Figures:
    with store.reader(**options) as reader:
        reader.find(batches[-1][:1])  # index and filters are read with the first batch
        before, cold, warmed = io_counters(), [], []
        for batch in batches:
            _drop_pages(plan.file)
            cold.append(_seconds(reader.find, batch))
        from_disk = per(sum(map(len, batches)), before, "read_bytes")
        for batch in batches:
            reader.find(batch)
            warmed.append(_seconds(reader.find, batch))
    size = len(batches[0])
    return {
        f"warm_reads_per_s{suffix}": round(size / statistics.median(warmed)),
        f"cold_reads_per_s{suffix}": round(size / statistics.median(cold)),
        f"cold_read_disk_bytes_per_node{suffix}": from_disk,
    }


def _drop_pages(path: Path) -> None:
    """Asks the system to forget its copy of a file's pages."""
    if not hasattr(os, "posix_fadvise"):
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)  # what is not on disk yet would stay
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def _seconds(work: Callable[..., object], *args: object) -> float:
    begin = time.perf_counter()
    work(*args)
    return time.perf_counter() - begin


def open_file(plan: Plan) -> Figures:
    """Opens the file for writing; before that a small one, so that imports and kernels are loaded."""
    for path in (plan.few, plan.file):
        begin = time.perf_counter()
        graph = Graph.open(path, evaluator=UniformEvaluator(), ram_bytes=plan.ram_bytes)
        opened = time.perf_counter()
        graph.pager.filter()
        ready = time.perf_counter()
        graph.close()
    return {"open_s": opened - begin, "open_filters_s": ready - opened}


PHASES: dict[str, Callable[[Plan], Figures]] = {
    "warm": warm,
    "grow": grow,
    "search_uniform": search_uniform,
    "search_single": search_single,
    "search_slow": search_slow,
    "reads": reads,
    "open_file": open_file,
}


def main(phase: str, folder: str) -> None:
    """Runs one phase and writes its figures."""
    figures = PHASES[phase](Plan.read(Path(folder)))
    (Path(folder) / f"{phase}.json").write_text(json.dumps(figures))
