"""Turns Ctrl-C, SIGTERM and a closed terminal into requests to stop: the search ends its wave and saves."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

from graphsearch.base.system import HANG_UP, SIGNALS, outlive_console

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if isinstance(error, SystemExit) and error.code == signal.SIGTERM:
            error.code = 128 + signal.SIGTERM  # Ray, while it starts, has a handler that ends with 15

    def arm(self) -> None:
        """Makes later signals ask the search to stop instead of ending the program."""
        self._armed = True

    def disarm(self) -> None:
        """Makes later signals end the program at once; `stop` records earlier ones."""
        self._armed = False

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
