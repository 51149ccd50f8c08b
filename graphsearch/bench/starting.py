"""What a process takes from its start to the first table, with compiled kernels and without."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from ..errors import GraphSearchError

FIRST_TABLE = ("-m", "graphsearch", "analyze", "startpos", "--visits", "1")


def start_figures(*, cold: bool) -> dict[str, float]:
    """Returns CPU-seconds, those of the processes that it starts included, by the names of the figures.

    Args:
      cold: whether to start with an empty cache, too; without a wheel's kernels that compiles.
    """
    figures = {"start_s": _first_table(os.environ)}
    if cold:
        with tempfile.TemporaryDirectory() as empty:
            figures["start_cold_s"] = _first_table(os.environ | {"GRAPHSEARCH_CACHE_DIR": empty})
    return figures


def _first_table(environment: os._Environ[str] | dict[str, str]) -> float:
    quiet = subprocess.DEVNULL
    before = os.times()
    done = subprocess.run(  # noqa: S603
        [sys.executable, *FIRST_TABLE], env=environment, stdin=quiet, stdout=quiet, stderr=quiet, check=False
    )
    after = os.times()
    if done.returncode:
        raise GraphSearchError(f"a first search ended with exit code {done.returncode}")
    children = after.children_user + after.children_system
    return round(children - before.children_user - before.children_system, 2)
