"""Clocks: CPU-seconds of processes, and works timed in turns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

Work = Callable[[], object]
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


def cpu_of(pid: int) -> float:
    """Returns the CPU time of a process and of those of its children that have ended (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
