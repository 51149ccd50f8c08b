"""`graphsearch bench`: how fast this machine is, in the figures that the README reports."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Json
from .output import compiling, print_json, say
from .perft import interruptible
from .render import rate

EXAMPLES = """\b
Examples:
  graphsearch bench
  graphsearch bench --json > figures.json
"""

_LINES = {  # JSON name -> what it is called in the table
    "nodes": "nodes in the graph",
    "perft_per_s": "perft, positions per second",
    "expand_ns": "expand one node, ns",
    "make_ns": "make one move with key, ns",
    "visits_per_s_single": "visits per second, one by one",
    "visits_per_s_wave": "visits per second, waves of 1024",
    "ram_bytes_per_node": "RAM, bytes per node",
    "file_bytes_per_node": "file, bytes per node",
    "save_nodes_per_s": "save, nodes per second",
    "load_nodes_per_s": "load, nodes per second",
    "builtin_evaluations_per_s": "built-in evaluator, per second",
    "builtin_file_bytes_per_node": "its file, bytes per node",
}


def bench(
    nodes: Annotated[
        int, typer.Option("--nodes", metavar="N", min=1000, help="Size of the graph that is built.")
    ] = 1_000_000,
    json: Json = False,
) -> None:
    """Measure move generation, search, memory and file, per CPU-second of the process."""
    from graphsearch.bench import machine, run

    with compiling("benchmark"):
        figures = interruptible(lambda: run(say, nodes=nodes))
    if json:
        print_json(figures)
        return
    print(machine())
    for name, value in figures.items():
        counted = name == "nodes" or name.endswith(("_per_s", "_single", "_wave"))
        shown = rate(value) if counted else f"{value:.1f}"
        print(f"{_LINES.get(name, name):<36}{shown:>10}")
