"""Salvage: writes a new, sound file from the data of a damaged one that can be verified."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ...base.errors import CorruptRecordError, StoreError
from ..codec.bulk import sort_keys, take
from ..codec.soundness import unsound
from ..file import check_is_file, real_path
from ..record.node import MAX_EVALUATOR, RecordBatch
from ..record.provenance import EvaluatorIdentity
from ..store import Store
from ..tables import provenance, unfinished
from ..tables.rows import insert
from ..tables.schema import TABLES, fault_of_row
from ..transpositions import runs
from ..transpositions import saved as entries
from ..writing import NewSegment
from .backup import new_file
from .chunks import DamagedChunk, damaged_chunks
from .compact import shrink
from .damaged import PLAIN, Row, copy_table, open_damaged, rows_by_id
from .rewrite import Advance, Progress, merge_all
from .verify import Problems


@dataclass(slots=True, kw_only=True)
class SalvageReport(Problems):
    """The result of a salvage.

    Attributes:
      records: distinct records of the new file.
      blocks, blocks_lost: blocks that the damaged file should have; those that could not be read or trusted.
      entries: transposition entries of the new file.
      records_unsound: records that were read, but left out because they break a rule.
      tables_lost: tables of which at least one row could not be read.
    """

    json_keys = "complete records blocks blocks_lost records_unsound entries tables_lost problems found"

    records: int = 0
    blocks: int = 0
    blocks_lost: int = 0
    records_unsound: int = 0
    entries: int = 0
    tables_lost: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether nothing was lost."""
        return not self.found

    def lose(self, table: str, what: str = "some of its rows cannot be read") -> None:
        """Notes that rows of a table are lost, and why."""
        if table not in self.tables_lost:
            self.tables_lost.append(table)
            self.add(f"table {table}: {what}")


