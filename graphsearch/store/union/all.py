"""Merges files into one that is open for writing, and reports the result, or the plan of a dry run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ...base.answer import picked
from ...position.board import fen_of, unpack
from ..codec.bulk import take
from ..record.node import RecordBatch
from ..store import Store
from ..upkeep.verify import Problems
from . import books, entries, imports, numbers, records, tables
from .present import Present
from .records import Examples, RecordCounts, parts, translator
from .tables import Input


@dataclass(slots=True)
class InputReport:
    """The result of merging one input.

    Attributes:
      path: the file, as the user gave it. salvaged: whether it is damaged and a salvaged copy was merged.
      counts: of its records. rows: rows of plain tables that were written, by table, including those of
        books, imports and entries.
    """

    path: str
    salvaged: bool = False
    counts: RecordCounts = field(default_factory=RecordCounts)
    rows: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object for the list `inputs`."""
        counts = asdict(self.counts) | {"unchanged": self.counts.unchanged}
        written = {name: number for name, number in self.rows.items() if number}
        return {"path": self.path, "salvaged": self.salvaged, **counts, "rows": written}


@dataclass(slots=True, kw_only=True)
class MergeReport(Problems):
    """The result of a merge; `problems` lists everything that was left out or contradicts itself.

    Attributes:
      path: the target file. dry_run: whether nothing was written.
      evaluator: that the file is bound to. mixed: whether it has records of another one, until `reevaluate`
        replaces them.
      nodes: of the file. bytes: of the file with its log; in a dry run an upper bound.
      inputs: in the order in which they were named.
      numbered: rows with numbers of their own, such as runs, that were written, by table.
      examples: most visited new and changed positions, and contradictions.
      refreshed: the report of `refresh`, if values were refreshed. seconds: wall time.
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
        """Whether the file has everything from every input."""
        return not self.found

    @property
    def written(self) -> int:
        """Number of records that are new or changed."""
        return sum(one.counts.fresh + one.counts.changed for one in self.inputs)

    def name_contradictions(self) -> None:
        """Adds positions with contradicting proofs to the problems, and the number of those not listed."""
        total = sum(one.counts.contradictions for one in self.inputs)
        for words in self.examples.contradictions:
            self.add(f"{fen_of(unpack(words))}: the files have proofs that contradict each other; {_KEPT}")
        if total > len(self.examples.contradictions):
            self.add(f"{total - len(self.examples.contradictions):,} more positions with such contradictions")

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch store merge`."""
        return {
            **picked(self, "path dry_run complete evaluator mixed nodes bytes inputs"),
            "numbered": {name: number for name, number in self.numbered.items() if number},
            "fresh": self.examples.of("fresh"),
            "changed": self.examples.of("changed"),
            **picked(self, "refresh=refreshed seconds found problems"),
        }


_KEPT = "the proof that stands with more visits is kept"


RECORDS, TABLES = "records", "tables"
OnProgress = Callable[[str, str, int, int], None]  # stage, name of the file, done, total


@dataclass(slots=True)
class Union:
    """The union of some inputs with a file.

    Attributes:
      store: the file, open for writing. inputs: in the order in which they were named.
      report: filled in by the merge. on_progress: called as work proceeds.
    """

    store: Store
    inputs: Sequence[Input]
    report: MergeReport
    on_progress: OnProgress

    def unite(self, begin: Callable[[], object]) -> None:
        """Merges all inputs, in transactions that each leave a sound file.

        Args:
          begin: called in every transaction that writes records.

        Raises:
          CorruptRecordError: if a file is damaged; everything written before stays.
          StoreError: if a file cannot be read or written.
        """
        self._unite_numbers()
        for one, report in zip(self.inputs, self.report.inputs, strict=True):
            self._report_progress(RECORDS, one, 0)
            report.counts = records.unite(
                self.store,
                one,
                self.report.examples,
                on_records=partial(self._report_progress, RECORDS, one),
                leave_out=self.report.add,
                begin=begin,
            )
        self._unite_tables()

    def plan(self, base: Input | None) -> None:
        """Counts what a merge would write. It does write the tables, into a file that is thrown away.

        Args:
          base: the target of the merge; None for a new file.
        """
        before: list[Present] = []
        if base:
            itself = Union(self.store, [base], MergeReport(inputs=[InputReport(base.name)]), _silent)
            itself._unite_numbers()
            itself._unite_tables()
            before.append(Present(base.connection, base.store.catalog, _silent, translator(base)))
        self._unite_numbers()
        for one, report in zip(self.inputs, self.report.inputs, strict=True):
            self._count(one, report, before)
            before.append(Present(one.connection, one.store.catalog, _silent, translator(one)))
        self._unite_tables()

    def _unite_numbers(self) -> None:
        with self.store.transaction():
            self.report.numbered = numbers.unite(self.store, self.inputs, self.report.add)

    def _unite_tables(self) -> None:
        for one, report in zip(self.inputs, self.report.inputs, strict=True):
            self.on_progress(TABLES, one.name, 0, 1)
            with self.store.transaction():
                report.rows = imports.unite(self.store, one, self.report.add)
                report.rows |= tables.unite(self.store, one, self.report.add)
                report.rows |= books.unite_books(self.store, one, self.report.add)
                report.rows |= entries.unite(self.store, one, self.report.add)
                report.rows |= books.unite_studies(self.store, one)

    def _report_progress(self, stage: str, one: Input, done: int) -> None:
        self.on_progress(stage, one.name, done, max(done, one.store.node_count))

    def _count(self, one: Input, report: InputReport, before: Sequence[Present]) -> None:
        """Counts an input's records; compares each with the first file in `before` that has its position."""
        total, examples = report.counts, self.report.examples
        for batch in records.batches(one, total, self.report.add):
            left = batch
            for present in before:
                stage = RecordCounts()
                found = list(parts(left, present, self.store.evaluator_number, stage))
                for part in found:
                    examples.note_changed(part)
                fresh = [take(part.out, np.nonzero(part.before < 0)[0]) for part in found]
                left = RecordBatch.concat(fresh)
                total.changed += stage.changed
                total.different += stage.different
                total.contradictions += stage.contradictions
            total.fresh += len(left)
            if before:
                examples.note_fresh(left)
            self._report_progress(RECORDS, one, total.records)


def _silent(*_: object) -> None:
    """Reports neither progress nor damage."""
