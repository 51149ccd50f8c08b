"""Progress of a search: the best lines and the counters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from .live import Screen, clock, progress_display
from .render import node_view, rate, size
from .scores import detailed
from .signals import StopSignals

if TYPE_CHECKING:
    from rich.console import RenderableType

    from graphsearch.search.results import Progress

FRAME_LINES = 8  # lines of the live display that are not moves


def search_display(multipv: int, signals: StopSignals) -> AbstractContextManager[Callable[[Progress], None]]:
    """Returns the context of a search; it yields the function that the search calls with its progress."""

    def view(progress: Progress, screen: Screen) -> RenderableType:
        return _frame(progress, max(1, min(multipv, screen.height - FRAME_LINES)), screen.width)

    return progress_display(signals, lambda now: status_line(now).replace("\n", "   "), view)


def _frame(progress: Progress, rows: int, width: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    return Group(node_view(progress.node(rows), rows, width), Text(status_line(progress)))


def status_line(progress: Progress) -> str:
    """Returns the counters of a running search in one line, a second one if it has a file."""
    counters = "   ".join(
        (
            clock(progress.seconds),
            f"nodes {progress.nodes:,}",
            f"visits/s {rate(progress.visits_per_s)}",
            f"evaluations/s {rate(progress.evaluations_per_s)}",
            *detailed({"": f"catch-ups {progress.catch_ups:,}"}).values(),
            f"depth {progress.depth}/{progress.seldepth}",
        )
    )
    if not progress.stored:
        return counters
    share = 100 * progress.resident / max(progress.nodes, 1)
    if progress.loaded:
        done, total = progress.loaded
        read = f"reading the graph: {done:,} of {total:,} nodes ({size(progress.ram_bytes)})"
        return f"{counters}\n{read}   {rate(done / max(progress.seconds, 1e-9))}/s"
    memory = f"RAM {share:.0f} % of the nodes ({size(progress.ram_bytes)})"
    return f"{counters}\n{memory}   read back {progress.read_back:,}   written {progress.written:,}"
