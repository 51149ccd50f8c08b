"""Long work: its progress on stderr, and the signals that stop it.

A terminal gets bars and redrawn views, anything else a line now and then. Ctrl-C, SIGTERM and the end of the
terminal become requests to stop: the search ends its wave and saves.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from graphsearch.base.system import HANG_UP, SIGNALS, outlive_console

from .options import WorkOptions, identity_of, remember
from .output import say
from .tables import Part, lines_of

if TYPE_CHECKING:
    import chess
    from rich.console import Console

    from graphsearch.evaluators.factory import EvaluatorSpec
    from graphsearch.evaluators.protocol import Evaluator
    from graphsearch.search.params import SearchParams

# ---------------------------------------------------------------- signals
_FIRST = "Stopping: finishing the wave and saving...\n"
_SECOND = "Still saving; nothing is lost. One more signal aborts and keeps only what was saved before.\n"
_THIRD = "Aborted; what was saved before is kept.\n"

_LOOK_SECONDS = 0.05  # between two checks of a waiting thread


class StopRequest(threading.Event):
    """An Event that a signal handler may set, for the main thread to wait for.

    A handler runs between two bytecodes of the main thread. If that is inside `threading.Event.set` or its
    `wait`, the thread holds the lock that the handler would wait for, forever. So there is no lock here.
    """

    def __init__(self) -> None:
        super().__init__()
        self._asked = False

    def is_set(self) -> bool:  # noqa: D102
        return self._asked

    def set(self) -> None:  # noqa: D102
        self._asked = True

    def clear(self) -> None:  # noqa: D102
        self._asked = False

    def wait(self, timeout: float | None = None) -> bool:
        """Waits at most `timeout` seconds; returns whether the request came."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._asked:
            left = _LOOK_SECONDS if end is None else end - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(left, _LOOK_SECONDS))
        return self._asked


class StopSignals:
    """A context in which signals set `stop`, once `arm` was called; until then they end the program.

    Attributes:
      stop: set by the first signal; the search watches it.
      exit_code: 128 + the first signal's number, 0 if none came.
      before_message: called in the handler before it writes, to clear the drawing on the terminal.
    """

    def __init__(self, first: str = _FIRST) -> None:
        """Initializes the context; `first` is the message after the first signal."""
        self._first = first
        self.stop = StopRequest()
        self.exit_code = 0
        self.before_message: Callable[[], None] | None = None
        self._count = 0
        self._armed = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if number == HANG_UP and signal.getsignal(number) == signal.SIG_IGN:
                    continue  # nohup: the program has to outlive its terminal
                self._before[number] = signal.signal(number, self._handle)
            outlive_console()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if isinstance(error, SystemExit) and error.code == signal.SIGTERM:
            error.code = 128 + signal.SIGTERM  # Ray, while it starts, has a handler that ends with 15

    def arm(self, *, on: bool = True) -> None:
        """Makes later signals ask the search to stop, or end the program at once again."""
        self._armed = on

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._armed:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        self._count += 1
        self.exit_code = self.exit_code or 128 + number
        self.stop.set()
        if self.before_message is not None and self._count == 1:
            with suppress(RuntimeError):  # the main thread is just writing to stderr
                self.before_message()
        text = (self._first, _SECOND, _THIRD)[min(self._count, 3) - 1]
        with suppress(OSError):  # the terminal is gone
            os.write(2, text.encode())  # past Python's buffers, which a handler must not enter twice
        if self._count > 2:
            # ends like a kill, which the file survives; an exception might save a half-finished wave
            os._exit(self.exit_code)


# ---------------------------------------------------------------- progress
GLANCE_SECONDS = 0.2  # between two checks of other processes' progress


class Advance(Protocol):
    """Shows progress, and changes the title if one is given; without a total the end is unknown."""

    def __call__(self, done: int, total: int | None, title: str | None = None) -> None: ...  # noqa: D102


def _console() -> Console:
    """Returns a Rich console for stderr that prints text unchanged: no markup, no emoji, no highlighting."""
    from rich.console import Console

    return Console(file=sys.stderr, markup=False, emoji=False, highlight=False)


@contextmanager
def progress_bar(title: str, *, streaming: bool = False) -> Iterator[Advance]:
    """Yields a function that shows progress on stderr: a bar on a terminal, elsewhere a line now and then.

    `streaming`: the body prints data, which appears above a bar on the same terminal.
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
    out = _console()
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
    """Shows a bar on a terminal while the body compiles so many kernels; elsewhere a line of the log says it.

    Yields whether there is a terminal.
    """
    from graphsearch.jit.cache import announced
    from graphsearch.jit.compiler import count_compiled

    if not sys.stderr.isatty():
        yield False
        return
    announced()
    with progress_bar(f"Compiling the {purpose} kernels, once") as advance:
        ended, before = threading.Event(), count_compiled()

        def count_kernels() -> None:  # here and in other processes
            while not ended.wait(GLANCE_SECONDS):
                advance(min(count_compiled() - before, kernels), kernels)

        counter = threading.Thread(target=count_kernels, daemon=True)
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

        def keep(failure: type[BaseException] | None, *_: object) -> None:
            if store is not None and failure is None:
                remember(identity_of(store), spec)

        stack.push(keep)
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
    terminal = _console() if sys.stderr.isatty() else None
    if terminal is None or terminal.is_dumb_terminal:
        lines = RareLines()
        yield lambda now: lines.say(now.seconds, line(now))
        return
    from rich.live import Live
    from rich.text import Text

    is_drawing, last = False, -LEAST_GAP_S

    def clear() -> None:
        if not is_drawing:
            live.stop()

    def show(now: Any) -> None:
        nonlocal is_drawing, last
        if signals.stop.is_set() or now.seconds - last < LEAST_GAP_S:
            return
        last, is_drawing = now.seconds, True
        parts = view(now, terminal.height) if view else [line(now)]
        live.update(Text("\n".join(lines_of(parts, terminal.width))), refresh=True)
        is_drawing = False
        if signals.stop.is_set():
            clear()

    # drawn only on progress, so no thread draws while a signal handler writes its message
    with Live(console=terminal, auto_refresh=False, transient=True) as live:
        signals.before_message = clear
        yield show
        signals.before_message = None
