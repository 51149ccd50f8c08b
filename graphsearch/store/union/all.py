"""All that some files know goes into one that is open for writing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..codec.bulk import take
from ..record.node import RecordBatch
from ..store import Store
from . import books, entries, imports, numbers, records, tables
from .inputs import Input
from .present import Present
from .records import RecordCounts, parts, translator
from .report import InputReport, MergeReport

RECORDS, TABLES = "records", "tables"
OnProgress = Callable[[str, str, int, int], None]  # stage, name of the file, done, total


@dataclass(slots=True)
class Union:
    """The union of some inputs with a file.

    Attributes:
      store: the file, open for writing. inputs: in the order in which they were named.
      report: gets what is done. on_progress: is told how far it is.
    """

    store: Store
    inputs: Sequence[Input]
    report: MergeReport
    on_progress: OnProgress

    def unite(self, begin: Callable[[], object]) -> None:
        """Writes all of the inputs. Transaction by transaction, each of which leaves a sound file.

        Args:
          begin: called in the first transaction that writes records.

        Raises:
          CorruptRecordError: if something is damaged; what was written before stays.
          StoreError: if a file cannot be read or written.
        """
        self._unite_numbers()
        for one, told in zip(self.inputs, self.report.inputs, strict=True):
            self._say(RECORDS, one, 0)
            told.counts = records.unite(
                self.store,
                one,
                self.report.examples,
                on_records=partial(self._say, RECORDS, one),
                leave_out=self.report.add,
                begin=begin,
            )
        self._unite_tables()

    def plan(self, base: Input | None) -> None:
        """Counts what would be written; the tables are written, into a file that is thrown away.

        Args:
          base: the file that would be written; None: a new one.
        """
        before: list[Present] = []
        if base:
            itself = Union(self.store, [base], MergeReport(inputs=[InputReport(base.name)]), _silent)
            itself._unite_numbers()
            itself._unite_tables()
            before.append(_present(base))
        self._unite_numbers()
        for one, told in zip(self.inputs, self.report.inputs, strict=True):
            self._count(one, told, before)
            before.append(_present(one))
        self._unite_tables()

    def _unite_numbers(self) -> None:
        with self.store.transaction():
            self.report.numbered = numbers.unite(self.store, self.inputs, self.report.add)

    def _unite_tables(self) -> None:
        for one, told in zip(self.inputs, self.report.inputs, strict=True):
            self.on_progress(TABLES, one.name, 0, 1)
            with self.store.transaction():
                told.rows = imports.unite(self.store, one, self.report.add)
                told.rows |= tables.unite(self.store, one, self.report.add)
                told.rows |= books.unite(self.store, one, self.report.add)
                told.rows |= entries.unite(self.store, one, self.report.add)

    def _say(self, stage: str, one: Input, done: int) -> None:
        self.on_progress(stage, one.name, done, max(done, one.store.node_count))

    def _count(self, one: Input, told: InputReport, before: Sequence[Present]) -> None:
        """Counts records; what files before have is compared with the first of them that has it."""
        total, examples = told.counts, self.report.examples
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
            self._say(RECORDS, one, total.records)


def _present(one: Input) -> Present:
    return Present(one.connection, one.store.catalog, lambda _: None, translator(one))


def _silent(stage: str, name: str, done: int, total: int) -> None:
    """Tells nobody."""
