"""Room on the disk for a benchmark."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..errors import GraphSearchError


def check_disk(folder: Path, need: int, advice: str) -> None:
    """Raises GraphSearchError, with advice, unless a folder has room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if free < need:
        raise GraphSearchError(
            f"{folder} has {free >> 20} MiB free, the benchmark needs {need >> 20} MiB; {advice} or measure"
            " fewer nodes"
        )
