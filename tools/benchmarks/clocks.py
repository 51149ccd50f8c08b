"""Clocks: CPU-seconds of calls and of processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

Work = Callable[[], object]


def timed(work: Work) -> tuple[float, float]:
    """Returns the wall seconds of a call, and the CPU-seconds of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def cpu_of(pid: int) -> float:
    """Returns the CPU time of a process and of those of its children that have ended (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
