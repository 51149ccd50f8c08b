"""Verifies a whole graph file: every block of every segment, indexes and counts, and every row."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..base.answer import Answer
from ..base.errors import CorruptRecordError, StoreError
from ..base.limits import shortened
from . import entries, record
from .block import announced, is_dictionary, unsound
from .block_kernel import BLOCK
from .file import check_is_file, faults, open_reader, real_path, sql_errors
from .index import Chunk, chunk_name
from .index_kernel import find_held
from .record import RecordBatch, keys_of
from .rewrite import OnProgress, Progress
from .segment import Span, fetch_spans
from .store import Store
from .tables.rows import TABLES, fault_of_row, shown
from .tables.top import TopTables

MAX_PROBLEMS = 1000  # listed; all are counted
LONGEST = 600  # characters of one: a record may be wrong in each of its moves


@dataclass(slots=True, kw_only=True)
class Problems(Answer):
    """Problems of a file.

    Attributes:
      problems: one line each, of at most 600 characters; at most 1000 are listed.
      found: number of problems, listed or not.
    """

    problems: list[str] = field(default_factory=list)
    found: int = 0

    @property
    def complete(self) -> bool:
        """Whether there is none."""
        return not self.found

    def add(self, problem: str) -> None:
        """Records a problem."""
        self.found += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(shortened(problem, LONGEST))


CHECKING = "checking"  # stage
PIECE_BLOCKS = 512  # blocks that are checked at once


@dataclass(slots=True, kw_only=True)
class VerifyReport(Problems):
    """The result of a check: counts of what could be read; its problems name segment, block and record.

    Attributes:
      records: live ones. stored: records in all segments, superseded versions included.
      runs: segments. entries: transposition entries, superseded versions included.
      opened: whether the file could be opened; only then do the numbers describe it.
    """

    json_keys = "ok records stored blocks runs entries found problems"

    records: int = 0
    stored: int = 0
    blocks: int = 0
    runs: int = 0
    entries: int = 0
    opened: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.complete


def verify(path: str | os.PathLike[str], on_progress: OnProgress | None = None) -> VerifyReport:
    """Checks a graph file; damage is reported, never raised.

    Args:
      path: the file; it is only read, and may be in use.
      on_progress: called with blocks.
    """
    report = VerifyReport()
    try:
        real = real_path(path)
        with sql_errors(real, "check it"):
            check_is_file(real, create=False)
            with closing(open_reader(real)) as connection:
                pages = connection.execute("PRAGMA quick_check(10)").fetchall()
                lines = [line for (line,) in pages if line != "ok"]
                for line in [*lines, *faults(connection, real)]:
                    report.add(f"{real}: {line}")
                check_rows(connection, real, report.add)
            with Store.open(path, read_only=True) as store:
                report.opened = True
                _Check(store, report, on_progress or (lambda _: None)).all()
    except (StoreError, OSError, ValueError) as error:
        report.add(str(error))
    return report


class _Check:
    """One pass over an open store."""

    def __init__(self, store: Store, report: VerifyReport, on_progress: OnProgress) -> None:
        self._store, self._report, self._on_progress = store, report, on_progress
        self._connection, self._catalog = store.connection, store.catalog
        self._known: dict[str, NDArray[np.int64]] = {}  # numbers of runs and evaluators
        self._last = np.zeros((0, 0), np.uint64)  # sort key and identity of the last record
        self._total = sum(chunk.blocks - chunk.gone for s in self._catalog.segments for chunk in s.chunks)

    def all(self) -> None:
        """Checks segments, counts, and the tables that follow from records."""
        path, report = self._store.path, self._report
        self._connection.text_factory = lenient
        with self._store.snapshot():
            for table in ("run", "evaluator"):
                found = self._connection.execute(f"SELECT id FROM {table}").fetchall()  # noqa: S608
                self._known[table] = np.array([row[0] for row in found], np.int64)
            self._store.evaluators()  # each row holds an identity
            for segment in self._catalog.segments:
                report.runs += 1
                self._last = np.zeros((0, 0), np.uint64)
                for chunk in segment.chunks:
                    self._chunk(chunk)
            count = self._connection.execute("SELECT count(*) FROM block").fetchone()[0]
            if count != self._total:
                report.add(f"{path}: {count} blocks, the runs have {self._total}")
            damaged: list[CorruptRecordError] = []
            for batch in self._store.scan(on_corrupt=damaged.append):
                report.records += len(batch)
                self._on_progress(Progress(CHECKING, report.blocks, self._total))
            if not damaged and report.records != self._store.node_count:
                report.add(f"{path}: {report.records} live records, the file counts {self._store.node_count}")
            for line in TopTables(self._connection).faults(self._store.read_all):
                report.add(f"{path}: {line}")
            report.entries = sum(entries.sizes(self._store, report.add).values())

    def _chunk(self, chunk: Chunk) -> None:
        """Checks the blocks of a chunk, each on its own, and their records."""
        damaged: list[CorruptRecordError] = []
        try:
            index = self._catalog.index(chunk)
            if not is_dictionary(index.dictionary):
                raise CorruptRecordError(f"{chunk_name(self._catalog.path, chunk)}: dictionaries are damaged")
        except CorruptRecordError as error:
            self._report.add(str(error))
            return
        stored = 0
        for first in range(chunk.gone, chunk.blocks, PIECE_BLOCKS):
            end, before = min(first + PIECE_BLOCKS, chunk.blocks), len(damaged)
            fetched = fetch_spans(self._connection, self._catalog, [Span(chunk, first, end)])
            batch = fetched.decode(damaged.append)
            for fault in damaged[before:]:
                self._report.add(str(fault))
            if len(damaged) == before:
                sizes = announced(fetched.data, fetched.ends)[0]
                self._check_index(chunk, first, index.keys[first:end], sizes, batch)
            keys = keys_of(batch.words)
            for i, what in self._faults(batch, keys, index.bloom):
                self._add(chunk, f"record {keys[i]:016x}: {what}")
            stored += len(batch)
            self._report.blocks += end - first
            self._on_progress(Progress(CHECKING, self._report.blocks, self._total))
        self._report.stored += stored
        if stored != chunk.records and not damaged:
            self._add(chunk, f"{stored} records instead of {chunk.records}")

    def _add(self, chunk: Chunk, what: str, block: int | None = None) -> None:
        self._report.add(f"{chunk_name(self._catalog.path, chunk, block)}: {what}")

    def _check_index(
        self, chunk: Chunk, first: int, keys: NDArray[np.uint64], sizes: NDArray[np.int64], batch: RecordBatch
    ) -> None:
        """Reports blocks that do not begin with the key of the index, or have too few records."""
        starts = np.cumsum(sizes) - sizes
        for b in np.nonzero(record.sort_keys(batch.words[starts]) != keys)[0].tolist():
            self._add(chunk, "it does not begin with the key of the index", first + b)
        for b in np.nonzero(sizes != BLOCK)[0].tolist():
            if first + b + 1 < chunk.blocks:
                self._add(chunk, f"{sizes[b]} records instead of {BLOCK}", first + b)

    def _faults(
        self, batch: RecordBatch, keys: NDArray[np.uint64], bloom: NDArray[np.uint8]
    ) -> Iterator[tuple[int, str]]:
        """Yields the index of each faulty record, and its fault: in itself, or against the file."""
        held = np.zeros(len(keys), bool)
        find_held(bloom, keys, held)
        for i in np.nonzero(~held)[0].tolist():
            yield i, "it is missing in the bloom filter"
        yield from unsound(batch)
        for name, numbers in (("run", batch.run), ("evaluator", batch.evaluator)):  # 0 is none of either
            for i in np.nonzero((numbers > 0) & ~np.isin(numbers, self._known[name]))[0].tolist():
                yield i, f"it is of {name} {numbers[i]}, which the table {name} does not list"
        places = np.column_stack([record.sort_keys(batch.words), record.identities(batch.words)])
        before = np.vstack([self._last, places]) if len(self._last) else places
        differ = before[1:] != before[:-1]
        column, rows = differ.argmax(1), np.arange(len(differ))
        falls = ~differ.any(1) | (before[1:][rows, column] < before[:-1][rows, column])
        for i in np.nonzero(falls)[0].tolist():
            yield i + 1 - (len(before) - len(places)), "it is out of order"
        self._last = before[-1:]


ELSEWHERE = frozenset({"entry_piece"})  # `entries.sizes` checks them


def check_rows(connection: sqlite3.Connection, path: Path, report: Callable[[str], object]) -> None:
    """Reports every row with an invalid value, and every row that refers to a missing one, in a line each.

    The connection reads texts that are not UTF-8 from now on (`lenient`).
    """
    connection.text_factory = lenient
    for name in TABLES.keys() - ELSEWHERE:
        for line in _faults(connection, name):
            report(f"{path}: {line}")
    for name, number, other, _ in connection.execute("PRAGMA foreign_key_check"):
        report(f"{path}: table {name}, row id {number}: it belongs to a row that {other} does not list")


_SURROGATE = re.compile("[\ud800-\udfff]")  # what `lenient` makes of a byte that is no UTF-8


def lenient(data: bytes) -> str:
    """Decodes a text that may not be UTF-8; invalid bytes become surrogates, which no valid text has."""
    return data.decode("utf-8", "surrogateescape")


def _faults(connection: sqlite3.Connection, name: str) -> Iterator[str]:
    table = TABLES[name]
    texts = [column for column, one in table.columns.items() if one.kind == "TEXT"]
    asked = ", ".join([*table.key, *texts, f"{fault_of_row(name)} AS fault"])
    where = "" if texts else "WHERE fault IS NOT NULL"
    for row in connection.execute(f"SELECT {asked} FROM {name} {where}"):  # noqa: S608 (constants)
        *values, fault = row
        decoded = zip(texts, values[len(table.key) :], strict=True)
        broken = (column for column, text in decoded if isinstance(text, str) and _SURROGATE.search(text))
        if found := fault or next((f"{column} is no UTF-8" for column in broken), None):
            keys = zip(table.key, values, strict=False)
            yield f"table {name}, row {', '.join(f'{key} {shown(value)}' for key, value in keys)}: {found}"
