"""A forked process that works beside a test: what it needs is imported already."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from ..conftest import Outcome

Say = Callable[[object], None]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class Fork:
    """A child that does some work; what it says comes line by line, each in one piece.

    The context kills it if it has not ended.
    """

    def __init__(self, work: Callable[[Say], object]) -> None:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # other threads hold no lock that it takes
            self.process = os.fork()
        if not self.process:
            os.close(reading)
            _work(work, writing)
        os.close(writing)
        self._lines = os.fdopen(reading)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._lines.closed:
            self.kill()

    def line(self) -> str:
        """Returns the next line, without its end; empty once there is none."""
        return self._lines.readline().rstrip("\n")

    def kill(self) -> list[str]:
        """Kills it; returns the lines that were not read."""
        os.kill(self.process, signal.SIGKILL)
        return self.rest()

    def rest(self) -> list[str]:
        """Waits for its end; returns the lines that were not read."""
        with self._lines:
            lines = self._lines.read().splitlines()
        _, self.status = os.waitpid(self.process, 0)
        return lines


def _work(work: Callable[[Say], object], writing: int) -> None:
    def say(text: object) -> None:
        os.write(writing, f"{text}\n".encode())

    code = 1
    try:
        work(say)
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


class Command:
    """A command line in a fork, with the signals of a terminal: a new Python computes for 0.5 s first."""

    def __init__(self, *args: object) -> None:
        self._streams = [os.fdopen(os.memfd_create(name), "w+") for name in ("stdout", "stderr")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process = os.fork()
        if not self._process:
            self._run([str(arg) for arg in args])

    def _run(self, args: list[str]) -> None:
        code = 1
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for number, stream in enumerate(self._streams, 1):
                os.dup2(stream.fileno(), number)
            sys.stdout, sys.stderr = self._streams
            code = importlib.import_module("graphsearch.cli").main(args)
        finally:
            for stream in self._streams:
                stream.flush()
            os._exit(code)

    def send_signal(self, number: int) -> None:
        os.kill(self._process, number)

    def end(self) -> Outcome:
        """Returns what it leaves, once it has ended."""
        from ..conftest import Outcome

        code = os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])
        texts = []
        for stream in self._streams:
            with stream:
                stream.seek(0)
                texts.append(stream.read())
        return Outcome(code, *texts)
