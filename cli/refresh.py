"""`graphsearch lab refresh`: bring every value in a graph file up to date with its children."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from .commands import report
from .options import Ram, StoreOption, byte_count, option
from .output import say
from .progress import titled_bar
from .render import count
from .tables import Part

if TYPE_CHECKING:
    from graphsearch.graph.sweeps.refresh import RefreshProgress, RefreshReport

Tolerance = Annotated[
    float, option("--tolerance X", "Leave values alone that are off by less than X in Q.", show_default=False)
]


def _view(found: RefreshReport) -> Iterator[Part]:
    yield (
        f"{count(found.records, 'record')}, {count(found.sweeps, 'sweep')}, {found.seconds:.1f} s;"
        f" largest change of Q {found.first_change:.5f} in the first, {found.last_change:.5f} in the last"
    )
    yield (
        f"{count(found.stale, 'stale edge')}; written: {count(found.changed_edges, 'edge')}"
        f" of {count(found.changed_records, 'record')}"
    )
    alone = found.lost + found.missing
    if alone:
        yield f"left alone: {count(alone, 'edge')} whose visits the file has lost"
    if not found.settled:
        say(f"The values have not settled after {count(found.sweeps, 'sweep')}; refresh again to continue.")


@report(
    "Bring all values in a graph file up to date.",
    "graphsearch lab refresh first.graph",
    "graphsearch lab refresh first.graph --tolerance 0.0001 --json",
    view=_view,
)
def refresh(store: StoreOption, tolerance: Tolerance = 0.001, ram: Ram = None) -> RefreshReport:
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
    work = upkeep.refresh if is_sharded(store) else refresh_file
    with titled_bar("Reading", title) as show:
        return work(store, tolerance, ram_bytes=limit, on_progress=show)


def title(now: RefreshProgress) -> str:
    """Returns the present step of a refresh."""
    if now.stage != "sweeping":
        return now.stage.capitalize()
    change = "" if now.largest is None else f", largest change {now.largest:.5f}"
    return f"Sweep {now.sweep}{change}"
