"""What a build of a book shows: a few lines on a terminal, a rare line elsewhere; always on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .book_views import duration
from .live import FIRST_LINE_S, LONGEST_GAP_S
from .output import console, say
from .render import count
from .signals import StopSignals

if TYPE_CHECKING:
    from graphsearch.book.build import BuildProgress

Show = Callable[["BuildProgress"], None]


@contextmanager
def build_display(signals: StopSignals) -> Iterator[Show]:
    """Yields the function that a build calls with its progress."""
    screen = None if sys.stderr is None or not sys.stderr.isatty() else console(sys.stderr)
    if screen is None or screen.is_dumb_terminal:
        yield _RareLines().show
        return
    from rich.live import Live
    from rich.text import Text

    # drawn only when progress comes, so no thread draws while a signal's message is written
    with Live(console=screen, auto_refresh=False, transient=True) as live:

        def show(now: BuildProgress) -> None:
            if not signals.stop.is_set():
                live.update(
                    Text("\n".join(progress_lines(now)), overflow="ellipsis", no_wrap=True), refresh=True
                )

        yield show


class _RareLines:
    """One line of progress now and then, for logs."""

    def __init__(self) -> None:
        self._next = FIRST_LINE_S

    def show(self, now: BuildProgress) -> None:
        """Says how far the build is, if it is time to."""
        if now.seconds >= self._next:
            say("   ".join(progress_lines(now)))
            self._next = now.seconds + min(now.seconds, LONGEST_GAP_S)


def progress_lines(now: BuildProgress) -> list[str]:
    """Returns how far a build is, for a person."""
    if now.stage != "building":
        return [f"{now.stage.capitalize()} the book, {duration(now.seconds)}"]
    rate = now.evaluations / now.seconds if now.seconds else 0.0
    left = "" if now.left is None else f"; about {duration(now.left)} to search all of it"
    waiting = f"; {count(now.waiting, 'item')} of the queue" if now.waiting else ""
    return [
        f"{duration(now.seconds)}: {count(now.searched, 'position')} searched, {now.added:,} added,"
        f" {count(now.evaluations, 'evaluation')} ({rate:,.0f}/s)",
        f"Book: {count(now.positions, 'position')}, {count(now.leaves, 'leaf', 'leaves')}{left}{waiting}",
        f"Now: {now.line} (ply {now.ply})" if now.line else "Now: nothing",
    ]
