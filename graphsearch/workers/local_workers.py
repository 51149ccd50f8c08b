"""Workers as processes of this machine: each is an executor of `concurrent.futures` with one process.

A process that ends breaks its executor; with one process each, the calls of the others go on.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import Any

from ..base.errors import EvaluatorError
from ..base.system import signals_blocked
from .calls import START_SECONDS, STOPPING, StopFlag
from .process import ADVICE, STARTING, begin_worker, how_it_ended


class LocalSite:
    """Starts processes of this machine, each with `threads` threads."""

    patience, advice, is_remote = START_SECONDS, ADVICE, False

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def start(self) -> LocalWorker:
        """Returns a worker that was just started."""
        return LocalWorker(self._threads)

    def close(self) -> None:
        """Does nothing: the processes have ended."""


class LocalWorker:
    """A process of this machine."""

    def __init__(self, threads: int) -> None:
        """Starts it.

        Raises:
          EvaluatorError: if no process can be started.
        """
        context = get_context("spawn")
        try:
            with STARTING, signals_blocked():  # also as the first semaphore starts their tracker
                self._stop = context.Event()
                self._executor = ProcessPoolExecutor(
                    1, mp_context=context, initializer=_begin, initargs=(threads, self._stop)
                )
                before = {child.pid for child in multiprocessing.active_children()}
                self._executor.submit(os.getpid)  # which starts the process
                started = (child for child in multiprocessing.active_children() if child.pid not in before)
                self._process: BaseProcess | None = next(started, None)
        except OSError as error:
            raise EvaluatorError(f"a worker process cannot be started: {error.strerror or error}") from None
        except RuntimeError:  # this process is being started itself
            raise EvaluatorError(f"a worker process cannot be started; {ADVICE}") from None
        self.pid = (self._process and self._process.pid) or 0

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Returns the result of a call in the process."""
        try:
            return self._executor.submit(call)
        except RuntimeError as error:  # it has ended, or was closed
            lost: Future[Any] = Future()
            lost.set_exception(error)
            return lost

    def stop(self) -> None:
        """Makes `calls.STOPPING` true there."""
        self._stop.set()

    def kill(self) -> None:
        """Ends the process at once."""
        if self._process is not None:
            with suppress(ValueError, OSError):
                self._process.kill()
        self._executor.shutdown(wait=False)

    def how_it_ended(self, error: BaseException) -> str:
        """Returns how the process ended, for a message."""
        return how_it_ended(self._process) if self._process is not None else str(error)


def _begin(threads: int, stop: StopFlag) -> None:
    STOPPING.flag = stop
    begin_worker(threads)
