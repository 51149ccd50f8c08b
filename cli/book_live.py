"""The progress of a build: a few lines on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from .book_view import duration
from .live import Screen, progress_display
from .render import count
from .signals import StopSignals

if TYPE_CHECKING:
    from rich.console import RenderableType

    from graphsearch.book.build_report import BuildProgress


def build_display(signals: StopSignals) -> AbstractContextManager[Callable[[BuildProgress], None]]:
    """Returns the context of a build; it yields the function that the build calls with its progress."""

    def view(now: BuildProgress, screen: Screen) -> RenderableType:
        from rich.text import Text

        return Text("\n".join(progress_lines(now)), overflow="ellipsis", no_wrap=True)

    return progress_display(signals, lambda now: "   ".join(progress_lines(now)), view)


def progress_lines(now: BuildProgress) -> list[str]:
    """Returns the progress of a build, line by line."""
    if now.stage != "building":
        return [f"{now.stage.capitalize()} the book, {duration(now.seconds)}"]
    rate = now.evaluations / now.seconds if now.seconds else 0.0
    left = "" if now.left is None else f"; about {duration(now.left)} to search them all"
    waiting = f"; {count(now.waiting, 'item')} of the queue" if now.waiting else ""
    return [
        f"{duration(now.seconds)}: {count(now.searched, 'position')} searched, {now.added:,} added,"
        f" {count(now.evaluations, 'evaluation')} ({rate:,.0f}/s)",
        f"Book: {count(now.positions, 'position')}, {count(now.leaves, 'leaf', 'leaves')}{left}{waiting}",
        f"Now: {now.line} (ply {now.ply})" if now.line else "Now: nothing",
    ]
