"""A forked process that works beside a test: what it needs is imported already."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable
from typing import Self

import pytest

from graphsearch.workers import process as workers

Say = Callable[[object], None]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class Fork:
    """A child that does some work; what it says comes line by line, each in one piece.

    The context kills it if it has not ended.
    """

    def __init__(self, work: Callable[[Say], object]) -> None:
        reading, writing = os.pipe()
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


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forks worker processes from the tests' process, which has imported and loaded what they need.

    Like a worker, a fork keeps open what its parent has open: where one must notice that its parent ends,
    it is started as the program starts it.
    """
    if hasattr(os, "fork"):
        monkeypatch.setattr(workers, "get_context", lambda _: multiprocessing.get_context("fork"))
