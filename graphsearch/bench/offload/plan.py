"""What `graphsearch bench --offload` measures, and where its files are."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

Figures = dict[str, float | int | None]

WAVE, LARGE_WAVE = (
    1024,
    4096,
)  # leaves; large ones read more at once, and take a budget that has room for them
LARGE_WAVE_FROM = 128_000_000  # bytes of a budget
READ_BATCH, READ_BATCHES = 4096, 8  # random positions read at once, and how often


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured, and where.

    Attributes:
      folder: of all files. nodes: size of the graph. ram_bytes: the budget of searches with a file.
      visits, evaluations: measured with `uniform`, with the slow evaluator.
      rounds: steps of `spin` that make the slow evaluator slow.
    """

    folder: str
    nodes: int
    ram_bytes: int
    visits: int
    evaluations: int
    rounds: int = 0

    @property
    def wave(self) -> int:
        """Leaves of the waves that are measured."""
        return LARGE_WAVE if self.ram_bytes >= LARGE_WAVE_FROM else WAVE

    @property
    def file(self) -> Path:
        """The graph file of `nodes` nodes, which nothing changes once it is made."""
        return Path(self.folder) / "grown.graph"

    @property
    def copy(self) -> Path:
        """The copy of it that a search goes on with."""
        return Path(self.folder) / "copy.graph"

    @property
    def few(self) -> Path:
        """A graph file of a handful of nodes."""
        return Path(self.folder) / "few.graph"

    @property
    def sample(self) -> Path:
        """Stored positions in random order, `[K, 10]`."""
        return Path(self.folder) / "sample.npy"

    def write(self) -> None:
        """Writes plan.json."""
        (Path(self.folder) / "plan.json").write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """Returns the plan of a folder."""
        return cls(**json.loads((folder / "plan.json").read_text()))
