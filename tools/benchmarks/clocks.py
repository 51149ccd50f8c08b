"""Clocks and counters: CPU-seconds, bytes, and works that are measured in turns."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from graphsearch.workers.process import counters

Work = Callable[[], object]
IDLE_SECONDS = 0.02  # between two works: threads of the one before have stopped waiting for more


def timed(work: Work) -> tuple[float, float]:
    """Returns the seconds of a call: by the clock, and of CPU time of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def in_turns(
    works: Mapping[str, Work], rounds: int, *, warm_up: int = 1
) -> Iterator[tuple[str, float, float]]:
    """Yields the name of each work and its seconds, by the clock and of CPU time, round after round.

    Rounds of warming up are run before, and yield nothing.
    """
    for number in range(-warm_up, rounds):
        for name, work in works.items():
            time.sleep(IDLE_SECONDS)
            wall, cpu = timed(work)
            if number >= 0:
                yield name, wall, cpu


def children_cpu() -> float:
    """Returns the CPU-seconds of the processes that this one has started and that have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


def cpu_of(pid: int) -> float:
    """Returns the CPU time of a process and of those of its children that have ended (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def resident_bytes() -> int:
    """Returns the bytes that this process has in memory now, 0 where that is not told."""
    return counters("status").get("VmRSS", 0) << 10


def written_bytes() -> int:
    """Returns the bytes that this process has had written to disk, 0 where that is not told."""
    return counters("io").get("write_bytes", 0)
