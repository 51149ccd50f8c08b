"""What processes of this machine have in common that work for this one: signals, threads, how they end."""

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
    """Returns how many of this process's cores each of some workers may use, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, cores // workers)


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Starts processes and threads deaf to `SIGNALS`, as they inherit; a process then chooses for itself."""
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
    """Returns the most bytes that this process ever had in memory, None where that is not told."""
    kib = counters("status").get("VmHWM")
    return None if kib is None else kib << 10


# ---------------------------------------------------------- in the worker's process
def prepare(threads: int) -> None:
    """Prepares this process: what it ignores, that it ends with its parent, how many threads it has."""
    for number in SIGNALS:
        # SIGTERM by a handler: ignored, it would be so in an engine that the evaluator starts, for good
        signal.signal(number, _ignore if number == signal.SIGTERM else signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    threading.Thread(target=_follow_parent, name="graphsearch-parent", daemon=True).start()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, str(threads))


def _ignore(number: int, frame: object) -> None:
    """Does nothing."""


def _follow_parent() -> None:
    """Ends this process when its parent is gone, however that ended: it would wait for ever.

    Linux's death signal is no substitute: it comes when the thread ends that started the process.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        end_at_once()


def end_with_parent() -> None:
    """Ends this process within a second when its parent is gone, whoever that was."""
    threading.Thread(
        target=_watch_parent, args=(os.getppid(),), name="graphsearch-parent", daemon=True
    ).start()


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    end_at_once()


def end_with_stdin() -> None:
    """Ends this process when stdin does: the program that held the other end is gone, however it ended."""
    threading.Thread(target=_follow_stdin, name="graphsearch-parent", daemon=True).start()


def _follow_stdin() -> None:
    while os.read(0, 1):
        pass
    end_at_once()


def end_at_once() -> None:
    """Ends this process, as nobody waits for it any more."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
