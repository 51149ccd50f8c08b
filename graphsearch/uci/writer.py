"""Writes output lines atomically and without delay, and logs both directions."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import TextIO

from ..base.limits import shortened
from ..base.system import WITHOUT_WAITING

LONGEST_INFO = 2000  # characters of a message


def _appending(path: str) -> TextIO:
    """Opens a file to append to; a pipe without a reader raises OSError instead of blocking."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | WITHOUT_WAITING, 0o666)

    return open(path, "a", encoding="utf-8", buffering=1, opener=opener)


class Writer:
    """Passes every line to `send`, whole and in order, from any thread.

    `gone` is set when the reader is gone.
    """

    def __init__(self, send: Callable[[str], object]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._log: TextIO | None = None
        self.gone = threading.Event()

    def line(self, *lines: str) -> None:
        """Writes lines that belong together."""
        with self._lock:
            for line in lines:
                self._note("<", line)
            try:
                self._send("".join(f"{line}\n" for line in lines))
            except (OSError, ValueError):  # closed
                self.gone.set()

    def info(self, text: str) -> None:
        """Writes a message for the user as one line."""
        one_line = " ".join(shortened(text, LONGEST_INFO).split())
        self.line("info string " + "".join(c if c.isprintable() else "?" for c in one_line))

    def received(self, line: str) -> None:
        """Logs a received line."""
        with self._lock:
            self._note(">", line)

    def log_to(self, path: str) -> None:
        """Starts to log to the end of a file; an empty path ends logging.

        Raises:
          OSError: if the file cannot be opened.
        """
        log = _appending(path) if path else None
        with self._lock:
            self._log, before = log, self._log
        if before:
            before.close()

    def _note(self, sign: str, line: str) -> None:
        if self._log is None:
            return
        try:
            self._log.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {sign} {line}\n")
        except (OSError, ValueError):  # a full disk must not end a game
            self._log = None
