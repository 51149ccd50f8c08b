"""Verifies a whole graph file: every block of every segment, indexes and counts, and every row."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ...base.answer import Answer
from ...base.errors import CorruptRecordError, StoreError
from ...base.limits import shortened
from .. import order
from ..codec.bulk import announced, is_dictionary, unsound
from ..codec.layout_kernel import BLOCK
from ..file import open_reader, real_path, sql_errors
from ..format import faults
from ..index.catalog import Catalog, Chunk, Segment
from ..index.locate_kernel import find_held
from ..order import keys_of
from ..record.node import RecordBatch
from ..segments import Span, fetch_spans
from ..store import Store
from ..tables.rows import shown
from ..tables.schema import TABLES, fault_of_row
from ..tables.top import TopTables
from ..transpositions import saved as entries
from .rewrite import OnCount

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

    def add(self, problem: str) -> None:
        """Records a problem."""
        self.found += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(shortened(problem, LONGEST))

    def join(self, other: Self) -> None:
        """Adds the report of another file: sums the numbers, joins the lists."""
        for one in fields(self):
            mine, its = getattr(self, one.name), getattr(other, one.name)
            if isinstance(mine, list):
                mine += [line for line in its if line not in mine][: MAX_PROBLEMS - len(mine)]
            else:
                setattr(self, one.name, mine | its if isinstance(mine, bool) else mine + its)


PIECE_BLOCKS = 512  # blocks that are checked at once


@dataclass(slots=True, kw_only=True)
class VerifyReport(Problems):
    """The result of a check.

    Attributes:
      records: live records that could be read.
      stored: records in all segments, superseded versions included.
      blocks, runs: number of blocks and segments that were read.
      entries: transposition entries that could be read, superseded versions included.
      problems: each names run, block and record.
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
        return not self.found


def verify(path: str | os.PathLike[str], progress: OnCount | None = None) -> VerifyReport:
    """Checks a graph file; damage is reported, never raised.

    Args:
      path: the file; it is only read, and may be in use.
      progress: called with blocks done and blocks in all.
    """
    report = VerifyReport()
    try:
        with sql_errors(real_path(path), "check it"):
            _check_pages(path, report)
            with Store.open(path, read_only=True) as store:
                report.opened = True
                _Check(store, report, progress or (lambda done, total: None)).all()
    except (StoreError, OSError, ValueError) as error:
        report.add(str(error))
    return report


def _check_pages(path: str | os.PathLike[str], report: VerifyReport) -> None:
    """Runs SQLite's check of its own pages, and checks each row on its own."""
    real = real_path(path)
    if not real.is_file():
        return
    with closing(open_reader(real)) as connection:
        for (line,) in connection.execute("PRAGMA quick_check(10)").fetchall():
            if line != "ok":
                report.add(f"{real}: {line}")
        for line in faults(connection, real):
            report.add(f"{real}: {line}")
        check_rows(connection, real, report.add)


