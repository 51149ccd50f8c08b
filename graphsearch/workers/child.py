"""A worker process: it gets messages by pipes, and is watched until it has ended.

Every child has pipes of its own, so a killed process leaves nothing locked or half-written that another one
needs. Rejected: `ProcessPoolExecutor`, which sends no message to a busy worker, and which breaks as a whole
with one process; Pebble, whose workers share one pipe and one lock.

Processes are spawned, never forked: this one has threads, compiled kernels and an open SQLite file.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import inf
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from ..errors import EvaluatorError
from ..faults import Watch, told, watch_logs
from .process import ADVICE, how_it_ended, prepare, signals_blocked

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    Pipe = Connection[Any, Any]
else:  # no generic at run time
    Pipe = object

START_SECONDS = 600.0  # until a worker is ready: it may load a large network
ENDING_SECONDS = 10.0  # to read the last messages of an ended process

Hear = Callable[[Any], object]  # handles a message; a result other than None is sent back on the same pipe
Work = Callable[..., None]  # the main function of a worker; its arguments are its ends of all pipes
_starting = threading.Lock()


def nothing() -> None:
    """Does nothing."""


class WorkerProcess(ABC):
    """A process at the other end of some pipes. It is never restarted: the supervisor starts another one.

    Attributes:
      pid: of the process; 0: of another machine.
      alive_since: when it was started, by `time.monotonic`; `inf`: not yet.
      last_heard: time of the last message on the first pipe.
    """

    def __init__(
        self, *, hear: Sequence[Hear], lost: Callable[[str], None], died: Callable[[], None]
    ) -> None:
        """Takes the handlers; `_begin` must follow.

        Args:
          hear: handlers of messages, one for each pipe; each runs in a thread of its own.
          lost: called last, with the way the process ended, when all its messages have been handled.
          died: called before that, when the process has ended: handlers must stop waiting on its behalf.
        """
        self.pid = 0
        self.alive_since = inf
        self.last_heard = time.monotonic()
        self._pipes: Sequence[Pipe] = ()
        self._hear, self._lost, self._died = hear, lost, died
        self._outbox: queue.SimpleQueue[object] = queue.SimpleQueue()

    def send(self, message: object) -> None:
        """Sends a message on the first pipe without waiting; an ended process gets none."""
        self._outbox.put(message)

    @abstractmethod
    def kill(self) -> None:
        """Ends the process at once; `lost` follows."""

    @abstractmethod
    def _ended(self) -> str:
        """Waits until the killed process has ended; returns how it ended."""

    # ---------------------------------------------------------- threads
    def _begin(self, pipes: Sequence[Pipe]) -> None:
        """Takes the pipes, one for each of `hear`."""
        self._pipes = pipes
        self.alive_since = self.last_heard = time.monotonic()
        others = [self._thread(self._listen, channel) for channel in range(1, len(pipes))]
        self._thread(self._speak)
        self._thread(self._follow, others)

    def _thread(self, work: Callable[..., None], *args: object) -> threading.Thread:
        with signals_blocked():  # they interrupt the main thread only if no other one takes them
            thread = threading.Thread(target=work, args=args, name="graphsearch-child", daemon=True)
            thread.start()
        return thread

    def _speak(self) -> None:
        try:
            while (message := self._outbox.get()) is not None:
                self._pipes[0].send(message)
        except OSError:
            return
        except Exception:  # the message cannot be pickled
            self.kill()
            raise

    def _follow(self, others: Sequence[threading.Thread]) -> None:
        """Reads the first pipe until the process has ended, then the rest of the other pipes."""
        try:
            self._listen(0)
        finally:  # whoever waits for the process must learn of its end
            self.kill()  # it has closed the pipe, so it is ending or broken
            how = self._ended()
            self._died()
            for thread in others:
                thread.join(ENDING_SECONDS)
            self._outbox.put(None)
            for pipe in self._pipes:
                pipe.close()
            self._lost(how)

    def _listen(self, channel: int) -> None:
        """Handles messages until the pipe is closed; a message that cannot be read ends the process."""
        pipe, hear = self._pipes[channel], self._hear[channel]
        try:
            while True:
                message = pipe.recv()
                if channel == 0:
                    self.last_heard = time.monotonic()
                reply = hear(message)
                if reply is not None:
                    pipe.send(reply)
        except (EOFError, OSError):
            return
        except Exception:
            self.kill()
            raise


class Child(WorkerProcess):
    """A process of this machine."""

    def __init__(
        self,
        work: Callable[..., None],
        *,
        name: str,
        threads: int,
        hear: Sequence[Hear],
        lost: Callable[[str], None],
        died: Callable[[], None] = nothing,
    ) -> None:
        """Starts a process.

        Args:
          work: its main function, called there with its end of every pipe.
          name: of the process.
          threads: the number it should use.
          hear, lost, died: as `WorkerProcess`.

        Raises:
          EvaluatorError: if no process can be started.
        """
        super().__init__(hear=hear, lost=lost, died=died)
        context = get_context("spawn")
        try:
            with _starting, signals_blocked():
                ours, theirs = zip(*(context.Pipe() for _ in hear), strict=True)
                self._process = context.Process(target=_work, args=(work, threads, theirs), name=name)
                self._process.start()
        except OSError as error:
            raise EvaluatorError(f"a worker process cannot be started: {error.strerror or error}") from None
        except RuntimeError:  # this process is being started itself
            raise EvaluatorError(f"a worker process cannot be started; {ADVICE}") from None
        for pipe in theirs:
            pipe.close()
        self.pid = self._process.pid or 0
        self._begin(ours)

    def kill(self) -> None:
        """Ends the process at once; `lost` follows."""
        self._process.kill()

    def _ended(self) -> str:
        self._process.join()
        return how_it_ended(self._process)


def _work(work: Callable[..., None], threads: int, pipes: Sequence[Pipe]) -> None:
    """Runs `work` in the new process. It reports a defect on stderr, because the pipes may be broken."""
    prepare(threads)
    Watch(_tell)
    watch_logs(_tell)
    try:
        work(*pipes)
    except Exception as error:
        _tell(told(error, "work of a worker process"))


def _tell(line: str) -> None:
    """Writes a line to stderr, past Python's buffers: several processes write there."""
    with contextlib.suppress(OSError):
        text = " ".join(line.split())
        os.write(2, f"graphsearch: {text}\n".encode("utf-8", "backslashreplace"))
