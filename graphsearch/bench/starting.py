"""What a process takes from its start to the first table, with compiled kernels and without."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from ..errors import GraphSearchError

FIRST_TABLE = ("analyze", "startpos", "--visits", "1")


def start_figures(*, cold: bool) -> dict[str, float]:
    """Returns CPU-seconds, those of the processes that it starts included, by the names of the figures.

    Args:
      cold: whether to start with an empty cache, too; without a wheel's kernels that compiles.
    """
    figures = {"start_s": round(process_seconds(FIRST_TABLE, os.environ), 2)}
    if cold:
        with tempfile.TemporaryDirectory() as empty:
            environment = os.environ | {"GRAPHSEARCH_CACHE_DIR": empty}
            figures["start_cold_s"] = round(process_seconds(FIRST_TABLE, environment), 2)
    return figures


def process_seconds(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    """Returns the CPU-seconds of the program with some arguments, those of the processes it starts included.

    Raises:
      GraphSearchError: if it fails.
    """
    quiet, command = subprocess.DEVNULL, [sys.executable, "-m", "graphsearch", *arguments]
    before = os.times()
    done = subprocess.run(  # noqa: S603
        command, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, check=False
    )
    after = os.times()
    if done.returncode:
        raise GraphSearchError(f"`graphsearch {' '.join(arguments)}` ended with exit code {done.returncode}")
    children = after.children_user + after.children_system
    return children - before.children_user - before.children_system
