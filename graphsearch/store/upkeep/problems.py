"""What a check or a salvage lists: problems, one line each."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...limits import shortened

MAX_PROBLEMS = 1000  # listed; all are counted
LONGEST = 600  # characters of one: a record may be wrong in each of its moves


@dataclass(slots=True, kw_only=True)
class Problems:
    """Problems of a file.

    Attributes:
      problems: one line each, of at most 600 characters; at most 1000 are listed.
      found: number of problems, listed or not.
    """

    problems: list[str] = field(default_factory=list)
    found: int = 0

    def add(self, problem: str) -> None:
        """Records a problem."""
        self.found += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(shortened(problem, LONGEST))

    def take(self, other: Problems) -> None:
        """Adds the problems of another file."""
        self.found += other.found
        self.problems += other.problems[: MAX_PROBLEMS - len(self.problems)]
