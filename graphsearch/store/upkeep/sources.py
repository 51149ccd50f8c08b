"""Where the records of a damaged file come from: as many of its evaluators and runs as can be read."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptRecordError, StoreError
from ..record.node import MAX_EVALUATOR, RecordBatch
from ..record.provenance import EvaluatorIdentity
from ..store import Store
from ..tables import provenance
from ..tables.columns import TABLES
from ..tables.rows import fault_of, insert
from .damaged import Row, rows_by_id

NUMBERS = range(1, MAX_EVALUATOR + 1)
RUN_COLUMNS = tuple(TABLES["run"].columns)


@dataclass(slots=True)
class Sources:
    """Evaluators and runs of a damaged file.

    Attributes:
      bound: number of the evaluator that the file is bound to; there may be none of it.
      evaluators: by number, those that can be read, and the bound one.
      runs: rows of the table `run` that can be read.
      lost: tables of which at least one row could not be read.
      nameless: how many records name an evaluator whose row is lost, by its number.
      forgotten: records that named a run whose row is lost, and name none now.
    """

    bound: int
    evaluators: dict[int, EvaluatorIdentity]
    runs: list[Row]
    lost: list[str]
    nameless: dict[int, int] = field(default_factory=dict)
    forgotten: int = 0

    @property
    def identity(self) -> EvaluatorIdentity | None:
        """The evaluator that the file is bound to; None if it is bound to none."""
        return self.evaluators.get(self.bound)

    def fitted(self, batch: RecordBatch) -> RecordBatch:
        """Returns records that name no run whose row is lost."""
        stray = (batch.run > 0) & ~np.isin(batch.run, self._run_ids())
        self.forgotten += int(stray.sum())
        numbers, counts = np.unique(batch.evaluator, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if number and number not in self.evaluators:
                self.nameless[number] = self.nameless.get(number, 0) + count
        return replace(batch, run=np.where(stray, np.uint32(0), batch.run)) if stray.any() else batch

    def _run_ids(self) -> NDArray[np.int64]:
        return np.array([row[0] for row in self.runs], np.int64)

    def write(self, store: Store) -> None:
        """Fills the tables `evaluator` and `run`; evaluators that are lost get a row that says so."""
        lost = {n: EvaluatorIdentity("lost", "", {"number": n}) for n in self.nameless}
        store.connection.execute("DELETE FROM evaluator")
        for number, identity in sorted((self.evaluators | lost).items()):
            provenance.write_evaluator(store.connection, number, identity)
        if self.bound != provenance.FIRST_EVALUATOR:
            store.bind_evaluator(self.bound)
        insert(store.connection, "run", RUN_COLUMNS, self.runs, otherwise="ABORT")

    def problems(self) -> list[str]:
        """Returns what records cannot say any more, one line each."""
        found = [
            f"table evaluator: {count} records are of evaluator {number}, whose row is lost"
            for number, count in sorted(self.nameless.items())
        ]
        if self.forgotten:
            found.append(f"table run: {self.forgotten} records cannot say their run, whose row is lost")
        return found


def read_sources(damaged: sqlite3.Connection, path: Path, given: EvaluatorIdentity | None) -> Sources:
    """Returns the evaluators and runs of a damaged file.

    Args:
      given: the evaluator, for a file that cannot say it any more.

    Raises:
      StoreError: if neither says which evaluator the file is bound to.
      EvaluatorMismatchError: if the file names another evaluator than the given one.
    """
    evaluators, lost = _evaluators(damaged)
    bound = _bound(damaged, evaluators, given)
    found = evaluators.get(bound)
    identity = found or given
    if identity is None and not _is_blank(damaged):
        raise StoreError(f"{path} cannot say which evaluator it is bound to; name it with --evaluator")
    if found is not None and given is not None and found.as_json() != given.as_json():
        raise provenance.mismatch(path, found, given)
    runs, runs_lost = _runs(damaged)
    tables = [table for table, bad in (("evaluator", lost), ("run", runs_lost)) if bad]
    known = evaluators if identity is None else {**evaluators, bound: identity}
    return Sources(bound, known, runs, tables)


def _is_blank(damaged: sqlite3.Connection) -> bool:
    try:
        return provenance.is_blank(damaged)
    except sqlite3.DatabaseError:
        return False


def _evaluators(damaged: sqlite3.Connection) -> tuple[dict[int, EvaluatorIdentity], bool]:
    """Returns the evaluators that can be read, and whether any cannot."""
    rows, lost = rows_by_id(damaged, "evaluator", "id, identity", bound=MAX_EVALUATOR)
    found = {}
    for number, text in rows:
        try:
            found[number] = provenance.identity_of(text)
        except CorruptRecordError:
            lost = True
    good = {number: identity for number, identity in found.items() if number in NUMBERS}
    return good, lost or len(good) < len(found)


def _bound(
    damaged: sqlite3.Connection, evaluators: dict[int, EvaluatorIdentity], given: EvaluatorIdentity | None
) -> int:
    """Returns the number of the evaluator that the file is bound to, as well as it can be told."""
    with suppress(sqlite3.Error, CorruptRecordError):
        number = provenance.evaluator_number(damaged)
        if number in NUMBERS:
            return number
    if given is not None:
        same = [number for number, known in evaluators.items() if known.as_json() == given.as_json()]
        return same[0] if same else provenance.FIRST_EVALUATOR
    return next(iter(evaluators)) if len(evaluators) == 1 else 0


def _runs(damaged: sqlite3.Connection) -> tuple[list[Row], bool]:
    """Returns the runs that can be read and make sense, and whether any do not."""
    rows, lost = rows_by_id(damaged, "run", ", ".join(RUN_COLUMNS))
    good = [row for row in rows if not fault_of("run", dict(zip(RUN_COLUMNS, row, strict=True)))]
    return good, lost or len(good) < len(rows)
