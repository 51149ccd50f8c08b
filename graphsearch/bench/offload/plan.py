"""What `graphsearch bench --offload` measures, and where its files are."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ..files import GrownFile

Figures = dict[str, float | int | None]

# leaves; large waves read more at once, and take a budget that has room for them
WAVE, LARGE_WAVE = 1024, 4096
LARGE_WAVE_FROM = 128_000_000  # bytes of a budget
READ_BATCH, READ_BATCHES = 4096, 8  # random positions read at once, and how often


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(GrownFile):
    """What is measured, and where; nothing changes the file once it is made.

    Attributes:
      visits, evaluations: measured with `uniform`, with the slow evaluator.
      rounds: steps of `spin` that make the slow evaluator slow.
    """

    visits: int
    evaluations: int
    rounds: int = 0

    @property
    def wave(self) -> int:
        """Leaves of the waves that are measured."""
        return LARGE_WAVE if self.ram_bytes >= LARGE_WAVE_FROM else WAVE

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
