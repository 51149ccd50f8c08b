"""Measures whole processes: from the start to the first table, and ten sessions against one."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from graphsearch.base.errors import GraphSearchError
from graphsearch.workers.process import python_command

FIRST_TABLE = ("analyze", "startpos", "--visits", "1")
SESSION_EVALUATIONS = 200_000
SESSIONS, STARTS = 10, 3


def start_figures(*, cold: bool) -> dict[str, float]:
    """Returns CPU-seconds by figure, child processes included.

    Args:
      cold: whether to measure a start with an empty cache, too; it compiles unless a wheel has the kernels.
    """
    figures = {"start_s": round(process_seconds(FIRST_TABLE, os.environ), 2)}
    if cold:
        with tempfile.TemporaryDirectory() as empty:
            environment = os.environ | {"GRAPHSEARCH_CACHE_DIR": empty}
            figures["start_cold_s"] = round(process_seconds(FIRST_TABLE, environment), 2)
    return figures


def session_figures(evaluations: int = SESSION_EVALUATIONS) -> dict[str, float]:
    """Returns the CPU time of ten sessions, less ten starts, relative to one session, by its name.

    Each is a whole process; a start evaluates one position and makes a file. The graphs are the same, bit for
    bit.
    """
    with tempfile.TemporaryDirectory() as folder:
        grown, alone = Path(folder) / "grown.graph", Path(folder) / "alone.graph"
        starts = [_session(Path(folder) / f"{k}.graph", 1) for k in range(STARTS)]
        parts = sum(_session(grown, evaluations // SESSIONS) for _ in range(SESSIONS))
        whole = _session(alone, evaluations)
    start = statistics.median(starts)
    return {"sessions_of_one": round((parts - SESSIONS * start) / whole, 2)}


def _session(path: Path, evaluations: int) -> float:
    """Returns the CPU-seconds of one session on a file."""
    limits = ("--threads", "1", "--evaluations", str(evaluations))
    return process_seconds(("analyze", "startpos", "--store", str(path), *limits), os.environ)


def process_seconds(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    """Returns the CPU-seconds of the program with some arguments, child processes included.

    Raises:
      GraphSearchError: if it fails.
    """
    quiet, command = subprocess.DEVNULL, python_command("graphsearch", *arguments)
    before = os.times()
    done = subprocess.run(  # noqa: S603
        command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, check=False
    )
    after = os.times()
    if done.returncode:
        raise GraphSearchError(f"`graphsearch {' '.join(arguments)}` ended with exit code {done.returncode}")
    children = after.children_user + after.children_system
    return children - before.children_user - before.children_system
