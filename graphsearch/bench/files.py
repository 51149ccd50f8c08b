"""Where a benchmark keeps its files."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ..errors import GraphSearchError


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownFile:
    """A graph that was grown for measurements.

    Attributes:
      folder: of all files. nodes: size of the graph. ram_bytes: the budget of what works with it.
    """

    folder: str
    nodes: int
    ram_bytes: int

    @property
    def file(self) -> Path:
        """The file."""
        return Path(self.folder) / "grown.graph"

    @property
    def copy(self) -> Path:
        """The copy of it that may be changed."""
        return Path(self.folder) / "copy.graph"

    def remove(self, *files: Path) -> None:
        """Removes graph files and clusters with all that lies beside them."""
        for file in files:
            for path in Path(self.folder).glob(f"{file.name}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def check_disk(folder: Path, need: int, advice: str) -> None:
    """Raises GraphSearchError, with advice, unless a folder has room for so many bytes."""
    free = shutil.disk_usage(folder).free
    if free < need:
        raise GraphSearchError(
            f"{folder} has {free >> 20} MiB free, the benchmark needs {need >> 20} MiB; {advice} or measure"
            " fewer nodes"
        )
