"""Clocks and counters: CPU-seconds, bytes, works timed in turns, and the resources of one phase."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from graphsearch.store.side_files import log_bytes
from graphsearch.workers.process import counters, peak_rss

from .harness import Row

Work = Callable[[], object]
LOOK_SECONDS = 0.02  # between two looks at the log
IDLE_SECONDS = 0.02  # between two works, so that threads of the first stop waiting for tasks


def timed(work: Work) -> tuple[float, float]:
    """Returns the wall seconds of a call, and the CPU-seconds of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def in_turns(
    works: Mapping[str, Work], rounds: int, *, warm_up: int = 1
) -> Iterator[tuple[str, float, float]]:
    """Yields the name of each work with its wall and CPU seconds, round after round.

    Warm-up rounds run first and yield nothing.
    """
    for number in range(-warm_up, rounds):
        for name, work in works.items():
            time.sleep(IDLE_SECONDS)
            wall, cpu = timed(work)
            if number >= 0:
                yield name, wall, cpu


def children_cpu() -> float:
    """Returns the CPU-seconds of this process's children that have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


def cpu_of(pid: int) -> float:
    """Returns the CPU time of a process and of those of its children that have ended (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def written_bytes() -> int:
    """Returns the bytes that this process has written to disk, 0 if the system does not report them."""
    return counters("io").get("write_bytes", 0)


class Meter:
    """Measures one phase, in the process that runs it.

    Attributes:
      units, unit: the divisor of the figures, and its name.
      more: figures of this phase only.
      cpu_beside, peak_beside: CPU-seconds of the phase's child processes, and peak bytes of one of them.
    """

    def __init__(self, *files: Path) -> None:
        """Starts measuring; `files`: the files with logs to watch."""
        self.units, self.unit = 1, "call"
        self.more: Row = {}
        self.cpu_beside, self.peak_beside = 0.0, 0
        self._files, self._largest_log = files, 0
        self._ended = threading.Event()
        self.restart()

    def restart(self) -> None:
        """Restarts the measurement, so that preparations do not count."""
        self._longest, self._written = 0.0, written_bytes()
        self._cpu = time.process_time()
        self._begin = self._last = time.perf_counter()

    def tick(self, *_: object) -> None:
        """Notes that the phase is alive; may be called as `on_progress`."""
        now = time.perf_counter()
        self._longest, self._last = max(self._longest, now - self._last), now

    def of_all(self, nodes: int, **more: object) -> None:
        """Sets the unit to `nodes` nodes, and adds figures."""
        self.units, self.unit = max(1, nodes), "node"
        self.more |= more

    def elapsed(self) -> float:
        """Returns the seconds until the last tick."""
        return self._last - self._begin

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the size of the logs during the body."""
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._ended.set()
            watcher.join()

    def _watch(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            self._largest_log = max(self._largest_log, *map(log_bytes, self._files))

    def figures(self) -> Row:
        """Returns the current figures: times and bytes per unit, the others unchanged."""
        self.tick()
        cpu = time.process_time() - self._cpu + self.cpu_beside
        return {
            "unit": self.unit,
            "us": 1e6 * self.elapsed() / self.units,
            "cpu_us": 1e6 * cpu / self.units,
            "written_bytes": (written_bytes() - self._written) / self.units,
            "peak_mb": max(peak_rss() or 0, self.peak_beside) / 1e6,
            "stall_s": self._longest,
            "log_mb": self._largest_log / 1e6,
            "units": self.units,
        } | self.more
