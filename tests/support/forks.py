"""A forked process that works beside a test: what it needs is imported already."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
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


class Command(Fork):
    """A command line of this program in a fork; its output goes to files in a folder.

    Args:
      before: executed first in the fork, for instance to make slow what the test interrupts.
    """

    def __init__(self, folder: Path, *arguments: object, before: Callable[[], object] = lambda: None) -> None:
        self._files = [folder / "stdout", folder / "stderr"]
        main = importlib.import_module("graphsearch.cli").main  # cli/, which type checkers do not find there

        def work(_: Say) -> None:
            for number, file in enumerate(self._files, 1):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
            before()
            code = main([str(argument) for argument in arguments])
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

        super().__init__(work)

    def ended(self) -> tuple[int, str, str]:
        """Waits for its end; returns its exit code, stdout and stderr."""
        self.rest()
        out, err = (file.read_text() for file in self._files)
        return os.waitstatus_to_exitcode(self.status), out, err


def _work(work: Callable[[Say], object], writing: int) -> None:
    def say(text: object) -> None:
        os.write(writing, f"{text}\n".encode())

    code = 1
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` lets it be ignored
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
