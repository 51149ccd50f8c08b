"""`graphsearch lab bench`: the speed of this machine, in the figures that the documents report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from .commands import command
from .options import Json, option
from .output import print_json, say
from .render import rate
from .signals import interruptible

_LINES = {  # JSON name -> what it is called in the table
    "nodes": "nodes in the graph",
    "perft_per_s": "perft, positions per second",
    "expand_ns": "expand one node, ns",
    "make_ns": "make one move with key, ns",
    "visits_per_s_single": "visits per second, one by one",
    "evaluations_per_s_single": "of them evaluated",
    "visits_per_s_wave": "visits per second, waves of 1024",
    "evaluations_per_s_wave": "of them evaluated",
    "ram_bytes_per_node": "RAM, bytes per node",
    "file_bytes_per_node": "file, bytes per node",
    "save_nodes_per_s": "save, nodes per second",
    "load_nodes_per_s": "load, nodes per second",
    "search_visits_per_s": "visits per second of a search without a file",
    "search_visits_per_s_saving": "the same with a file",
    "search_saved_per_s": "nodes it saves per second",
    "search_written_of_size": "bytes it writes, relative to the file",
    "builtin_evaluations_per_s": "built-in evaluator, per second",
    "builtin_file_bytes_per_node": "its file, bytes per node",
    "resumed_us_per_visit": "us per visit of a search that goes on with a file, reading included",
    "unstopped_us_per_visit": "the same if it never stopped",
    "resumed_read_us_per_node": "the difference, us per node of the file",
    "sessions_of_one": "CPU of ten sessions on one file, less ten starts, relative to one session",
    "start_s": "first table, CPU-seconds",
    "start_cold_s": "the same with an empty cache",
    "alphabeta_nodes_per_s": "alpha-beta, nodes per second",
    "alphabeta_leaves_of_minimal": "its leaves relative to the minimal tree",
}


@command(
    "Measure the speed of this machine.",
    "graphsearch lab bench",
    "graphsearch lab bench --json > figures.json",
)
def bench(
    *,
    nodes: Annotated[
        int | None, option("--nodes N", "Size of the largest graph to build; 1,000,000 by default.", min=1000)
    ] = None,
    json: Json = False,
) -> None:
    """Measure move generation, search, memory and file, per CPU-second of the process."""
    from graphsearch.bench.speed import NODES, measure

    figures = interruptible(lambda: measure(say, nodes=nodes or NODES))
    if json:
        print_json(figures)
    else:
        _print_table(figures)


def _print_table(figures: Mapping[str, float | int]) -> None:
    from graphsearch.bench.speed import machine

    print(machine())
    for name, value in figures.items():
        counted = name == "nodes" or name.endswith(("_per_s", "_single", "_wave", "_saving"))
        shown = rate(value) if counted else f"{value:.2f}" if name.endswith("_minimal") else f"{value:.1f}"
        print(f"{_LINES.get(name, name):<36}{shown:>10}")