def salvage(
    path: str | os.PathLike[str],
    new: str | os.PathLike[str],
    *,
    identity: EvaluatorIdentity | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> SalvageReport:
    """Writes a new file from the sound data of a damaged one, which is only read.

    The newest surviving version of each record counts. The new file gets its name when it is finished; until
    then it is `NEW.part`.

    Args:
      identity: the evaluator, for a file that has lost it.
      force: replace an existing file.
      progress: called with blocks read and blocks in all, then with records merged and records in all.

    Raises:
      StoreError: if too little of the file can be read, or the new one cannot be written.
      EvaluatorMismatchError: if it names another evaluator than the given one.
    """
    source, target = real_path(path), real_path(new)
    check_is_file(source, create=False)
    if source == target or (target.exists() and source.samefile(target)):
        raise StoreError(f"{target} is the damaged file itself; name another one")
    report = SalvageReport()
    with closing(open_damaged(source)) as damaged:
        sources = read_sources(damaged, source, identity)
        with (
            new_file(target, force=force) as part,
            Store.open(part, create=True, identity=sources.identity, unbound=True) as store,
        ):
            for table in sources.lost:
                report.lose(table)
            _save_blocks(damaged, store, sources, report, progress)
            merge_all(store, Advance(progress, store.catalog.records))
            _save_tables(damaged, store, sources, report)
            shrink(store)
            report.records = store.node_count
    return report


def _save_blocks(
    damaged: sqlite3.Connection,
    store: Store,
    sources: Sources,
    report: SalvageReport,
    progress: Progress | None,
) -> None:
    """Appends all sound records, oldest segment first, so that the newest version of each counts."""
    chunks, lost_tables = damaged_chunks(damaged, lambda: progress(0, 1) if progress else None)
    for table in lost_tables:
        report.lose(table)
    report.blocks = sum(chunk.blocks - chunk.gone for chunk in chunks)
    advance = Advance(progress, report.blocks)
    written = _Written(store)
    for chunk in chunks:
        written.add(chunk.segment, sources.without_lost_runs(_sound_records(damaged, chunk, report)))
        store.shorten_log()
        advance(chunk.blocks - chunk.gone)


class _Written:
    """Writes the segments of the new file: one for each damaged one, as long as its chunks are in order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._source: int | None = None
        self._segment: NewSegment | None = None
        self._last = 0  # sort key of its last record

    def add(self, source: int, batch: RecordBatch) -> None:
        """Appends the records of a chunk of segment `source`, to a new segment if they do not follow."""
        if not len(batch):
            return
        keys = sort_keys(batch.words)
        follows = source == self._source and int(keys.min()) > self._last
        self._source, self._last = source, int(keys.max())
        with self._store.rearranging():
            if self._segment is None or not follows:
                self._segment = NewSegment(self._store.connection, self._store.catalog)
            self._segment.dictionary = b""
            self._segment.append(batch)


def _sound_records(damaged: sqlite3.Connection, chunk: DamagedChunk, report: SalvageReport) -> RecordBatch:
    """Returns the records of a chunk that can be trusted and break no rule."""
    batch = chunk.records(damaged)
    bad = sorted({i for i, _ in unsound(batch)}) if len(batch) else []
    report.blocks_lost += chunk.lost
    report.records_unsound += len(bad)
    for problem in chunk.problems:
        report.add(problem)
    if bad:
        report.add(f"{chunk.name}: {len(bad)} records break a rule, and are left out")
    return take(batch, np.setdiff1d(np.arange(len(batch)), bad)) if bad else batch


# -------------------------------------------------------------- plain tables


def _save_tables(damaged: sqlite3.Connection, store: Store, sources: Sources, report: SalvageReport) -> None:
    """Copies the readable, valid rows of the plain tables."""
    with store.transaction():
        for fact in ("created", "created_by"):
            _save_fact(damaged, store.connection, fact, report)
        for fact in (unfinished.MARK, unfinished.ROOTS):
            _save_fact(damaged, store.connection, fact, report, optional=True)
        sources.write(store)
        for table in PLAIN:
            if lost := copy_table(damaged, store.connection, table):
                report.lose(table, lost)
        store.records_changed(None)
        report.entries = entries.drop_damaged(store, report.add)
        if runs.drop_strays(store):
            report.lose("entry_iteration", "some of its rows belong to runs that are lost")
    for problem in sources.problems():
        report.add(problem)


def _save_fact(
    damaged: sqlite3.Connection,
    connection: sqlite3.Connection,
    name: str,
    report: SalvageReport,
    *,
    optional: bool = False,
) -> None:
    try:
        statement = f"SELECT value, {fault_of_row('store_info')} FROM store_info WHERE name = ?"  # noqa: S608
        row = damaged.execute(statement, (name,)).fetchone()
    except sqlite3.DatabaseError:
        row, optional = None, False
    if row is None and optional:
        return
    if row and row[1] is None:
        connection.execute("INSERT OR REPLACE INTO store_info VALUES (?, ?)", (name, row[0]))
    else:
        report.lose("store_info")


NUMBERS = range(1, MAX_EVALUATOR + 1)
RUN_COLUMNS = tuple(TABLES["run"].columns)


@dataclass(slots=True)
class Sources:
    """Evaluators and runs of a damaged file.

    Attributes:
      bound: number of the evaluator that the file is bound to; `evaluators` may lack it.
      evaluators: by number, those that can be read, and the bound one.
      runs: rows of the table `run` that can be read.
      lost: tables of which at least one row could not be read.
      nameless: number of records of each evaluator with a lost row, by its number.
      forgotten: number of records that were of a run with a lost row, and are of none now.
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

    def without_lost_runs(self, batch: RecordBatch) -> RecordBatch:
        """Returns the records without references to lost runs, and counts lost runs and evaluators."""
        known = np.array([row[0] for row in self.runs], np.int64)
        stray = (batch.run > 0) & ~np.isin(batch.run, known)
        self.forgotten += int(stray.sum())
        numbers, counts = np.unique(batch.evaluator, return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if number and number not in self.evaluators:
                self.nameless[number] = self.nameless.get(number, 0) + count
        return replace(batch, run=np.where(stray, np.uint32(0), batch.run)) if stray.any() else batch

    def write(self, store: Store) -> None:
        """Fills the tables `evaluator` and `run`; lost evaluators get a row of the kind `lost`."""
        lost = {n: EvaluatorIdentity("lost", "", {"number": n}) for n in self.nameless}
        store.connection.execute("DELETE FROM evaluator")
        for number, identity in sorted((self.evaluators | lost).items()):
            provenance.write_evaluator(store.connection, number, identity)
        if self.bound != provenance.FIRST_EVALUATOR:
            store.bind_evaluator(self.bound)
        insert(store.connection, "run", RUN_COLUMNS, self.runs, otherwise="ABORT")

    def problems(self) -> list[str]:
        """Returns one line for each lost evaluator, and one for all lost runs."""
        found = [
            f"table evaluator: {count} records are of evaluator {number}, whose row is lost"
            for number, count in sorted(self.nameless.items())
        ]
        if self.forgotten:
            found.append(f"table run: {self.forgotten} records belong to runs whose rows are lost")
        return found


def read_sources(damaged: sqlite3.Connection, path: Path, given: EvaluatorIdentity | None) -> Sources:
    """Returns the evaluators and runs of a damaged file.

    Args:
      given: the evaluator, for a file that has lost it.

    Raises:
      StoreError: if neither has the evaluator that the file is bound to.
      EvaluatorMismatchError: if the file names another evaluator than the given one.
    """
    evaluators, lost = _evaluators(damaged)
    bound = _bound(damaged, evaluators, given)
    found = evaluators.get(bound)
    identity = found or given
    if identity is None and not _is_blank(damaged):
        raise StoreError(f"{path} does not say which evaluator it is bound to; name it with --evaluator")
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
    """Returns the number of the evaluator that the file is bound to, or the best guess."""
    with suppress(sqlite3.Error, CorruptRecordError):
        number = provenance.evaluator_number(damaged)
        if number in NUMBERS:
            return number
    if given is not None:
        same = [number for number, known in evaluators.items() if known.as_json() == given.as_json()]
        return same[0] if same else provenance.FIRST_EVALUATOR
    return next(iter(evaluators)) if len(evaluators) == 1 else 0


def _runs(damaged: sqlite3.Connection) -> tuple[list[Row], bool]:
    """Returns the readable, valid runs, and whether any are lost."""
    rows, lost = rows_by_id(damaged, "run", ", ".join([*RUN_COLUMNS, fault_of_row("run")]))
    good = [row[:-1] for row in rows if row[-1] is None]
    return good, lost or len(good) < len(rows)
