"""Worker processes on this machine: their start, their signals and threads, and their end."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.util  # it waits for all processes at exit: `Workers` must register its end later
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from multiprocessing import connection, get_context
from multiprocessing.context import SpawnContext
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from ..base.errors import EvaluatorError
from ..base.faults import Watch, error_line, watch_logs
from ..base.system import SIGNALS, cores, end_at_once, signals_blocked, unblock_signals, wait_for_process
from .executor import STOPPING, WorkerLostError, failure_of

ADVICE = "the stderr of the processes says more; a script needs `if __name__ == '__main__':`"


def python_command(module: str, *arguments: str) -> list[str]:
    """Returns the command that runs an installed module, even if the working folder has one of its name."""
    return [sys.executable, "-P", "-m", module, *arguments]


def how_it_ended(process: BaseProcess) -> str:
    """Returns how a process ended, for a message."""
    with contextlib.suppress(ValueError, AssertionError):
        process.join(1)
        if process.exitcode is not None and process.exitcode < 0:
            return f"a worker process was ended by signal {-process.exitcode}"
        if process.exitcode is not None:
            return f"a worker process ended with exit code {process.exitcode}"
    return "a worker process ended"


# ---------------------------------------------------------- in the worker's process
def prepare(threads: int) -> None:
    """Prepares a worker process: it ignores `SIGNALS`, ends with its parent, and uses `threads` threads."""
    for number in SIGNALS:
        # SIGTERM by a handler: an engine that the evaluator starts would inherit SIG_IGN
        signal.signal(number, (lambda *_: None) if number == signal.SIGTERM else signal.SIG_IGN)
    unblock_signals()
    # Linux's death signal is no substitute: it comes when the thread that started the process ends
    if parent := multiprocessing.parent_process():
        _end_after(parent.join)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))


def _end_after(wait: Callable[[], object]) -> None:
    """Ends this process when a call has returned."""

    def follow() -> None:
        wait()
        end_at_once()

    threading.Thread(target=follow, name="graphsearch-parent", daemon=True).start()


def end_with_parent() -> None:
    """Ends this process when its parent has ended."""
    _end_after(partial(wait_for_process, os.getppid()))


if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    Pipe = Connection[Any, Any]
else:  # no generic at run time
    Pipe = object

Hear = Callable[[Any], object]  # handles a message
Lost = Callable[[str], object]  # takes how the process ended
Work = Callable[[Pipe], None]  # the main function of a worker; its argument is its end of the pipe
STARTING = threading.Lock()  # held while a process starts


@contextlib.contextmanager
def starting() -> Iterator[SpawnContext]:
    """Yields the context in which to start a process.

    Raises:
      EvaluatorError: if no process can be started.
    """
    try:
        with STARTING, signals_blocked():
            yield get_context("spawn")
    except OSError as error:
        raise EvaluatorError(f"a worker process cannot be started: {error.strerror or error}") from None
    except RuntimeError:  # this process is being started itself
        raise EvaluatorError(f"a worker process cannot be started; {ADVICE}") from None


def start_process(work: Work, *, name: str, threads: int) -> tuple[BaseProcess, Pipe]:
    """Returns a new process, and this end of the pipe to it; `starting` describes the errors.

    Args:
      work: its main function, called there with its end of the pipe.
      threads: the number it should use.
    """
    with starting() as context:
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(work, threads, theirs), name=name)
        process.start()
        theirs.close()
    return process, ours


def is_heard(pipe: Pipe, process: BaseProcess, seconds: float = inf) -> bool:
    """Waits for what a process of `start_process` sends; returns whether it came within some seconds.

    The pipe alone does not tell of its end: on Windows this process keeps the other end, too, until the new
    process has fetched it.

    Raises:
      EOFError, OSError: if the process has ended.
    """
    found = connection.wait([pipe, process.sentinel], None if seconds == inf else seconds)
    if found and not pipe.poll():
        raise EOFError
    return bool(found)


# ---------------------------------------------------------- workers of an executor
class LocalSite:
    """Starts processes of this machine, each with `threads` threads; see `executor.Site`."""

    patience, advice, is_remote = 600.0, ADVICE, False

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def start(self) -> LocalWorker:
        """Returns a worker that was just started."""
        return LocalWorker(self._threads)

    def close(self) -> None:
        """Does nothing: the processes have ended."""


class LocalWorker:
    """A process of this machine; see `executor.Worker`."""

    def __init__(self, threads: int) -> None:
        """Starts it; `starting` describes the errors."""
        with starting() as context:
            stop, self._stop = context.Pipe(duplex=False)
        work = partial(run_calls, stop)
        self._process, self._pipe = start_process(work, name="graphsearch worker", threads=threads)
        stop.close()

    def run(self, call: Callable[[], Any], seconds: float = inf) -> Any:
        """Returns the result of a call in the process."""
        try:
            self._pipe.send(call)
            if is_heard(self._pipe, self._process, seconds):
                return self._pipe.recv()
        except (EOFError, OSError):
            raise WorkerLostError(how_it_ended(self._process)) from None
        raise TimeoutError

    def stop(self) -> None:
        """Sets `executor.STOPPING` there."""
        with contextlib.suppress(OSError):
            self._stop.send(True)

    def leave(self) -> None:
        """Ends the pipe on which the process waits for a call."""
        self._pipe.close()

    def kill(self, seconds: float = 0.0) -> None:
        """Ends the process, unless it ends by itself within some seconds."""
        if seconds:
            self._process.join(seconds)
        self._process.kill()


def run_calls(stop: Pipe, pipe: Pipe) -> None:
    """Runs calls from a pipe and sends their results; a message on `stop` sets STOPPING."""

    def await_stop() -> None:
        with contextlib.suppress(EOFError, OSError):
            stop.recv()
            STOPPING.set()

    threading.Thread(target=await_stop, name="graphsearch-stop", daemon=True).start()
    while True:
        try:
            found = pipe.recv()()
        except (EOFError, OSError):
            return
        except Exception as error:  # the call cannot be unpickled
            found = failure_of(error)
        try:
            pipe.send(found)
        except OSError:
            return
        except Exception as error:  # the result cannot be pickled
            pipe.send(failure_of(error))


# ---------------------------------------------------------- one process, with messages in both directions
class Child:
    """A process at the other end of a pipe.

    Attributes:
      pid: of the process.
    """

    def __init__(self, work: Work, hear: Hear, died: Callable[[], object], lost: Lost) -> None:
        """Starts a process, which may use all cores; `start_process` describes the errors.

        Args:
          work: its main function, as there.
          hear: handles a message, in a thread of its own.
          died: called when the process has ended: handlers must stop waiting on its behalf.
          lost: called last, when all messages have been handled, with how the process ended.
        """
        self._hear, self._died, self._lost = hear, died, lost
        self._outbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._process, pipe = start_process(work, name="graphsearch task", threads=cores())
        self.pid = self._process.pid or 0
        self._thread(self._speak, pipe)
        self._thread(self._follow, pipe)

    def send(self, message: object) -> None:
        """Sends a message without waiting; does nothing if the process has ended."""
        self._outbox.put(message)

    def kill(self) -> None:
        """Ends the process at once; `lost` follows."""
        self._process.kill()

    # ---------------------------------------------------------- threads
    def _thread(self, work: Callable[..., None], *args: object) -> None:
        with signals_blocked():  # they interrupt the main thread only if no other thread receives them
            threading.Thread(target=work, args=args, name="graphsearch-child", daemon=True).start()

    def _speak(self, pipe: Pipe) -> None:
        try:
            while (message := self._outbox.get()) is not None:
                pipe.send(message)
        except OSError:
            return
        except Exception:  # the message cannot be pickled
            self.kill()
            raise

    def _follow(self, pipe: Pipe) -> None:
        """Reads the pipe until the process has ended."""
        try:
            self._listen(pipe)
        finally:  # callers that wait for the process must learn of its end
            self.kill()  # it has closed the pipe, so it is ending or broken
            self._process.join()
            how = how_it_ended(self._process)
            self._died()
            self._outbox.put(None)
            pipe.close()
            self._lost(how)

    def _listen(self, pipe: Pipe) -> None:
        """Handles messages until the pipe is closed; kills the process if one cannot be read or handled."""
        try:
            while is_heard(pipe, self._process):
                self._hear(pipe.recv())
        except (EOFError, OSError):
            return
        except Exception:
            self.kill()
            raise


def _work(work: Work, threads: int, pipe: Pipe) -> None:
    """Runs `work` in the new process. It reports defects on stderr, because the pipe may be broken."""
    prepare(threads)
    Watch(_write_line)
    watch_logs(_write_line)
    try:
        work(pipe)
    except Exception as error:
        _write_line(error_line(error, "work of a worker process"))


def _write_line(line: str) -> None:
    """Writes a line to stderr, past Python's buffers: several processes write there."""
    with contextlib.suppress(OSError):
        os.write(2, f"graphsearch: {' '.join(line.split())}\n".encode("utf-8", "backslashreplace"))