class _Check:
    """One pass over an open store."""

    def __init__(self, store: Store, report: VerifyReport, progress: OnCount) -> None:
        self._store = store
        self._connection = store.connection
        self._catalog: Catalog = store.catalog
        self._report = report
        self._progress = progress
        self._done = 0
        self._runs = self._evaluators = np.zeros(0, np.int64)  # the file's numbers
        self._damaged: set[int] = set()  # chunks with a block that could not be read
        self._total = sum(chunk.blocks - chunk.gone for s in self._catalog.segments for chunk in s.chunks)

    def all(self) -> None:
        self._connection.text_factory = lenient
        with self._store.snapshot():
            self._runs, self._evaluators = (self._ids(table) for table in ("run", "evaluator"))
            self._store.evaluators()  # each row holds an identity
            for segment in self._catalog.segments:
                self._report.runs += 1
                self._segment(segment)
            count = self._connection.execute("SELECT count(*) FROM block").fetchone()[0]
            if count != self._total:
                self._report.add(f"{self._store.path}: {count} blocks, the runs have {self._total}")
            self._check_live()
            for line in TopTables(self._connection).faults(self._store.read):
                self._report.add(f"{self._store.path}: {line}")
            self._report.entries = entries.check(self._store, self._report.add)

    def _segment(self, segment: Segment) -> None:
        last: NDArray[np.uint64] | None = None
        for chunk in segment.chunks:
            try:
                if not is_dictionary(self._catalog.index(chunk).dictionary):
                    raise CorruptRecordError(f"{self._catalog.name(chunk)}: dictionaries are damaged")
            except CorruptRecordError as error:
                self._report.add(str(error))
                continue
            stored = 0
            for first in range(chunk.gone, chunk.blocks, PIECE_BLOCKS):
                batch = self._piece(chunk, first, min(first + PIECE_BLOCKS, chunk.blocks))
                stored += len(batch)
                last = self._check_order(chunk, batch, last)
            self._report.stored += stored
            if stored != chunk.records and chunk.id not in self._damaged:
                self._report.add(f"{self._catalog.name(chunk)}: {stored} records instead of {chunk.records}")

    def _piece(self, chunk: Chunk, first: int, last: int) -> RecordBatch:
        """Reads some blocks, checks each on its own, and returns their records."""
        damaged: list[CorruptRecordError] = []
        fetched = fetch_spans(self._connection, self._catalog, [Span(chunk, first, last)])
        batch = fetched.decode(damaged.append)
        for error in damaged:
            self._report.add(str(error))
            self._damaged.add(chunk.id)
        if not damaged:
            self._check_index(chunk, first, announced(fetched.data, fetched.ends)[0], batch)
        self._check_records(chunk, batch)
        self._report.blocks += last - first
        self._done += last - first
        self._progress(self._done, self._total)
        return batch

    def _check_index(self, chunk: Chunk, first: int, sizes: NDArray[np.int64], batch: RecordBatch) -> None:
        """Reports blocks that do not begin with the key of the index, or have too few records."""
        starts = np.cumsum(sizes) - sizes
        keys = self._catalog.index(chunk).keys[first : first + len(sizes)]
        for b in np.nonzero(order.sort_keys(batch.words[starts]) != keys)[0].tolist():
            self._report.add(
                f"{self._catalog.name(chunk, first + b)}: it does not begin with the key of the index"
            )
        for b in np.nonzero(sizes != BLOCK)[0].tolist():
            if first + b + 1 < chunk.blocks:
                self._report.add(
                    f"{self._catalog.name(chunk, first + b)}: {sizes[b]} records instead of {BLOCK}"
                )

    def _check_records(self, chunk: Chunk, batch: RecordBatch) -> None:
        keys = keys_of(batch.words)
        held = np.zeros(len(keys), bool)
        find_held(self._catalog.index(chunk).bloom, keys, held)
        for i in np.nonzero(~held)[0].tolist():
            self._report.add(
                f"{self._catalog.name(chunk)}: record {keys[i]:016x} is missing in the bloom filter"
            )
        for i, what in unsound(batch):
            self._report.add(f"{self._catalog.name(chunk)}: record {keys[i]:016x}: {what}")
        self._check_sources(chunk, batch, keys)

    def _check_sources(self, chunk: Chunk, batch: RecordBatch, keys: NDArray[np.uint64]) -> None:
        """Reports records whose run or evaluator the file does not list; 0 is none of either."""
        for name, numbers, known in (
            ("run", batch.run, self._runs),
            ("evaluator", batch.evaluator, self._evaluators),
        ):
            for i in np.nonzero((numbers > 0) & ~np.isin(numbers, known))[0].tolist():
                self._report.add(
                    f"{self._catalog.name(chunk)}: record {keys[i]:016x}: it is of {name} {numbers[i]}, which"
                    f" the table {name} does not list"
                )

    def _ids(self, table: str) -> NDArray[np.int64]:
        found = self._connection.execute(f"SELECT id FROM {table}").fetchall()  # noqa: S608 (constants)
        return np.array([row[0] for row in found], np.int64)

    def _check_order(
        self, chunk: Chunk, batch: RecordBatch, last: NDArray[np.uint64] | None
    ) -> NDArray[np.uint64] | None:
        """Reports records out of order; returns sort key and identity of the last one."""
        if not len(batch):
            return last
        places = np.column_stack([order.sort_keys(batch.words), order.identities(batch.words)])
        if last is not None:
            places = np.vstack([last, places])
        differ = places[1:] != places[:-1]
        column = differ.argmax(1)
        rows = np.arange(len(differ))
        falls = ~differ.any(1) | (places[1:][rows, column] < places[:-1][rows, column])
        for i in np.nonzero(falls)[0].tolist():
            key = keys_of(batch.words)[i if last is not None else i + 1]
            self._report.add(f"{self._catalog.name(chunk)}: record {key:016x} is out of order")
        return np.asarray(places[-1], np.uint64)

    def _check_live(self) -> None:
        """Counts the live records and compares them with the file's own count."""
        damaged: list[CorruptRecordError] = []
        for batch in self._store.scan(on_corrupt=damaged.append):
            self._report.records += len(batch)
            self._progress(self._done, self._total)
        if not damaged and self._report.records != self._store.node_count:
            found, counted = self._report.records, self._store.node_count
            self._report.add(f"{self._store.path}: {found} live records, the file counts {counted}")


ELSEWHERE = frozenset({"entry_piece"})  # `transpositions.saved` checks them


def check_rows(connection: sqlite3.Connection, path: Path, report: Callable[[str], object]) -> None:
    """Reports every row with an invalid value, and every row that refers to a missing one.

    Args:
      connection: it reads texts that are not UTF-8 from now on (`lenient`).
      path: the file. report: called with one line for each.
    """
    connection.text_factory = lenient
    for name in TABLES.keys() - ELSEWHERE:
        for line in _faults(connection, name):
            report(f"{path}: {line}")
    for name, number, other, _ in connection.execute("PRAGMA foreign_key_check"):
        report(f"{path}: table {name}, row id {number}: it belongs to a row that {other} does not list")


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
        broken = (
            column for column, text in zip(texts, values[len(table.key) :], strict=True) if not _is_utf8(text)
        )
        if found := fault or next((f"{column} is no UTF-8" for column in broken), None):
            keys = zip(table.key, values, strict=False)
            yield f"table {name}, row {', '.join(f'{key} {shown(value)}' for key, value in keys)}: {found}"


def _is_utf8(text: object) -> bool:
    """Returns whether a value that `lenient` decoded is valid UTF-8."""
    return not isinstance(text, str) or text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)
