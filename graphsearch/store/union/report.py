"""What a merge did, or would do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from ...position.board import fen_of, unpack
from ..upkeep.problems import Problems
from .records import Example, Examples, RecordCounts


@dataclass(slots=True)
class InputReport:
    """What came of one input.

    Attributes:
      path: the file, as it was named. salvaged: whether it is damaged, and what could be rescued was taken.
      counts: of its records. rows: rows of plain tables that were written, by table; those of books, imports
        and entries included.
    """

    path: str
    salvaged: bool = False
    counts: RecordCounts = field(default_factory=RecordCounts)
    rows: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Returns the object of the list `inputs`."""
        counts = asdict(self.counts) | {"unchanged": self.counts.unchanged}
        written = {name: number for name, number in self.rows.items() if number}
        return {"path": self.path, "salvaged": self.salvaged, **counts, "rows": written}


@dataclass(slots=True, kw_only=True)
class MergeReport(Problems):
    """What a merge did; `problems` names all that was left out or contradicts itself.

    Attributes:
      path: the file that was written. dry_run: nothing was written.
      evaluator: that the file is bound to. mixed: whether records of another one stand in it, until
        `reevaluate` has replaced them.
      nodes: of the file. bytes: of the file with its log; of a dry run at most.
      inputs: in the order in which they were named.
      numbered: rows with numbers of their own, such as runs, that were written, by table.
      examples: most visited new and changed positions, and contradictions.
      refreshed: the report of `refresh`, if values were brought up to date. seconds: wall time.
    """

    path: str = ""
    dry_run: bool = False
    evaluator: str = ""
    mixed: bool = False
    nodes: int = 0
    bytes: int = 0
    inputs: list[InputReport] = field(default_factory=list)
    numbered: dict[str, int] = field(default_factory=dict)
    examples: Examples = field(default_factory=Examples)
    refreshed: dict[str, Any] | None = None
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether all of every input is in the file."""
        return not self.found

    @property
    def written(self) -> int:
        """Records that are new or changed."""
        return sum(one.counts.fresh + one.counts.changed for one in self.inputs)

    def name_contradictions(self) -> None:
        """Lists, among the problems, the positions whose proofs contradict each other, at last how many."""
        total = sum(one.counts.contradictions for one in self.inputs)
        for words in self.examples.contradictions:
            self.add(f"{fen_of(unpack(words))}: the files prove what cannot both be true; {_KEPT}")
        if total > len(self.examples.contradictions):
            self.add(f"{total - len(self.examples.contradictions):,} more positions with such contradictions")

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch store merge`."""
        return {
            "path": self.path,
            "dry_run": self.dry_run,
            "complete": self.complete,
            "evaluator": self.evaluator,
            "mixed": self.mixed,
            "nodes": self.nodes,
            "bytes": self.bytes,
            "inputs": [one.as_dict() for one in self.inputs],
            "numbered": {name: number for name, number in self.numbered.items() if number},
            "fresh": shown(self.examples.of("fresh")),
            "changed": shown(self.examples.of("changed")),
            "refresh": self.refreshed,
            "seconds": self.seconds,
            "found": self.found,
            "problems": list(self.problems),
        }


_KEPT = "the proof that stands with more visits is kept"


def shown(examples: Iterable[Example]) -> list[dict[str, Any]]:
    """Returns examples as JSON takes them: FEN, N before and after."""
    return [
        {"position": fen_of(unpack(one.words)), "before": one.before, "after": one.after} for one in examples
    ]
