"""A forked process that works beside a test: what it needs is imported already.

Where there is no fork, a new process does the work, if it can be pickled.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from ..conftest import Outcome

Say = Callable[[object], None]


class Fork:
    """A child that does some work and says lines; the context kills it if it has not ended."""

    def __init__(self, work: Callable[[Say], object]) -> None:
        context: Any = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
        self._reader, writer = context.Pipe(duplex=False)
        self._child = context.Process(target=_work, args=(work, writer))
        kept = gc.get_objects()  # in the child: freeing Ray's clients there crashes, with Python 3.13
        self._child.start()
        del kept
        writer.close()
        self.process: int = self._child.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._reader.closed:
            self.kill()

    def speaks(self, seconds: float) -> bool:
        """Returns whether a line, or its end, comes in time."""
        return bool(self._reader.poll(seconds))

    def line(self) -> str:
        """Returns the next line; empty once there is none."""
        try:
            return str(self._reader.recv())
        except (EOFError, OSError):
            return ""

    def kill(self) -> list[str]:
        """Kills it; returns the lines that were not read."""
        self._child.kill()
        return self.rest()

    def rest(self) -> list[str]:
        """Waits for its end; returns the lines that were not read."""
        lines = list(iter(self.line, ""))
        self._reader.close()
        self._child.join()
        self.status: int = self._child.exitcode
        return lines


def _work(work: Callable[[Say], object], writer: Connection) -> None:
    code = 1
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` lets it be ignored
    try:
        work(lambda text: writer.send(str(text)))
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


class Command(Fork):
    """A command line in a fork, with the signals of a terminal, behind a call that may slow it down."""

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
        from ..conftest import Outcome

        self.rest()
        texts = []
        for stream in self._streams:
            with stream:
                stream.seek(0)
                texts.append(stream.read())
        return Outcome(self.status, *texts)
