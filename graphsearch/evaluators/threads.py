"""Threads that evaluate the portions of a batch: a few for each evaluator, and the caller's.

    caller     begin | gathers the next wave | portion 5 | portion 7 | take it
    thread 1   ----- portion 0 | portion 2 | portion 4 | portion 6 |
    thread 2   ----- portion 1 | portion 3 ------------|

Whoever is free takes the next portion. What a portion is does not depend on the number of threads.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

import numpy as np

Work = Callable[[int, int], None]  # a portion, and the number of the thread that does it


class Job:
    """Portions of one batch that are being worked off."""

    def __init__(self, work: Work, portions: int) -> None:
        """Makes a job on which nobody works yet."""
        self._work = work
        self._next, self._end = 0, portions
        self._open = portions  # not yet done
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._helpers = 0  # that are at it
        self._idle = threading.Event()  # none is
        self._idle.set()
        self._error: BaseException | None = None
        if not portions:
            self._ended.set()

    def help(self, thread: int) -> None:
        """Works off portions on another thread than the caller's until none is left to take."""
        self._count_helper(1)
        try:
            self._work_off(thread)
        finally:
            self._count_helper(-1)

    def _work_off(self, thread: int) -> None:
        while (portion := self._take()) is not None:
            try:
                self._work(portion, thread)
            except BaseException as error:
                self._fail(error)
            self._finish(1)

    def done(self) -> bool:
        """Returns whether all portions are done."""
        return self._ended.is_set()

    def result(self) -> None:
        """Helps until everything is done.

        Raises:
          BaseException: what the first portion that failed has raised.
        """
        self._work_off(0)
        self._ended.wait()
        if self._error:
            raise self._error

    def cancel(self) -> None:
        """Drops the portions that nobody has begun, and waits for the other threads.

        Not for `_ended`: Ctrl-C may have hit the caller's thread between taking a portion and doing it.
        """
        self._drop()
        self._idle.wait()

    def _take(self) -> int | None:
        with self._lock:
            if self._next == self._end:
                return None
            self._next += 1
            return self._next - 1

    def _count_helper(self, more: int) -> None:
        with self._lock:
            self._helpers += more
            if self._helpers:
                self._idle.clear()
            else:
                self._idle.set()

    def _finish(self, portions: int) -> None:
        with self._lock:
            self._open -= portions
            if self._open == 0:
                self._ended.set()

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._drop()

    def _drop(self) -> None:
        with self._lock:
            dropped, self._next = self._end - self._next, self._end
        self._finish(dropped)


class EvaluationThreads:
    """Some threads, the caller's among them. They start with the first job and end with `close`.

    In a process that was forked since then the caller does everything itself.

    Attributes:
      count: how many, the caller's included.
    """

    def __init__(self, count: int) -> None:
        """Begins with so many threads, the caller's included, at least 1."""
        self.count = count
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._finalizer = weakref.finalize(self, _end, self._jobs, self._threads)

    def begin(self, work: Work, portions: int) -> Job:
        """Returns a job on which the threads have begun to work; `Job.result` helps them.

        Args:
          work: called on any thread with the number of a portion and of the thread, which is below `count`
            and 0 for the caller's. Two calls at the same time have different numbers.
          portions: how many.
        """
        job = Job(work, portions)
        if not self._threads and self._finalizer.alive:
            self._start()
        for _ in self._threads[:portions]:
            self._jobs.put(job)
        return job

    def close(self) -> None:
        """Ends the threads, when they have done what they are at. A second call does nothing."""
        self._finalizer()

    def _start(self) -> None:
        for number in range(1, self.count):
            name = f"graphsearch-evaluation-{number}"
            thread = threading.Thread(target=_serve, args=(self._jobs, number), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)


def _serve(jobs: SimpleQueue[Job | None], number: int) -> None:
    """Helps with jobs until there are no more."""
    np.seterr(over="ignore")  # for kernels that run as plain Python: hashes wrap around
    while (job := jobs.get()) is not None:
        job.help(number)
        del job  # it holds the evaluator


def _end(jobs: SimpleQueue[Job | None], threads: list[threading.Thread]) -> None:
    for _ in threads:
        jobs.put(None)
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join()
    threads.clear()
