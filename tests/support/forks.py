"""A forked process that works beside a test: what it needs is imported already.

Where there is no fork, a new process does the work, if it can be pickled.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Self, TextIO, cast

import pytest

from graphsearch.workers import process as workers

if TYPE_CHECKING:
    from ..conftest import Outcome

Say = Callable[[object], None]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class Fork:
    """A child that does some work; what it says comes line by line, each in one piece.

    The context kills it if it has not ended.
    """

    def __init__(self, work: Callable[[Say], object]) -> None:
        self._spawned: multiprocessing.process.BaseProcess | None = None
        if not hasattr(os, "fork"):
            self._spawn(work)
            return
        reading, writing = os.pipe()
        self.process = os.fork()
        if not self.process:
            os.close(reading)
            _work(work, writing)
        os.close(writing)
        self._lines: TextIO = os.fdopen(reading)

    def _spawn(self, work: Callable[[Say], object]) -> None:
        context = multiprocessing.get_context("spawn")
        reader, writer = context.Pipe(duplex=False)
        self._spawned = context.Process(target=_work_alone, args=(work, writer), daemon=True)
        self._spawned.start()
        writer.close()
        self.process = self._spawned.pid or 0
        self._lines = cast(TextIO, _Lines(reader))

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
        if self._spawned is not None:
            self._spawned.kill()
        else:
            os.kill(self.process, signal.SIGKILL)
        return self.rest()

    def rest(self) -> list[str]:
        """Waits for its end; returns the lines that were not read."""
        with self._lines:
            lines = self._lines.read().splitlines()
        if self._spawned is not None:
            self._spawned.join()
            self.status = self._spawned.exitcode or 0
            return lines
        _, self.status = os.waitpid(self.process, 0)
        return lines


class _Lines:
    """The lines of a new process, as a file has them."""

    closed = False

    def __init__(self, reader: Connection) -> None:
        self._reader = reader

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self.closed = True

    def readline(self) -> str:
        try:
            return f"{self._reader.recv()}\n"
        except (EOFError, OSError):
            return ""

    def read(self) -> str:
        return "".join(iter(self.readline, ""))


def _work_alone(work: Callable[[Say], object], writer: Connection) -> None:
    work(lambda text: writer.send(str(text)))


class Command(Fork):
    """A command line of this program in a fork, with the signals of a terminal.

    Args:
      before: executed first in the fork, for instance to make slow what the test interrupts.
    """

    def __init__(self, *arguments: object, before: Callable[[], object] = lambda: None) -> None:
        streams = [os.fdopen(os.memfd_create(name), "w+") for name in ("stdout", "stderr")]
        main = importlib.import_module("graphsearch.cli").main  # cli/, which type checkers do not find there

        def work(_: Say) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for number, stream in enumerate(streams, 1):
                os.dup2(stream.fileno(), number)
            sys.stdout, sys.stderr = (open(n, "w", closefd=False) for n in (1, 2))  # noqa: SIM115
            before()
            code = main([str(argument) for argument in arguments])
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

        self._streams = streams
        super().__init__(work)

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        for stream in self._streams:
            stream.close()

    def send_signal(self, number: int) -> None:
        os.kill(self.process, number)

    def end(self) -> Outcome:
        """Returns what it leaves, once it has ended."""
        from ..conftest import Outcome

        self.rest()
        texts = []
        for stream in self._streams:
            with stream:
                stream.seek(0)
                texts.append(stream.read())
        return Outcome(os.waitstatus_to_exitcode(self.status), *texts)


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
