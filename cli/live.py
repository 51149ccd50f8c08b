"""What a search shows while it runs: a live table on a terminal, a rare line elsewhere; always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .output import console, say
from .render import node_view, rate, size
from .signals import StopSignals

if TYPE_CHECKING:
    import threading

    from rich.console import Console, RenderableType
    from rich.live import Live

    from graphsearch.search.results import Progress

# without a terminal there is a line after 10 s, 20 s, 40 s, ... and then every 10 minutes
FIRST_LINE_S, LONGEST_GAP_S = 10.0, 600.0
FRAME_LINES = 8  # lines of the live display that are not moves


@contextmanager
def progress_display(multipv: int, signals: StopSignals) -> Iterator[Callable[[Progress], None]]:
    """Yields the function that a search calls with its progress."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield _RareLines().show
        return
    screen = console(sys.stderr)
    if screen.is_dumb_terminal:
        yield _RareLines().show
        return
    from rich.live import Live

    # drawn only when progress comes, so no thread draws while a signal's message is written
    with Live(console=screen, auto_refresh=False, transient=True) as live:
        table = _LiveTable(live, screen, multipv, signals.stop)
        signals.before_message = table.clear_if_stopped
        yield table.show
        signals.before_message = None


class _RareLines:
    """One line of progress now and then, for logs."""

    def __init__(self) -> None:
        self._next = FIRST_LINE_S

    def show(self, progress: Progress) -> None:
        """Says how far the search is, if it is time to."""
        if progress.seconds >= self._next:
            say(status_line(progress).replace("\n", "   "))
            self._next = progress.seconds + min(progress.seconds, LONGEST_GAP_S)


class _LiveTable:
    """The best lines and the counters, redrawn in place until the search is told to stop."""

    def __init__(self, live: Live, screen: Console, multipv: int, stop: threading.Event) -> None:
        self._live = live
        self._screen = screen
        self._multipv = multipv
        self._stop = stop
        self._drawing = False

    def show(self, progress: Progress) -> None:
        """Draws the table anew."""
        if self._stop.is_set():
            return
        rows = max(1, min(self._multipv, self._screen.height - FRAME_LINES))
        self._drawing = True
        self._live.update(_frame(progress, rows, self._screen.width), refresh=True)
        self._drawing = False
        self.clear_if_stopped()

    def clear_if_stopped(self) -> None:
        """Takes the table off the screen once the search is told to stop; a signal handler may call it."""
        if self._stop.is_set() and not self._drawing:
            self._live.stop()


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
            f"catch-ups {progress.catch_ups:,}",
            f"depth {progress.depth}/{progress.seldepth}",
        )
    )
    if not progress.stored:
        return counters
    share = 100 * progress.resident / max(progress.nodes, 1)
    memory = f"RAM {share:.0f} % of the nodes ({size(progress.ram_bytes)})"
    return f"{counters}\n{memory}   read back {progress.read_back:,}   written {progress.written:,}"


def clock(seconds: float) -> str:
    """Returns a time as a clock shows it.

    >>> clock(9.7), clock(3725)
    ('0:09', '1:02:05')
    """
    minutes, s = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{s:02}" if hours else f"{minutes}:{s:02}"
