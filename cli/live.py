"""Progress of work: a view redrawn on a terminal, a line now and then elsewhere; always on stderr."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from .output import console, say
from .signals import StopSignals

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

# without a terminal there is a line after 10 s, 20 s, 40 s, ... and then every 10 minutes
FIRST_LINE_S, LONGEST_GAP_S = 10.0, 600.0


class Timed(Protocol):
    """Progress that knows how long the work has taken."""

    @property
    def seconds(self) -> float: ...  # noqa: D102


_Now = TypeVar("_Now", bound=Timed)


class Screen:
    """A terminal on which one view is redrawn in place until the work is told to stop."""

    def __init__(self, live: Live, terminal: Console, stop: threading.Event) -> None:
        self._live = live
        self._stop = stop
        self._drawing = False
        self.width = terminal.width
        self.height = terminal.height

    def draw(self, view: Callable[[], RenderableType]) -> None:
        """Draws the result of `view` in place of the last one."""
        if self._stop.is_set():
            return
        self._drawing = True
        self._live.update(view(), refresh=True)
        self._drawing = False
        self.clear_if_stopped()

    def clear_if_stopped(self) -> None:
        """Clears the view once the work is told to stop; a signal handler may call it."""
        if self._stop.is_set() and not self._drawing:
            self._live.stop()


@contextmanager
def live_screen(signals: StopSignals) -> Iterator[Screen | None]:
    """Yields the screen to draw on; None where stderr is not a terminal, or cannot be redrawn."""
    terminal = console(sys.stderr) if sys.stderr is not None and sys.stderr.isatty() else None
    if terminal is None or terminal.is_dumb_terminal:
        yield None
        return
    from rich.live import Live

    # drawn only when progress comes, so no thread draws while a signal's message is written
    with Live(console=terminal, auto_refresh=False, transient=True) as live:
        screen = Screen(live, terminal, signals.stop)
        signals.before_message = screen.clear_if_stopped
        yield screen
        signals.before_message = None


@contextmanager
def progress_display(
    signals: StopSignals,
    line: Callable[[_Now], str],
    view: Callable[[_Now, Screen], RenderableType],
    *,
    least_gap_s: float = 0.0,
) -> Iterator[Callable[[_Now], None]]:
    """Yields the function that the work calls with its progress.

    Args:
      signals: the view is cleared before they write.
      line: progress in one line, for logs.
      view: progress to draw on a terminal.
      least_gap_s: seconds between two drawings, at least.
    """
    with live_screen(signals) as screen:
        if screen is None:
            yield RareLines(line).show
            return
        drawn = [-least_gap_s]

        def show(now: _Now) -> None:
            if now.seconds - drawn[0] >= least_gap_s:
                drawn[0] = now.seconds
                screen.draw(lambda: view(now, screen))

        yield show


class RareLines(Generic[_Now]):
    """Prints one line of progress now and then, for logs."""

    def __init__(self, line: Callable[[_Now], str]) -> None:
        self._line = line
        self._next = FIRST_LINE_S

    def show(self, now: _Now) -> None:
        """Prints the progress, if it is due."""
        if now.seconds >= self._next:
            say(self._line(now))
            self._next = now.seconds + min(now.seconds, LONGEST_GAP_S)


def clock(seconds: float) -> str:
    """Returns a time in clock format.

    >>> clock(9.7), clock(3725)
    ('0:09', '1:02:05')
    """
    minutes, s = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{s:02}" if hours else f"{minutes}:{s:02}"
