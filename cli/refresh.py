"""`graphsearch refresh`: bring every value in a graph file up to date with its children."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .commands import command
from .options import Json, Ram, StoreFile, byte_count
from .output import print_json, say
from .progress import titled_bar
from .render import count

if TYPE_CHECKING:
    from graphsearch.graph.sweeps.refresh import RefreshProgress, RefreshReport

Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        metavar="X",
        help="Leave values alone that are off by less than X in Q.",
        show_default=False,
    ),
]


@command(
    "Bring all values in a graph file up to date.",
    "graphsearch refresh first.graph",
    "graphsearch refresh first.graph --tolerance 0.0001 --json",
)
def refresh(file: StoreFile, tolerance: Tolerance = 0.001, ram: Ram = None, json: Json = False) -> None:
    """Give every move in a graph file the current value of the position it leads to.

    A position that was searched further along one line leaves stale values in the other lines that lead to
    it. A search updates them when it passes by; this command updates all of them. Visits do not change.
    Nothing is written before the values have settled, and Ctrl-C at any time leaves the file intact.

    A table in memory takes 20 bytes a node. If --ram has no room for it, the graph is swept in parts, with 50
    bytes a node in the temporary folder (TMPDIR). A cluster (a folder) is refreshed as one graph.
    """
    from graphsearch.graph.sweeps.refresh import refresh as refresh_file
    from graphsearch.search.shards import upkeep
    from graphsearch.store.sharded.manifest import is_sharded

    limit = None if ram is None else byte_count(ram)
    work = upkeep.refresh if is_sharded(file) else refresh_file
    with titled_bar("Reading", title) as show:
        report = work(file, tolerance, ram_bytes=limit, on_progress=show)
    if json:
        print_json(report.as_dict())
        return
    for line in summary(report):
        print(line)
    if not report.settled:
        say(f"The values have not settled after {count(report.sweeps, 'sweep')}; refresh again to continue.")


def summary(report: RefreshReport) -> list[str]:
    """Returns the report of a refresh, line by line."""
    alone = report.lost + report.missing
    lines = [
        f"{count(report.records, 'record')}, {count(report.sweeps, 'sweep')}, {report.seconds:.1f} s;"
        f" largest change of Q {report.first_change:.5f} in the first, {report.last_change:.5f} in the last",
        f"{count(report.stale, 'stale edge')}; written: {count(report.changed_edges, 'edge')}"
        f" of {count(report.changed_records, 'record')}",
    ]
    if alone:
        lines.append(f"left alone: {count(alone, 'edge')} whose visits the file has lost")
    return lines


def title(now: RefreshProgress) -> str:
    """Returns the present step of a refresh."""
    if now.stage != "sweeping":
        return now.stage.capitalize()
    change = "" if now.largest is None else f", largest change {now.largest:.5f}"
    return f"Sweep {now.sweep}{change}"
