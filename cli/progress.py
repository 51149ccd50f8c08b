"""Progress bars on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Protocol, TypeVar

from .output import console, say

GLANCE_SECONDS = 0.2  # between two checks of other processes' progress
LINE_SECONDS = 5.0  # between two lines of progress, where there is no terminal


class Advance(Protocol):
    """Moves a bar, and changes its title if one is given; without a total the end is unknown."""

    def __call__(self, done: int, total: int | None, title: str | None = None) -> None: ...  # noqa: D102


class Amount(Protocol):
    """How much of a task is done."""

    @property
    def done(self) -> int: ...  # noqa: D102
    @property
    def total(self) -> int: ...  # noqa: D102


_Now = TypeVar("_Now", bound=Amount)


@contextmanager
def progress_bar(title: str, *, streaming: bool = False) -> Iterator[Advance | None]:
    """Yields a function that moves a bar on stderr; None where there is no terminal.

    Args:
      title: stands before the bar.
      streaming: data is printed meanwhile; on the same terminal it then goes above the bar.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    above = not streaming or (sys.stdout is not None and sys.stdout.isatty())
    out = console(sys.stderr)
    with Progress(*columns, console=out, transient=True, redirect_stdout=above) as bar:
        task = bar.add_task(title, total=None)

        def advance(done: int, total: int | None, title: str | None = None) -> None:
            bar.update(task, completed=done, total=total, description=title)

        yield advance


@contextmanager
def progress_shown(title: str) -> Iterator[Advance]:
    """Yields a function that shows progress on stderr: a bar on a terminal, elsewhere a line now and then."""
    with progress_bar(title) as bar:
        yield bar or _lines(title)


def _lines(shown: str) -> Advance:
    """Returns a function that prints the progress, once in LINE_SECONDS."""
    said = time.monotonic()

    def advance(done: int, total: int | None, title: str | None = None) -> None:
        nonlocal said
        if time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            say(f"{title or shown}: {done:,}" + (f" of {total:,}" if total is not None else ""))

    return advance


@contextmanager
def compile_bar(purpose: str, kernels: int) -> Iterator[bool]:
    """Shows on a terminal that kernels are compiled while the body runs; elsewhere a line of the log does.

    Yields whether there is a terminal.

    Args:
      kernels: how many will be compiled.
    """
    from graphsearch.jit.places import announced

    with progress_bar(f"Compiling the {purpose} kernels, once") as advance:
        if advance is None:
            yield False
            return
        announced()
        ended = Event()
        counter = Thread(target=_count_kernels, args=(advance, kernels, ended), daemon=True)
        counter.start()
        try:
            yield True
        finally:
            ended.set()
            counter.join()


def _count_kernels(advance: Advance, kernels: int, ended: Event) -> None:
    """Moves a bar as kernels are compiled, here and in other processes, until the compilation has ended."""
    from graphsearch.jit.compiler import count_compiled

    before = count_compiled()
    while not ended.wait(GLANCE_SECONDS):
        advance(min(count_compiled() - before, kernels), kernels)


@contextmanager
def titled_bar(first: str, title: Callable[[_Now], str]) -> Iterator[Callable[[_Now], None] | None]:
    """Yields a function that moves a bar whose title changes with the work; None without a terminal."""
    with progress_bar(first) as advance:
        yield None if advance is None else lambda now: advance(now.done, now.total, title(now))
