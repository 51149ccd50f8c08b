"""The figures of `graphsearch bench --offload`: a search larger than its memory, and the file below it.

Every part runs in a process of its own, so that no figure has the memory, the caches or the compiling of
another in it. Rates are per second of the clock, because reading and writing wait; what a search reaches is
compared with the same search in RAM, measured in the same run.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ...errors import GraphSearchError
from ..files import check_disk
from .plan import Figures, Plan

Report = Callable[[str], None]

NODES = 10_000_000
RAM_BYTES = 256_000_000
LEAST_VISITS, LEAST_EVALUATIONS = 200_000, 81_920
VISITS_SHARE = 20  # one part of so many of the nodes is measured as visits
DISK_BYTES_PER_NODE = 250  # file, copy, log, and what a merge needs for a while
REPEATS = 5  # of opening and showing

FIGURES = (  # those that are promised; more follow
    "nodes",
    "ram_budget",
    "peak_rss",
    "speed_ratio_uniform",
    "speed_ratio_single_per_cpu_s",
    "speed_ratio_100us",
    "file_bytes_per_node",
    "written_bytes_per_node",
    "grow_nodes_per_s",
    "warm_reads_per_s",
    "cold_reads_per_s",
    "longest_stall_s",
    "open_s",
    "show_s",
)


def measure(
    report: Report = lambda _: None,
    *,
    nodes: int = NODES,
    ram_bytes: int = RAM_BYTES,
    repeats: int = REPEATS,
) -> dict[str, float | int | None]:
    """Returns the figures by the names of `graphsearch bench --offload --json`; None where none can be had.

    Times are in seconds, sizes in bytes. `_uniform` and `_100us` name the evaluator, in large
    waves; `_single` is `uniform` one visit after the other, as searches are by default; `ram_*` is the search
    with all of it in RAM, `offload_*` the one within the budget. A speed is the median of ten parts of equal
    work; `_whole` is over all of it until the last record was saved. `share_*` is where the wall time of the
    search went: `waves` (the search proper; with `_100us` the evaluator too), `reading` and decoding,
    `entering` and `evicting` records, `copying` out what is saved, `waiting_for_writer`. `written_*` counts
    what is given to write(), log and merges included. `search_thread_queued` is the time without a core, for
    the load of the machine; `*_evaluator_busy_100us` the time in which the evaluator was at work: its loop is
    of equal length everywhere, and takes longer (`*_us_per_evaluation_100us`) where cores are shared.

    Args:
      report: called with what is measured next.
      nodes: size of the graph, made in RAM: some 200 bytes a node.
      ram_bytes: the budget of the searches that go on with its file.
      repeats: how often the file is opened and shown; medians count.

    Raises:
      GraphSearchError: if a part fails, or the disk is too small.
    """
    with tempfile.TemporaryDirectory(prefix="graphsearch-bench-") as folder:
        check_disk(Path(folder), nodes * DISK_BYTES_PER_NODE, "set TMPDIR to another folder")
        plan = Plan(
            folder=folder,
            nodes=nodes,
            ram_bytes=ram_bytes,
            visits=_visits(nodes),
            evaluations=_evaluations(nodes),
        )
        figures = {"ram_budget": ram_bytes, "wave": plan.wave, **_measured(plan, report, repeats)}
    figures |= _ratios(figures)
    return {name: figures[name] for name in (*FIGURES, *(n for n in figures if n not in FIGURES))}


def _visits(nodes: int) -> int:
    """Returns the visits that are measured.

    >>> _visits(10_000_000), _visits(300_000), _visits(20_000)
    (500000, 200000, 20000)
    """
    return max(min(LEAST_VISITS, nodes), nodes // VISITS_SHARE)


def _evaluations(nodes: int) -> int:
    return min(LEAST_EVALUATIONS, nodes // 4)


def _measured(plan: Plan, report: Report, repeats: int) -> Figures:
    report("compiling and calibrating")
    plan.write()
    plan = replace(plan, rounds=int(_phase("warm", plan)["rounds"] or 0))
    plan.write()
    report(f"growing {plan.nodes:,} nodes in RAM, saving them, searching on in RAM")
    figures = _phase("grow", plan)
    budget = f"{plan.ram_bytes / 1e6:,.0f} MB"
    report(f"searching on within {budget}: {plan.visits:,} visits with uniform, after filling memory")
    figures |= _on_a_copy("search_uniform", plan)
    report("the same one visit after the other")
    figures |= _on_a_copy("search_single", plan)
    report(f"the same with an evaluator of 100 us: {plan.evaluations:,} evaluations")
    figures |= _on_a_copy("search_slow", plan)
    report("reading random positions")
    figures |= _phase("reads", plan)
    if figures["cold_read_disk_bytes_per_node"] == 0:
        report("note: the system kept the file in memory when asked not to; the cold reads are warm ones")
    report("opening and showing the file")
    return figures | _openings(plan, repeats) | _showings(plan, repeats)


def _phase(phase: str, plan: Plan) -> Figures:
    """Returns the figures of one phase, run in a process of its own."""
    command = [sys.executable, "-m", "graphsearch.bench.offload", phase, plan.folder]
    _run(command, phase)
    result: Figures = json.loads((Path(plan.folder) / f"{phase}.json").read_text())
    return result


def _run(command: list[str], what: str) -> None:
    pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=quiet, stderr=pipe, text=True) as done:  # noqa: S603
        assert done.stderr is not None
        errors = done.stderr.read()  # until it ends; stdin stays open until then
    if done.returncode:
        last = (errors.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        raise GraphSearchError(f"the part {what} of the benchmark failed: {last}")


def _on_a_copy(phase: str, plan: Plan) -> Figures:
    """Returns the figures of a phase that changes the file: a copy of it, which is then thrown away."""
    shutil.copyfile(plan.file, plan.copy)
    figures = _phase(phase, plan)
    plan.remove(plan.copy)
    return figures


def _openings(plan: Plan, repeats: int) -> Figures:
    found = [_phase("open_file", plan) for _ in range(repeats)]
    return {name: round(statistics.median(float(f[name] or 0) for f in found), 4) for name in found[0]}


def _showings(plan: Plan, repeats: int) -> Figures:
    """Returns the seconds of `graphsearch show` on the file, in turn with one of next to no nodes."""
    times: dict[Path, list[float]] = {plan.few: [], plan.file: []}
    for _ in range(repeats):
        for path, seconds in times.items():
            begin = time.perf_counter()
            _run([sys.executable, "-m", "graphsearch", "show", "startpos", "--store", str(path)], "show")
            seconds.append(time.perf_counter() - begin)
    few, all_nodes = (statistics.median(seconds) for seconds in times.values())
    return {"show_s": round(all_nodes - few, 4), "show_process_s": round(all_nodes, 4)}


def _ratios(figures: Figures) -> Figures:
    """Returns speeds within the budget divided by those in RAM, and how busy both kept the evaluator."""
    found: Figures = {}
    for name, unit in (("uniform", "visits"), ("100us", "evaluations")):
        for suffix in ("", "_whole"):
            ours = figures[f"offload_{unit}_per_s_{name}{suffix}"]
            theirs = figures[f"ram_{unit}_per_s_{name}{suffix}"]
            found[f"speed_ratio_{name}{suffix}"] = round(float(ours or 0) / float(theirs or 1), 4)
    for name in ("uniform", "single"):
        ours, theirs = (figures[f"{where}_visits_per_cpu_s_{name}"] for where in ("offload", "ram"))
        found[f"speed_ratio_{name}_per_cpu_s"] = round(float(ours or 0) / float(theirs or 1), 4)
    for where in ("ram", "offload"):
        rate, us = figures[f"{where}_evaluations_per_s_100us"], figures[f"{where}_us_per_evaluation_100us"]
        found[f"{where}_evaluator_busy_100us"] = round(float(rate or 0) * float(us or 0) / 1e6, 3)
    return found
