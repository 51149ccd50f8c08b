"""What an import did, file by file."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that was left out, or is odd: where in the file (line, or entry), and why."""

    place: int
    reason: str


@dataclass(slots=True)
class FileReport:
    """What became of one file.

    Attributes:
      name, kind, digest: of the file, as in the table `source`.
      source: number of its row; 0 if it has none.
      state: `imported`; `continued` (after what an import before had taken in); `players` (it was counted
        before, and only who played was added); `known` (all of it was taken in before, and nothing was done);
        `stopped` (by the person); `failed`.
      taken, skipped: games, entries or positions, in all. new_taken, new_skipped: those of this time.
      players: games whose players were kept this time.
      problems: what was skipped or is wrong, this time; all of them.
      variants: games of other variants this time, by name.
      notes: what a person should know, one line each.
      error: why it failed; empty if it did not.
      seconds: this time.
    """

    name: str
    kind: str
    digest: str = ""
    source: int = 0
    state: str = "failed"
    taken: int = 0
    skipped: int = 0
    new_taken: int = 0
    new_skipped: int = 0
    players: int = 0
    problems: list[Problem] = field(default_factory=list)
    variants: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0

    @property
    def done(self) -> int:
        """How far in the file: what was taken in and what was left out."""
        return self.taken + self.skipped

    @property
    def new(self) -> int:
        """How many were passed this time, taken in or left out."""
        return self.new_taken + self.new_skipped

    @property
    def failed(self) -> bool:
        """Whether it could not be read, or nothing in it was of use."""
        return bool(self.error) or (self.state != "stopped" and self.skipped > 0 and not self.taken)

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as JSON takes it."""
        facts = asdict(self)
        facts["variants"] = dict(self.variants)
        return facts | {"failed": self.failed}
