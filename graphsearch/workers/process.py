"""Signals, threads and the end of worker processes on this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path

ADVICE = "what the processes wrote to stderr says more; a script needs `if __name__ == '__main__':`"

# of a terminal or a supervisor, which send them to all processes of a group: the search saves and ends, and
# needs its workers until then
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def cores_per_worker(workers: int) -> int:
    """Returns the number of this process's cores for each worker, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, cores // workers)


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Blocks `SIGNALS` while processes and threads start, which inherit that; a process may unblock them."""
    if not hasattr(signal, "pthread_sigmask"):  # pragma: no cover
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        resource_tracker.ensure_running()  # which unblocks some when it starts
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def how_it_ended(process: BaseProcess) -> str:
    """Returns how a process ended, for a message."""
    with contextlib.suppress(ValueError, AssertionError):
        process.join(1)
        if process.exitcode is not None and process.exitcode < 0:
            return f"a worker process was ended by signal {-process.exitcode}"
        if process.exitcode is not None:
            return f"a worker process ended with exit code {process.exitcode}"
    return "a worker process ended"


def counters(name: str) -> dict[str, int]:
    """Returns the first number of every line of a file of /proc/self; empty where there is none."""
    try:
        text = Path(f"/proc/self/{name}").read_text()
    except OSError:
        return {}
    parts = [line.replace(":", " ").split() for line in text.splitlines()]
    return {part[0]: int(part[1]) for part in parts if len(part) > 1 and part[1].isdigit()}


def peak_rss() -> int | None:
    """Returns the peak memory of this process in bytes, None where the system does not report it."""
    kib = counters("status").get("VmHWM")
    return None if kib is None else kib << 10


# ---------------------------------------------------------- in the worker's process
def prepare(threads: int) -> None:
    """Prepares a worker process: it ignores `SIGNALS`, ends with its parent, and uses so many threads."""
    for number in SIGNALS:
        # SIGTERM by a handler: an engine that the evaluator starts would inherit SIG_IGN
        signal.signal(number, _ignore if number == signal.SIGTERM else signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    threading.Thread(target=_follow_parent, name="graphsearch-parent", daemon=True).start()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))


def _ignore(number: int, frame: object) -> None:
    """Does nothing."""


def _follow_parent() -> None:
    """Ends this process when its parent has ended for any reason; it would wait for ever.

    Linux's death signal is no substitute: it comes when the thread ends that started the process.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        end_at_once()


def end_with_parent() -> None:
    """Ends this process within a second after its parent has ended."""
    threading.Thread(
        target=_watch_parent, args=(os.getppid(),), name="graphsearch-parent", daemon=True
    ).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    end_at_once()


def end_with_stdin() -> None:
    """Ends this process when stdin is closed: the program at the other end has ended."""
    threading.Thread(target=_follow_stdin, name="graphsearch-parent", daemon=True).start()


def _follow_stdin() -> None:
    while os.read(0, 1):
        pass
    end_at_once()


def end_at_once() -> None:
    """Kills this process; nobody waits for it."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
