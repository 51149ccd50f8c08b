"""What `graphsearch bench --scale` measures, where its files are, and what a phase leaves behind."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...errors import InvalidParameterError
from ..files import GrownFile

NODES = 100_000_000
FIRST_NODES = 1_000_000
STEP = 10  # between two sizes
RAM_BYTES = 512_000_000
DISK_BYTES_PER_NODE = 150  # the file, one copy of it, and what one phase writes beside them

PER_NODE = (  # phases in their order
    "grow",
    "opinions",
    "verify",
    "find",
    "transpositions_all",
    "backup",
    "salvage",
    "compact",
    "prune",
    "refresh",
    "search",
)
PER_CALL = (
    "show",
    "info",
    "pv",
    "moves",
    "tree",
    "line",
    "path",
    "parents",
    "transpositions",
    "games",
    "sql",
    "disagree",
)
PHASES = (*PER_NODE[:2], *PER_CALL, *PER_NODE[2:])
SHARDED_PHASES = ("grow", "show", "info", "pv", "moves", "tree", "verify", "find", "merge", "search")
ON_A_COPY = ("compact", "prune", "refresh", "search")  # these change it


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(GrownFile):
    """What is measured, and where; the graph grows from size to size.

    Attributes:
      shards: of a cluster; 0: one file. Then `ram_bytes` is the budget of each.
    """

    shards: int = 0

    @property
    def file(self) -> Path:
        """The graph: a file, or the folder of a cluster."""
        return Path(self.folder) / ("grown.cluster" if self.shards else "grown.graph")

    @property
    def files(self) -> list[Path]:
        """The files of the graph, made or not."""
        return [self.file / f"shard-{k:03}.graph" for k in range(self.shards)] or [self.file]

    @property
    def phases(self) -> tuple[str, ...]:
        """What is measured, in its order."""
        return SHARDED_PHASES if self.shards else PHASES

    def copies(self, phase: str) -> bool:
        """Returns whether a phase gets a copy of the graph; a cluster is searched as it is, at the end."""
        return phase in ON_A_COPY and not self.shards

    @property
    def new(self) -> Path:
        """A file that a phase makes."""
        return Path(self.folder) / "new.graph"

    @property
    def told(self) -> Path:
        """How far the phase under way is: done and total, as text."""
        return Path(self.folder) / "progress"

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes" + (f" over {self.shards} shards" if self.shards else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one phase took at one size.

    Attributes:
      phase, nodes: what, and in a file of how many nodes.
      units: nodes gone through, or calls. unit: `node`, `visit` or `call`.
      seconds, cpu_seconds: of the clock; of all threads of its process, and of the shards that it started.
      peak_rss: most bytes in memory of one process. rss_before: those of the program before it began. None:
        not told.
      written_bytes: to disk. None where that is not told.
      longest_stall_s: the longest time in which nothing was told and no signal obeyed.
      log_bytes: the largest write-ahead log that was seen. file_bytes: the file afterwards.
      more: what this phase alone tells.
    """

    phase: str
    nodes: int
    units: int
    unit: str
    seconds: float
    cpu_seconds: float
    peak_rss: int | None
    rss_before: int | None
    written_bytes: int | None
    longest_stall_s: float
    log_bytes: int
    file_bytes: int
    more: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Returns it as JSON takes it."""
        return asdict(self)


class Results:
    """The finished phases of a folder, kept in FOLDER/scale.json, which is written after each."""

    def __init__(self, folder: Path, ram_bytes: int, shards: int = 0) -> None:
        self._path = folder / "scale.json"
        self._ram_bytes, self._shards = ram_bytes, shards
        self.rows: list[Measured] = []
        if self._path.exists():
            found = json.loads(self._path.read_text())
            if found["ram_budget"] != ram_bytes:
                raise InvalidParameterError(
                    f"{self._path} was measured with --ram {found['ram_budget']}, not {ram_bytes}; choose"
                    " another --folder, or the same --ram"
                )
            if found.get("shards", 0) != shards:
                raise InvalidParameterError(
                    f"{self._path} was measured with --shards {found.get('shards', 0)}, not {shards}; choose"
                    " another --folder"
                )
            self.rows = [Measured(**row) for row in found["rows"]]

    def has(self, phase: str, nodes: int) -> bool:
        """Returns whether a phase was measured at a size."""
        return any(row.phase == phase and row.nodes == nodes for row in self.rows)

    def add(self, row: Measured) -> None:
        """Keeps a row and writes all of them."""
        self.rows = [old for old in self.rows if (old.phase, old.nodes) != (row.phase, row.nodes)] + [row]
        part = self._path.with_suffix(".part")
        rows = [row.as_dict() for row in self.rows]
        whole = {"ram_budget": self._ram_bytes, "shards": self._shards, "rows": rows}
        part.write_text(json.dumps(whole, indent=1))
        part.replace(self._path)


def sizes(nodes: int, first: int = FIRST_NODES) -> list[int]:
    """Returns the sizes that are measured.

    >>> sizes(100_000_000), sizes(30_000_000), sizes(5000)
    ([1000000, 10000000, 100000000], [1000000, 10000000, 30000000], [5000])
    """
    found, size = [], first
    while size < nodes:
        found.append(size)
        size *= STEP
    return [*found, nodes]
