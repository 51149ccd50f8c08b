"""Salvage: writes a new, sound file from the data of a damaged one that can be verified.

It reads the intact rows of the SQLite file and skips those that cannot be read, copies the valid rows of
plain tables, and finds the blocks that can be read and trusted.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import CorruptRecordError, StoreError
from .. import order
from ..codec.bulk import bloom_of, decode_stored, joined, sort_keys, take
from ..codec.compression import Dictionaries
from ..codec.soundness import unsound
from ..codec.unpacking import own_unpacker
from ..connection import connect, keep_out
from ..file import check_is_file, real_path
from ..format import check_format
from ..record.node import MAX_EVALUATOR, RecordBatch
from ..record.provenance import EvaluatorIdentity
from ..segments import CHUNK_BLOCKS, keys_of
from ..side_files import log_bytes
from ..store import Store
from ..tables import provenance, unfinished
from ..tables.rows import insert
from ..tables.schema import MAX_INTEGER, TABLES, fault_of_row
from ..transpositions import runs
from ..transpositions import saved as entries
from ..writing import NewSegment
from .backup import new_file
from .rewrite import Advance, OnCount, merge_all, shrink
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
    progress: OnCount | None = None,
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
    progress: OnCount | None,
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
        _save_fact(damaged, store.connection, unfinished.MARK, report, optional=True)
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


# ------------------------------------------------------------------ rows of a damaged file
Row = tuple[Any, ...]

_NAMES = "SELECT name, type = 'table' AND rootpage > 0 FROM sqlite_schema"
Fetch = Callable[[int, int], list[Row]]
Pieces = Iterator[tuple[list[Row], bool]]  # readable rows, piece by piece, and whether some could not be read

LIKELY_ID = 1 << 14  # the largest id to look for if the largest id of a table cannot be read
MOST_ID = 1 << 40  # a largest id from here on is not believed
MOST_WINDOWS = 64  # windows of ids per table: its largest id may be far too large
KEY_SLICE = 1 << 52  # the smallest slice around a damaged page, 1/4096 of all 64-bit keys


def open_damaged(path: Path) -> sqlite3.Connection:
    """Returns a connection that reads the intact parts of a file and never changes it.

    Raises:
      StoreError: if not even the list of tables can be read.
      SchemaVersionError: if it has another format.
    """
    mode = "mode=ro" if log_bytes(path) else "mode=ro&immutable=1"
    connection = connect(path, mode)
    try:
        connection.execute("PRAGMA query_only = 1")
        if sys.version_info >= (3, 12):
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, False)
        connection.execute("PRAGMA writable_schema = 1")  # else SQLite refuses a truncated file
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        names = connection.execute(_NAMES).fetchall()
        impostors = {name for name, is_table in names if not is_table}
        tables = {name for name, _ in names} - impostors
        keep_out(connection, impostors)
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(
            f"{path}: its first page, which says where everything is, cannot be read: {error}"
        ) from None
    try:
        if not {"chunk", "block", "evaluator"} <= tables:
            raise StoreError(f"{path} is not a graph file: it has none of its tables")
        check_format(version, path)
    except StoreError:
        connection.close()
        raise
    return connection


def bisected(fetch: Fetch, low: int, high: int, least: int = 1) -> Pieces:
    """Yields the rows of `low` <= id < `high` in pieces, each with whether its ids were unreadable.

    If reading a range fails, it tries both halves, down to a width of `least`.
    """
    try:
        rows = fetch(low, high)
    except sqlite3.DatabaseError:
        if high - low <= least:
            yield [], True
            return
    else:
        yield rows, False
        return
    middle = (low + high) // 2
    yield from bisected(fetch, low, middle, least)
    yield from bisected(fetch, middle, high, least)


def pieces_by_id(
    connection: sqlite3.Connection,
    table: str,
    columns: str,
    *,
    bound: int = LIKELY_ID,
    least: int = 1,
    window: int = MOST_ID,
) -> Pieces:
    """Yields the readable rows of a table by its integer `id`, in pieces, each with whether any were lost.

    Args:
      bound: the last id to look for, if the largest one cannot be read.
      least: number of ids around damage that are given up together.
      window: ids per query; more if the largest id is far higher.
    """

    def fetch(low: int, high: int) -> list[Row]:
        return connection.execute(
            f"SELECT {columns} FROM {table} WHERE id >= ? AND id < ? ORDER BY id",  # noqa: S608 (constants)
            (low, high),
        ).fetchall()

    if _is_out_of_reach(connection, table):
        yield [], True
        return
    last = _last_id(connection, table, bound)
    step = max(window, last // MOST_WINDOWS)
    for low in range(1, last + 1, step):
        yield from bisected(fetch, low, min(low + step, last + 1), least)


_IS_WITHIN = """
SELECT type = 'table' AND rootpage BETWEEN 1 AND page_count
FROM sqlite_schema, pragma_page_count WHERE name = ?
"""


def _is_out_of_reach(connection: sqlite3.Connection, table: str) -> bool:
    """Returns whether a table is out of reach: the file ends before its first page, or it is not a table."""
    found = connection.execute(_IS_WITHIN, (table,)).fetchone()
    return not (found and found[0])


def rows_by_id(
    connection: sqlite3.Connection, table: str, columns: str, *, bound: int = LIKELY_ID
) -> tuple[list[Row], bool]:
    """Returns all rows of `pieces_by_id`, and whether any were lost."""
    pieces = list(pieces_by_id(connection, table, columns, bound=bound))
    return [row for rows, _ in pieces for row in rows], any(lost for _, lost in pieces)


def _last_id(connection: sqlite3.Connection, table: str, bound: int) -> int:
    """Returns the largest id of a table, or `bound` if that cannot be read."""
    for statement in (
        f"SELECT max(id) FROM {table}",  # noqa: S608 (a constant)
        f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'",  # noqa: S608
    ):
        try:
            row = connection.execute(statement).fetchone()
        except sqlite3.DatabaseError:
            continue
        if row is None:  # the table has no sequence
            continue
        found = row[0]
        if found is None or (isinstance(found, int) and 0 <= found < MOST_ID):
            return found or 0
    return bound


def rows_by_key(connection: sqlite3.Connection, table: str, columns: str) -> Pieces:
    """Yields the readable rows of a table by its column `key`, in pieces, each with whether any were lost."""

    def fetch(low: int, high: int) -> list[Row]:
        return connection.execute(
            f"SELECT {columns} FROM {table} WHERE key >= ? AND key <= ? ORDER BY key",  # noqa: S608 (constants)
            (f"{low:016x}", f"{high - 1:016x}g"),
        ).fetchall()

    for slice_ in range(64):
        yield from bisected(fetch, slice_ << 58, slice_ + 1 << 58, KEY_SLICE)


# tables that other modules salvage
OWN = frozenset({"store_info", "evaluator", "run", "segment", "chunk", "block"})
PLAIN = tuple(name for name in TABLES if name not in OWN)
MAX_NUMBER = 1 << 20  # the largest place to look for if the largest one of a table cannot be read
PARTS = 2048  # the smallest slice around a damaged page is 1/2048 of the keys of one book or source


def copy_table(damaged: sqlite3.Connection, connection: sqlite3.Connection, name: str) -> str:
    """Copies the readable, valid rows of a table; returns a text about the lost ones, empty if none are."""
    columns = tuple(TABLES[name].columns)
    lost_any, copied, faults = False, 0, list[str]()
    for rows, lost in _rows(damaged, name, TABLES[name].key, ", ".join([*columns, fault_of_row(name)])):
        good = [row[:-1] for row in rows if row[-1] is None]
        faults += [row[-1] for row in rows if row[-1] is not None]
        lost_any |= lost
        copied += len(good)
        insert(connection, name, columns, good)
    if faults:
        return f"{len(faults):,} of its rows are damaged; of the first, {faults[0]}"
    return "some of its rows cannot be read" if lost_any or copied != _size(damaged, name) else ""


def _size(damaged: sqlite3.Connection, name: str) -> int:
    """Returns the number of rows of a table, including those outside all slices of keys; -1 if unknown."""
    try:
        return int(damaged.execute(f"SELECT count(*) FROM {name}").fetchone()[0])  # noqa: S608 (constants)
    except sqlite3.DatabaseError:
        return -1


def _rows(damaged: sqlite3.Connection, name: str, key: tuple[str, ...], columns: str) -> Pieces:
    first = key[0]
    if key == ("id",):
        yield rows_by_id(damaged, name, columns)
    elif _is_out_of_reach(damaged, name):
        yield [], True
    elif first == "key":
        yield from rows_by_key(damaged, name, columns)
    else:
        numbers, lost = _numbers(damaged, name, first)
        yield [], lost
        for number in numbers:
            yield from _rows_of(damaged, name, key, columns, number)


def _numbers(damaged: sqlite3.Connection, table: str, column: str) -> tuple[list[int], bool]:
    """Returns the readable values of the first column of a key, and whether any cannot be read.

    It steps from one value to the next along the key, from both ends. So it misses a value only if the rows
    of this value begin and end in damaged pages, and the table `book` or `source` has lost it too.
    """
    up, lost = _steps(damaged, table, column, ">", "ASC")
    if not lost:
        return up, False
    down, _ = _steps(damaged, table, column, "<", "DESC")
    rows, _ = rows_by_id(damaged, column, "id")
    return sorted({*up, *down, *(row[0] for row in rows)}) or list(range(1, 9)), True


def _steps(
    damaged: sqlite3.Connection, table: str, column: str, sign: str, order: str
) -> tuple[list[int], bool]:
    """Returns the distinct values of a column in one direction up to the first damage, and whether any is."""
    found: list[int] = []
    statement = f"SELECT {column} FROM {table} WHERE {column} {sign} ? ORDER BY {column} {order} LIMIT 1"  # noqa: S608
    last = -1 if sign == ">" else 1 << 62
    try:
        while row := damaged.execute(statement, (last,)).fetchone():
            if not isinstance(row[0], int):
                return found, True
            last = row[0]
            found.append(last)
    except sqlite3.DatabaseError:
        return found, True
    return found, False


def _rows_of(
    damaged: sqlite3.Connection, name: str, keys: tuple[str, ...], columns: str, number: int
) -> Pieces:
    """Yields the readable rows with one value in the first column of the key, by slices of the second."""
    first, second = keys[:2]
    is_key = second == "key"

    def fetch(low: int, high: int) -> list[Row]:
        ends = (f"{low:016x}", f"{high - 1:016x}g") if is_key else (low, high - 1)
        return damaged.execute(
            f"SELECT {columns} FROM {name}"  # noqa: S608 (the schema's names)
            f" WHERE {first} = ? AND {second} >= ? AND {second} <= ? ORDER BY {first}, {second}",
            (number, *ends),
        ).fetchall()

    top = 1 << 64 if is_key else _last(damaged, name, second, number) + 1
    yield from bisected(fetch, 0, top, max(top // PARTS, 1))


def _last(damaged: sqlite3.Connection, table: str, column: str, source: int) -> int:
    """Returns the last place of a source; MAX_NUMBER if it cannot be read or believed."""
    statement = f"SELECT max({column}) FROM {table} WHERE source = ?"  # noqa: S608 (the schema's names)
    try:
        found = damaged.execute(statement, (source,)).fetchone()[0]
    except sqlite3.DatabaseError:
        return MAX_NUMBER
    return found if isinstance(found, int) and 0 <= found < MAX_NUMBER << 12 else MAX_NUMBER


# ------------------------------------------------------------------ chunks of a damaged file
PIECE = 512  # blocks that are read at once
KEY_BYTES = 8  # of a sort key in an index
ORPHAN_WINDOW = 1 << 18  # ids of blocks that are read at once
ORPHAN_SLICE = 64  # of blocks that no chunk owns: ids given up together around an unreadable one

U64s = NDArray[np.uint64]


@dataclass(slots=True)
class DamagedChunk:
    """One row of `chunk`, without its blobs.

    Attributes:
      lost: number of blocks that could not be read or trusted; `records` sets it.
      problems: what is wrong, one line each.
    """

    id: int
    segment: int
    first_block: int
    blocks: int
    gone: int
    checksum: int
    lost: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"segment {self.segment}, chunk {self.id}"

    def records(self, connection: sqlite3.Connection) -> RecordBatch:
        """Returns the records of all blocks that can be verified to be unchanged."""
        index = _Index.read(connection, self)
        if index.is_intact(self.checksum):
            of_index = len(index.keys())  # its checksum is right, so it counts, not the row
            if of_index != self.blocks:
                says = f"its row says {self.blocks} blocks, its index has {of_index}; those are saved"
                self.problems.append(f"{self.name}: {says}")
            self.blocks = of_index
        batch, owners = self._read(connection, index)
        return self._trusted(index, batch, owners)

    def _read(self, connection: sqlite3.Connection, index: _Index) -> tuple[RecordBatch, NDArray[np.int64]]:
        """Returns the records of the blocks that decode, and for each record the number of its block."""
        dictionary = index.sound_dictionary()
        if dictionary is None:
            self.lost = self.blocks - self.gone
            self.problems.append(
                f"{self.name}: its dictionaries are damaged, and all its blocks lost with them"
            )
            return RecordBatch.empty(0, 0, 0), np.zeros(0, np.int64)
        blocks = list(_fetch(connection, self))
        unpacker = own_unpacker()
        slots = np.full(len(blocks), unpacker.slot(dictionary), np.int64)

        def lose(i: int, why: str) -> None:
            self._lose(self.gone + i, why if blocks[i] else "it is missing")

        batch, records = decode_stored(unpacker, *joined(blocks), slots, lambda _: dictionary, lose)
        return batch, self.gone + np.repeat(np.arange(len(blocks)), records)

    def _lose(self, number: int, why: str) -> None:
        self.lost += 1
        self.problems.append(f"{self.name}, block {self.first_block + number}: {why}")

    def _trusted(self, index: _Index, batch: RecordBatch, owners: NDArray[np.int64]) -> RecordBatch:
        """Returns the records that belong to this chunk and were decoded with the right dictionaries."""
        firsts = np.nonzero(np.diff(owners, prepend=-1))[0]
        keys = order.sort_keys(batch.words[firsts])
        if index.is_intact(self.checksum):
            strangers = owners[firsts][index.keys()[owners[firsts]] != keys].tolist()
            for number in strangers:
                self._lose(number, "it does not begin with the key of the index")
            return take(batch, np.nonzero(~np.isin(owners, strangers))[0])
        if index.dictionary and not index.is_proved(self, batch, owners[firsts], keys):
            self.lost = self.blocks - self.gone
            self.problems.append(
                f"{self.name}: its index is damaged, and its dictionaries may be too, so its blocks are"
                " left out"
            )
            return RecordBatch.empty(0, 0, 0)
        self.problems.append(f"{self.name}: its index is damaged, its blocks are not")
        return batch


@dataclass(frozen=True, slots=True)
class _Index:
    """The blobs of a chunk, None where one cannot be read."""

    stored_keys: bytes | None
    dictionary: bytes | None
    bloom: bytes | None

    @classmethod
    def read(cls, connection: sqlite3.Connection, chunk: DamagedChunk) -> _Index:
        if not chunk.id:  # blocks that no chunk owns
            return cls(None, b"", None)
        return cls(*(_blob(connection, chunk.id, name) for name in ("keys", "dictionary", "bloom")))

    def sound_dictionary(self) -> bytes | None:
        """Returns the dictionaries as stored; None if they cannot be read or are invalid."""
        with suppress(CorruptRecordError):
            if self.dictionary is not None:
                Dictionaries.from_bytes(self.dictionary)
                return self.dictionary
        return None

    def keys(self) -> U64s:
        return np.frombuffer(self.stored_keys or b"", "<u8").astype(np.uint64)

    def is_intact(self, checksum: int) -> bool:
        """Returns whether the index matches its checksum."""
        if self.stored_keys is None or len(self.stored_keys) % KEY_BYTES or self.bloom is None:
            return False
        return self._sum(self.stored_keys, self.bloom) == checksum

    def is_proved(
        self, chunk: DamagedChunk, batch: RecordBatch, numbers: NDArray[np.int64], keys: U64s
    ) -> bool:
        """Returns whether the checksum matches with keys or a bloom filter rebuilt from the records.

        One wrong bit is accepted: it may be in the checksum itself.
        """
        made = np.zeros(chunk.blocks, np.uint64)
        if self.stored_keys is not None and len(self.stored_keys) == KEY_BYTES * chunk.blocks:
            made = self.keys()
        made[numbers] = keys
        filters = {self.bloom, bloom_of(batch, keys_of(batch.words)).tobytes()}
        sums = [self._sum(made.astype("<u8").tobytes(), bloom) for bloom in filters if bloom is not None]
        return any((found ^ chunk.checksum).bit_count() <= 1 for found in sums)

    def _sum(self, keys: bytes, bloom: bytes) -> int:
        return zlib.crc32(bloom, zlib.crc32(self.dictionary or b"", zlib.crc32(keys)))


def _blob(connection: sqlite3.Connection, chunk: int, name: str) -> bytes | None:
    try:
        row = connection.execute(f"SELECT {name} FROM chunk WHERE id = ?", (chunk,)).fetchone()  # noqa: S608
    except sqlite3.DatabaseError:
        return None
    return row[0] if row and isinstance(row[0], bytes) else None


def _fetch(connection: sqlite3.Connection, chunk: DamagedChunk) -> Iterator[bytes]:
    """Yields the blocks of a chunk as stored, empty bytes for an unreadable one."""
    begin, end = chunk.first_block + chunk.gone, chunk.first_block + chunk.blocks

    def fetch(low: int, high: int) -> list[tuple[int, bytes]]:
        return connection.execute(
            "SELECT id, data FROM block WHERE id >= ? AND id < ?", (low, high)
        ).fetchall()

    for low in range(begin, end, PIECE):
        high = min(low + PIECE, end)
        found: dict[int, object] = dict(row for rows, _ in bisected(fetch, low, high) for row in rows)
        for number in range(low, high):
            block = found.get(number)
            yield block if isinstance(block, bytes) else b""


def damaged_chunks(
    connection: sqlite3.Connection, tick: Callable[[], object]
) -> tuple[list[DamagedChunk], list[str]]:
    """Returns the chunks of a file, those of the oldest segment first, and the tables with unreadable rows.

    A segment with a lost row counts as older than the others. Blocks that no chunk owns become chunks with
    id 0; they can be read if they were written without dictionaries. `tick` is called regularly.
    """
    segments, segments_lost = rows_by_id(connection, "segment", "id, age")
    rows, chunks_lost = rows_by_id(connection, "chunk", "id, segment, first_block, blocks, gone, checksum")
    ages = {segment: age for segment, age in segments if isinstance(age, int)}
    good = [DamagedChunk(*row) for row in rows if _is_chunk(row)]
    good.sort(key=lambda chunk: (ages.get(chunk.segment, 0), chunk.segment, chunk.id))
    orphans, blocks_lost = _orphans(connection, good, tick)
    flags = {"segment": segments_lost or not {c.segment for c in good} <= set(ages)}
    flags |= {"chunk": chunks_lost or len(good) < len(rows), "block": blocks_lost}
    return [*orphans, *good], [table for table, lost in flags.items() if lost]


def _is_chunk(row: Row) -> bool:
    """Returns whether a row can be that of a chunk."""
    if not all(isinstance(x, int) for x in row):
        return False
    _, _, first_block, blocks, gone, _ = row
    in_reach = 0 < first_block <= MAX_INTEGER - CHUNK_BLOCKS
    return bool(in_reach and 0 <= gone <= blocks and 0 < blocks <= CHUNK_BLOCKS)


def _orphans(
    connection: sqlite3.Connection, chunks: list[DamagedChunk], tick: Callable[[], object]
) -> tuple[list[DamagedChunk], bool]:
    """Returns ranges of blocks that no chunk owns, and whether any ids of blocks could not be read."""
    begins, ends = _owned(chunks)
    last = int(ends[-1]) if len(ends) else 0
    strays, any_lost = [np.zeros(0, np.int64)], False
    for rows, lost in pieces_by_id(
        connection, "block", "id", bound=last, least=ORPHAN_SLICE, window=ORPHAN_WINDOW
    ):
        ids = np.array([row[0] for row in rows], np.int64)
        place = np.searchsorted(begins, ids, "right") - 1
        strays.append(ids[(place < 0) | (ids >= ends[place])] if len(ends) else ids)
        any_lost |= lost
        tick()
    ids = np.concatenate(strays)
    starts = np.nonzero(np.diff(ids, prepend=-1) != 1)[0]
    found = []
    for start, end in pairwise([*starts.tolist(), len(ids)]):
        for first in range(start, end, CHUNK_BLOCKS):
            blocks = min(CHUNK_BLOCKS, end - first)
            found.append(DamagedChunk(0, 0, int(ids[first]), blocks, 0, 0))
    return found, any_lost


def _owned(chunks: list[DamagedChunk]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the first blocks of chunks, sorted, and for each the end of all chunks up to it."""
    spans = sorted((c.first_block + c.gone, c.first_block + c.blocks) for c in chunks)
    begins, ends = np.array(spans, np.int64).reshape(-1, 2).T
    return begins, np.maximum.accumulate(ends) if len(ends) else ends
