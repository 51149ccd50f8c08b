"""Salvage: writes a new, sound file from the data of a damaged one that can be verified.

It reads the intact rows of the SQLite file and skips those that cannot be read, copies the valid rows of
plain tables, and finds the blocks that can be read and trusted.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CorruptRecordError, StoreError, StoreTargetError
from . import entries, provenance
from .backup import new_file
from .block import decode_stored, is_dictionary, joined, unsound
from .file import check_format, check_is_file, impostors, log_bytes, open_unless_failed, real_path
from .index import bloom_of, checksum_of
from .provenance import EvaluatorIdentity
from .record import RecordBatch, keys_of, sort_keys, take
from .record_kernel import MAX_EVALUATOR
from .rewrite import Advance, OnProgress, append_versions, merge_all, shrink
from .segment import CHUNK_BLOCKS
from .store import Store
from .tables.rows import MAX_INTEGER, TABLES, fault_of_row, insert
from .verify import Problems

Row = tuple[Any, ...]

# tables that are not copied row by row, or not after the records
OWN = frozenset({"store_info", "evaluator", "run", "segment", "chunk", "block"})
PLAIN = tuple(name for name in TABLES if name not in OWN)
READING = "reading blocks"  # stage
NO_CHECKSUM = -1  # of blocks that no chunk owns


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
    on_progress: OnProgress | None = None,
) -> SalvageReport:
    """Writes a new file from the sound data of a damaged one, which is only read.

    The newest surviving version of each record counts. The new file gets its name when it is finished; until
    then it is `NEW.part`.

    Args:
      identity: the evaluator, for a file that has lost it.
      force: replace an existing file.
      on_progress: called with blocks, then with records.

    Raises:
      StoreError: if too little of the file can be read, or the new one cannot be written.
      EvaluatorMismatchError: if it names another evaluator than the given one.
    """
    source, target = real_path(path), real_path(new)
    check_is_file(source, create=False)
    if source == target or (target.exists() and source.samefile(target)):
        raise StoreTargetError(f"{target} is the damaged file itself; name another one")
    report = SalvageReport()
    with closing(open_damaged(source)) as damaged:
        for name in sorted(impostors(damaged)):
            report.lose(name)
        evaluators, bound = _evaluators(damaged, source, identity, report)
        with (
            new_file(target, force=force) as part,
            Store.open(part, create=True, unbound=True) as store,
        ):
            with store.transaction():
                for number, known in evaluators.items():
                    provenance.write_evaluator(store.connection, number, known)
                if bound in evaluators:
                    store.bind_evaluator(bound)
                _copy_table(damaged, store.connection, "run", report)
            _save_records(damaged, store, report, on_progress)
            merge_all(store, on_progress)
            _save_tables(damaged, store, report)
            shrink(store)
            report.records = store.node_count
    return report


# ------------------------------------------------------------------ rows of a damaged file
def open_damaged(path: Path) -> sqlite3.Connection:
    """Returns a connection that reads the intact parts of a file of this format and never changes it.

    It raises StoreError if not even the list of tables can be read.
    """
    mode = "mode=ro" if log_bytes(path) else "mode=ro&immutable=1"
    try:
        with open_unless_failed(path, mode) as connection:
            if sys.version_info >= (3, 12):
                connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, False)
            connection.execute("PRAGMA writable_schema = 1")  # else SQLite refuses a truncated file
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
            if not {"chunk", "block", "evaluator"} <= names - impostors(connection):
                raise StoreError(f"{path} is not a graph file: it has none of its tables")
            for name in impostors(connection):  # an empty table hides it
                connection.execute(f"CREATE TEMP TABLE {name} ({', '.join(TABLES[name].columns)})")
            connection.execute("PRAGMA query_only = 1")
            check_format(connection, path)
            return connection
    except sqlite3.Error as error:
        raise StoreError(
            f"{path}: its first page, which says where everything is, cannot be read: {error}"
        ) from None


class DamagedTable:
    """The readable rows of a table, in the order of its primary key; `lost`: whether there are others.

    SQLite reads the rows before a damaged page one by one, and finds those behind it by their key. So the
    primary key is taken as a number: a rowid, the 64 bits of a key in hexadecimal, or two of these one after
    the other. Other columns of the key count as equal.
    """

    def __init__(self, connection: sqlite3.Connection, table: str, columns: str) -> None:
        """Reads nothing yet; `columns`: SQL of the columns that a row has."""
        self._connection, self._table, self._columns = connection, table, columns
        its = TABLES[table]
        self._key = its.key[:1] if its.columns[its.key[0]].kind == "TEXT" else its.key[:2]
        self._is_text = [its.columns[name].kind == "TEXT" for name in self._key]
        self.lost = False

    def rows(self, low: int = 0, high: int | None = None) -> Iterator[Row]:
        """Yields the readable rows with keys from `low` to `high` (exclusive)."""
        end = 1 << 64 * len(self._key) if high is None else high
        while low < end:
            try:
                for row in self._select(low, end):
                    low = max(low, 1 + self._number(row))
                    yield row[len(self._key) :]
                return
            except sqlite3.DatabaseError:
                self.lost = True
            low = self._behind(low, end)

    def _behind(self, low: int, high: int) -> int:
        """Returns the first key behind the damage at `low`, at most `high`."""
        width = 1
        while low + width < high and self._fails(low + width, high):
            width *= 2
        bad, good = low + width // 2, min(low + width, high)
        while good - bad > 1:
            middle = (bad + good) // 2
            if self._fails(middle, high):
                bad = middle
            else:
                good = middle
        return good

    def _fails(self, low: int, high: int) -> bool:
        """Returns whether the first row with a key from `low` on cannot be read, or has a damaged key."""
        try:
            row = self._select(low, high).fetchone()
        except sqlite3.DatabaseError:
            return True
        return row is not None and self._number(row) < low

    def _select(self, low: int, high: int) -> sqlite3.Cursor:
        """Returns the key and the columns of the rows with keys from `low` to `high` (exclusive)."""
        names, marks = ", ".join(self._key), ", ".join("?" * len(self._key))
        statement = (
            f"SELECT {names}, {self._columns} FROM {self._table}"  # noqa: S608 (the schema's names)
            f" WHERE ({names}) >= ({marks}) AND ({names}) <= ({marks}) ORDER BY {names}"
        )
        return self._connection.execute(statement, [*self._values(low, ""), *self._values(high - 1, "g")])

    def _values(self, number: int, end: str) -> Iterator[int | str]:
        """Yields the columns of a key; `end` is put behind a text, so that longer keys are below it."""
        for k, is_text in enumerate(self._is_text):
            part = number >> 64 * (len(self._key) - 1 - k) & (1 << 64) - 1
            yield f"{part:016x}{end}" if is_text else min(part, MAX_INTEGER)

    def _number(self, row: Row) -> int:
        """Returns the key of a row as a number; 0 if it is none."""
        number = 0
        for value, is_text in zip(row, self._is_text, strict=False):
            try:
                part = int(value[:16], 16) if is_text else int(value)
            except (ValueError, TypeError, OverflowError):
                return 0
            number = number << 64 | part
        return max(number, 0)


def _copy_table(
    damaged: sqlite3.Connection, connection: sqlite3.Connection, name: str, report: SalvageReport
) -> None:
    """Copies the readable, valid rows of a table."""
    columns = tuple(TABLES[name].columns)
    table = DamagedTable(damaged, name, ", ".join([*columns, fault_of_row(name)]))
    rows, copied, faults = table.rows(), 0, list[str]()
    while some := list(islice(rows, 1000)):
        good = [row[:-1] for row in some if row[-1] is None]
        faults += [row[-1] for row in some if row[-1] is not None]
        copied += len(good)
        insert(connection, name, columns, good)
    if faults:
        report.lose(name, f"{len(faults):,} of its rows are damaged; of the first, {faults[0]}")
    elif table.lost or copied != _size(damaged, name):
        report.lose(name)


def _size(damaged: sqlite3.Connection, name: str) -> int:
    """Returns the number of rows of a table, whatever their keys; -1 if unknown."""
    try:
        return int(damaged.execute(f"SELECT count(*) FROM {name}").fetchone()[0])  # noqa: S608 (constants)
    except sqlite3.DatabaseError:
        return -1


def _save_tables(damaged: sqlite3.Connection, store: Store, report: SalvageReport) -> None:
    """Copies the readable, valid rows of the plain tables."""
    with store.transaction():
        _copy_facts(damaged, store.connection, report)
        for table in PLAIN:
            _copy_table(damaged, store.connection, table, report)
        store.records_changed(None)
        sizes = entries.sizes(store, report.add)
        damaged_pieces = [(number,) for number, size in sizes.items() if not size]
        store.connection.executemany("DELETE FROM entry_piece WHERE id = ?", damaged_pieces)
        report.entries = sum(sizes.values())
        strays = "DELETE FROM entry_iteration WHERE run NOT IN (SELECT id FROM entry_run)"
        if store.connection.execute(strays).rowcount:
            report.lose("entry_iteration", "some of its rows belong to runs that are lost")


def _copy_facts(damaged: sqlite3.Connection, connection: sqlite3.Connection, report: SalvageReport) -> None:
    """Copies the facts that do not follow from the records."""
    statement = f"SELECT name, value, {fault_of_row('store_info')} FROM store_info WHERE name = ?"  # noqa: S608
    for name in ("created", "created_by", provenance.MARK):
        row: Row | None = ("it cannot be read",)  # as its fault
        with suppress(sqlite3.DatabaseError):
            row = damaged.execute(statement, (name,)).fetchone()
        if row and row[-1] is None:
            connection.execute("INSERT OR REPLACE INTO store_info VALUES (?, ?)", row[:2])
        elif row or name != provenance.MARK:
            report.lose("store_info")


# ------------------------------------------------------------------ evaluators
def _evaluators(
    damaged: sqlite3.Connection, path: Path, given: EvaluatorIdentity | None, report: SalvageReport
) -> tuple[dict[int, EvaluatorIdentity], int]:
    """Returns the evaluators of a damaged file by number, and the number of that to which it is bound.

    `given`: the evaluator, for a file that has lost it; the errors are those of `salvage`.
    """
    table = DamagedTable(damaged, "evaluator", "id, identity")
    known: dict[int, EvaluatorIdentity] = {}
    for number, text in table.rows():
        with suppress(CorruptRecordError):
            if number in range(1, MAX_EVALUATOR + 1):
                known[number] = provenance.identity_of(text)
    if table.lost or len(known) != _size(damaged, "evaluator"):
        report.lose("evaluator")
    same = [number for number, one in known.items() if given and one.as_json() == given.as_json()]
    is_blank = False
    with suppress(sqlite3.DatabaseError):
        is_blank = provenance.is_blank(damaged)
    try:
        bound = provenance.evaluator_number(damaged)
    except (sqlite3.Error, CorruptRecordError):  # the best guess
        only = next(iter(known)) if len(known) == 1 else 0
        bound = (*same, provenance.FIRST_EVALUATOR)[0] if given else only
    if given:
        if bound in known and bound not in same:
            raise provenance.mismatch(path, known[bound], given)
        known[bound] = given
    if bound not in known and not is_blank:
        raise StoreError(f"{path} does not say which evaluator it is bound to; name it with --evaluator")
    return known, bound


# ------------------------------------------------------------------ records
@dataclass(frozen=True, slots=True)
class DamagedChunk:
    """One row of `chunk`, without its blobs; id 0: blocks that no chunk owns."""

    id: int
    segment: int
    first_block: int
    blocks: int
    gone: int
    checksum: int

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"segment {self.segment}, chunk {self.id}"

    @property
    def left(self) -> range:
        """The ids of its blocks that no merge has moved."""
        return range(self.first_block + self.gone, self.first_block + self.blocks)

    @property
    def is_possible(self) -> bool:
        """Whether its numbers can be those of a chunk."""
        in_reach = 0 < self.first_block <= MAX_INTEGER - CHUNK_BLOCKS
        return in_reach and 0 <= self.gone <= self.blocks and 0 < self.blocks <= CHUNK_BLOCKS


def _save_records(
    damaged: sqlite3.Connection, store: Store, report: SalvageReport, on_progress: OnProgress | None
) -> None:
    """Writes all sound records, oldest segment first, so that the newest version of each counts."""
    chunks = _chunks(damaged, report)
    report.blocks = sum(len(chunk.left) for chunk in chunks)
    listed = [row[0] for row in store.connection.execute("SELECT id FROM run")]
    known, forgotten = np.array(listed, np.int64), 0
    nameless = np.zeros(256, np.int64)
    advance = Advance(on_progress, READING, report.blocks)

    def batches() -> Iterator[RecordBatch]:
        nonlocal forgotten, nameless
        for chunk in chunks:
            batch = _sound_records(damaged, chunk, report)
            strays = (batch.run > 0) & ~np.isin(batch.run, known)
            forgotten += int(strays.sum())
            nameless += np.bincount(batch.evaluator, minlength=256)
            yield batch.replace(run=np.where(strays, np.uint32(0), batch.run))
            advance(len(chunk.left))

    append_versions(store, batches())
    with store.transaction():
        for number in np.nonzero(nameless)[0].tolist():
            if number and number not in store.evaluators():
                lost = EvaluatorIdentity("lost", "", {"number": number})
                provenance.write_evaluator(store.connection, number, lost)
                its = f"{nameless[number]} records are of evaluator {number}"
                report.add(f"table evaluator: {its}, whose row is lost")
    if forgotten:
        report.add(f"table run: {forgotten} records belong to runs whose rows are lost")


def _chunks(damaged: sqlite3.Connection, report: SalvageReport) -> list[DamagedChunk]:
    """Returns the chunks of a file, those of the oldest segment first.

    A segment with a lost row counts as older than the others. Blocks that no chunk owns become chunks with
    id 0; they can be read if they were written without dictionaries.
    """
    segments = DamagedTable(damaged, "segment", "id, age")
    ages = {segment: age for segment, age in segments.rows() if isinstance(age, int)}
    table = DamagedTable(damaged, "chunk", "id, segment, first_block, blocks, gone, checksum")
    rows = list(table.rows())
    found = [DamagedChunk(*row) for row in rows if all(isinstance(x, int) for x in row)]
    good = [chunk for chunk in found if chunk.is_possible]
    good.sort(key=lambda chunk: (ages.get(chunk.segment, 0), chunk.segment, chunk.id))
    blocks = DamagedTable(damaged, "block", "id")
    orphans = _orphans(blocks, good)
    if segments.lost or not {chunk.segment for chunk in good} <= set(ages):
        report.lose("segment")
    if table.lost or len(good) < len(rows):
        report.lose("chunk")
    if blocks.lost:
        report.lose("block")
    return [*orphans, *good]


def _orphans(blocks: DamagedTable, chunks: list[DamagedChunk]) -> list[DamagedChunk]:
    """Returns ranges of blocks that no chunk owns."""
    found, low = list[int](), 0
    for left in sorted((chunk.left for chunk in chunks), key=lambda left: left.start):
        found += [number for (number,) in blocks.rows(low, left.start)]
        low = max(low, left.stop)
    strays = np.array([*found, *(number for (number,) in blocks.rows(low))], np.int64)
    return [
        DamagedChunk(0, 0, int(part[0]), len(part), 0, NO_CHECKSUM)
        for run in np.split(strays, np.flatnonzero(np.diff(strays) != 1) + 1)
        for part in np.split(run, range(CHUNK_BLOCKS, len(run), CHUNK_BLOCKS))
        if len(part)
    ]


def _sound_records(damaged: sqlite3.Connection, chunk: DamagedChunk, report: SalvageReport) -> RecordBatch:
    """Returns the records of a chunk that can be trusted and break no rule."""
    names = ("keys", "dictionary", "bloom")
    blobs = [_blob(damaged, chunk.id, name) if chunk.id else b"" for name in names]
    stored, dictionary, bloom = (blob or b"" for blob in blobs)
    firsts = np.frombuffer(stored[: len(stored) // 8 * 8], "<u8").astype(np.uint64)
    is_intact = checksum_of(stored, dictionary, bloom) == chunk.checksum
    is_intact = is_intact and None not in blobs and len(stored) == 8 * len(firsts)
    lost = report.blocks_lost

    def lose_all(why: str) -> RecordBatch:
        report.blocks_lost = lost + len(chunk.left)
        report.add(f"{chunk.name}: {why}")
        return RecordBatch.empty(0, 0, 0)

    if is_intact and len(firsts) != chunk.blocks:  # the index counts, not the row
        says = f"its row says {chunk.blocks} blocks, its index has {len(firsts)}; those are saved"
        report.add(f"{chunk.name}: {says}")
        chunk = replace(chunk, blocks=len(firsts))
    if blobs[1] is None or not is_dictionary(dictionary):
        return lose_all("its dictionaries are damaged, and all its blocks lost with them")
    batch, owners = _decoded(damaged, chunk, dictionary, report)
    begins = np.nonzero(np.diff(owners, prepend=-1))[0]
    blocks, keys = owners[begins], sort_keys(batch.words[begins])
    if is_intact:  # the records must belong to this chunk
        strangers = blocks[firsts[blocks] != keys].tolist()
        for number in strangers:
            _lose_block(report, chunk, number, "it does not begin with the key of the index")
        batch = take(batch, np.nonzero(~np.isin(owners, strangers))[0])
    else:
        # the keys and the bloom filter, rebuilt from the records, may prove the dictionaries
        rebuilt = firsts if len(firsts) == chunk.blocks else np.zeros(chunk.blocks, np.uint64)
        rebuilt[blocks] = keys
        filters = {bloom, bloom_of(keys_of(batch.words)).tobytes()}
        sums = [checksum_of(rebuilt.astype("<u8").tobytes(), dictionary, one) for one in filters]
        # one wrong bit may be in the checksum itself
        if dictionary and all((one ^ chunk.checksum).bit_count() > 1 for one in sums):
            return lose_all("its index is damaged, its dictionaries may be too, so its blocks are left out")
        report.add(f"{chunk.name}: its index is damaged, its blocks are not")
    bad = sorted({i for i, _ in unsound(batch)})
    if bad:
        report.records_unsound += len(bad)
        report.add(f"{chunk.name}: {len(bad)} records break a rule, and are left out")
    return take(batch, np.setdiff1d(np.arange(len(batch)), bad))


def _decoded(
    damaged: sqlite3.Connection, chunk: DamagedChunk, dictionary: bytes, report: SalvageReport
) -> tuple[RecordBatch, NDArray[np.int64]]:
    """Returns the records of the blocks that decode, and for each record the number of its block."""
    table = DamagedTable(damaged, "block", "id, data")
    found: dict[int, object] = dict(table.rows(chunk.left.start, chunk.left.stop))
    if table.lost:
        report.lose("block")
    for number in set(chunk.left) - found.keys():  # behind a damaged id that seems to end the range
        found.update(table.rows(number, number + 1))
    data = (found.get(number) for number in chunk.left)
    blocks = [one if isinstance(one, bytes) else b"" for one in data]

    def lose(i: int, why: str) -> None:
        _lose_block(report, chunk, chunk.gone + i, why if blocks[i] else "it is missing")

    batch, records = decode_stored(*joined(blocks), [dictionary], np.zeros(len(blocks), np.int64), lose)
    return batch, chunk.gone + np.repeat(np.arange(len(blocks)), records)


def _lose_block(report: SalvageReport, chunk: DamagedChunk, number: int, why: str) -> None:
    report.blocks_lost += 1
    report.add(f"{chunk.name}, block {chunk.first_block + number}: {why}")


def _blob(damaged: sqlite3.Connection, chunk: int, name: str) -> bytes | None:
    with suppress(sqlite3.DatabaseError):
        row = damaged.execute(f"SELECT {name} FROM chunk WHERE id = ?", (chunk,)).fetchone()  # noqa: S608
        return row[0] if row and isinstance(row[0], bytes) else None
    return None
