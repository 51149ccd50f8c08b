"""Shows progress on stderr: bars and redrawn views on a terminal; elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Protocol

from .options import WorkOptions
from .output import console, drawn, say
from .signals import StopSignals
from .tables import Part

if TYPE_CHECKING:
    import chess

    from graphsearch.evaluators.factory import EvaluatorSpec
    from graphsearch.evaluators.protocol import Evaluator
    from graphsearch.search.params import SearchParams

GLANCE_SECONDS = 0.2  # between two checks of other processes' progress


class Advance(Protocol):
    """Shows progress, and changes the title if one is given; without a total the end is unknown."""

    def __call__(self, done: int, total: int | None, title: str | None = None) -> None: ...  # noqa: D102


@contextmanager
def progress_bar(title: str, *, streaming: bool = False) -> Iterator[Advance]:
    """Yields a function that shows progress on stderr: a bar on a terminal, elsewhere a line now and then.

    Args:
      title: text before the bar.
      streaming: the body prints data, which appears above a bar on the same terminal.
    """
    if not sys.stderr.isatty():
        lines, begun, first = RareLines(), time.monotonic(), title

        def say_sometimes(done: int, total: int | None, title: str | None = None) -> None:
            of = f" of {total:,}" if total is not None else ""
            lines.say(time.monotonic() - begun, f"{title or first}: {done:,}{of}")

        yield say_sometimes
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    above = not streaming or sys.stdout.isatty()
    out = console(sys.stderr)
    out.soft_wrap = streaming  # no line break in a line of data: it is copied, and JSON would be broken
    with Progress(*columns, console=out, transient=True, redirect_stdout=above) as bar:
        task = bar.add_task(title, total=None)

        def advance(done: int, total: int | None, title: str | None = None) -> None:
            bar.update(task, completed=done, total=total, description=title)

        yield advance


@contextmanager
def titled_bar(first: str, title: Callable[[Any], str]) -> Iterator[Callable[[Any], None]]:
    """Yields the same for progress with `done` and `total`; its title changes with the work."""
    with progress_bar(first) as advance:
        yield lambda now: advance(now.done, now.total, title(now))


@contextmanager
def compile_bar(purpose: str, kernels: int) -> Iterator[bool]:
    """Shows a bar on a terminal while the body compiles kernels; elsewhere a line of the log says it.

    Yields whether there is a terminal.

    Args:
      kernels: number of kernels to compile.
    """
    from graphsearch.jit.cache import announced
    from graphsearch.jit.compiler import count_compiled

    if not sys.stderr.isatty():
        yield False
        return
    announced()
    with progress_bar(f"Compiling the {purpose} kernels, once") as advance:
        ended, before = Event(), count_compiled()

        def count_kernels() -> None:  # here and in other processes
            while not ended.wait(GLANCE_SECONDS):
                advance(min(count_compiled() - before, kernels), kernels)

        counter = Thread(target=count_kernels, daemon=True)
        counter.start()
        try:
            yield True
        finally:
            ended.set()
            counter.join()


def compiled(
    work: WorkOptions, store: Path | None, stack: ExitStack
) -> tuple[Evaluator | EvaluatorSpec, SearchParams]:
    """Compiles the kernels; returns the evaluator and the parameters.

    With workers, the evaluator's specification: each worker makes its own, and the first compiles.
    """
    from graphsearch.search.params import SearchParams

    if work.workers is not None:
        spec, others = work.evaluator.of_file(store).spec(work.param or ())
        return replace(spec, pool=None), SearchParams.from_options(others)
    evaluator, others = work.evaluator.create(work.param or (), store)
    stack.enter_context(closing(evaluator))
    params = SearchParams.from_options(others)
    compile_search(evaluator, params, filed=store is not None)
    return evaluator, params


def compile_search(
    evaluator: Evaluator, params: SearchParams, *, filed: bool, board: chess.Board | None = None
) -> None:
    """Compiles the kernels by a short search in its own graph, before the clock starts; Ctrl-C ends it."""
    from graphsearch.search.warm import kernels_missing
    from graphsearch.solvers.mate import beside

    if missing := kernels_missing(evaluator, filed=filed):
        with compile_bar("search", missing) as told:
            beside.compile_search(evaluator, params, filed=filed, told=told, board=board)


# without a terminal there is a line after 10 s, 20 s, 40 s, ... and then every 10 minutes
FIRST_LINE_S, LONGEST_GAP_S = 10.0, 600.0
LEAST_GAP_S = 0.1  # between two drawings on a terminal


class RareLines:
    """Prints one line of progress now and then, for logs."""

    def __init__(self) -> None:
        self._next = FIRST_LINE_S

    def say(self, seconds: float, line: str) -> None:
        """Prints the progress after some seconds, if it is due."""
        if seconds >= self._next:
            say(line)
            self._next = seconds + min(seconds, LONGEST_GAP_S)


@contextmanager
def progress_display(
    signals: StopSignals, line: Callable[[Any], str], view: Callable[[Any, int], Iterable[Part]] | None = None
) -> Iterator[Callable[[Any], None]]:
    """Yields a progress callback for the work; on a terminal it redraws one view in place, until a signal.

    Args:
      signals: they clear the view before they write.
      line: progress in one line, for logs.
      view: progress to draw on a terminal of so many lines; the line unless given.
    """
    terminal = console(sys.stderr) if sys.stderr.isatty() else None
    if terminal is None or terminal.is_dumb_terminal:
        lines = RareLines()
        yield lambda now: lines.say(now.seconds, line(now))
        return
    from rich.live import Live

    is_drawing, last = False, -LEAST_GAP_S

    def clear() -> None:
        if not is_drawing:
            live.stop()

    def show(now: Any) -> None:
        nonlocal is_drawing, last
        if signals.stop.is_set() or now.seconds - last < LEAST_GAP_S:
            return
        last, is_drawing = now.seconds, True
        live.update(drawn(view(now, terminal.height) if view else [line(now)], terminal.width), refresh=True)
        is_drawing = False
        if signals.stop.is_set():
            clear()

    # drawn only on progress, so no thread draws while a signal handler writes its message
    with Live(console=terminal, auto_refresh=False, transient=True) as live:
        signals.before_message = clear
        yield show
        signals.before_message = None
