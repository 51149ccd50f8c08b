"""What stopping costs: a search in sessions on one growing file, beside the same search in one."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

from .starting import process_seconds

EVALUATIONS = 200_000
SESSIONS, STARTS = 10, 3


def session_figures(evaluations: int = EVALUATIONS) -> dict[str, float]:
    """Returns the CPU time of ten sessions, less ten starts, relative to one session, by its name.

    All are whole processes; a start is one that evaluates one position and makes a file. The graphs are the
    same, bit for bit.
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
    arguments = ("analyze", "startpos", "--store", str(path), "--evaluations", str(evaluations))
    return process_seconds(arguments, os.environ)
