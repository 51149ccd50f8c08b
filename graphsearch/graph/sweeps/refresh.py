"""Refreshes a file: every edge gets the present value of its child.

An edge's q is its child's value at the edge's last visit; it becomes stale when visits through other parents
change the child. Because a file may be far larger than memory, only a compact table of every node's value
(`sweep_kernel.py`) is in memory: the records are streamed past it until it settles, and then the file is
rewritten once. Cycles settle too, because a node's V keeps its weight.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import chess
import numpy as np

from ...base.answer import Answer
from ...base.errors import CapacityError, InvalidParameterError, StoreError
from ...position.board import board_of
from ...position.tables import load_tables
from ...store.apart import completed_reader
from ...store.codec.bulk import columns_of, owned
from ...store.record.node import RecordBatch
from ...store.store import Store
from ...store.tables import games, history
from ...store.tables.top import Row
from ...store.upkeep.rewrite import rewrite, tidy
from ..arena import default_budget
from ..summary import root_values, top_rows
from . import sweep_kernel as sweep

TOLERANCE = 1e-3  # of Q: 0.14 centipawns near 0
MAX_SWEEPS = 100
KIND = "refresh"  # kind of the row in the table `run`, although no evaluator is called
READING, SWEEPING, WRITING = "reading", "sweeping", "writing"


@dataclass(frozen=True, slots=True)
class RefreshProgress:
    """Progress of a refresh.

    Attributes:
      stage: `reading`, `sweeping` or `writing`.
      sweep: number of the sweep, from 1; 0 while reading.
      largest: largest change of a node Q in the last complete sweep, None before there is one.
      done, total: records of this stage.
    """

    stage: str
    sweep: int
    largest: float | None
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class RefreshReport(Answer):
    """Report of a refresh.

    Attributes:
      records: in the file. sweeps: over all of them.
      settled: whether the largest change fell below the tolerance before the last allowed sweep.
      first_change, last_change: largest change of a node Q in the first and in the last sweep.
      stale: edges whose q was off by more than the tolerance, or whose proof has changed; if there are none,
        nothing is written.
      lost: edges left alone because their child has fewer visits than they count (it was reevaluated).
      missing: edges left alone because their child is not in the file.
      changed_records, changed_edges: number written with other values.
      seconds: wall time.
    """

    records: int
    sweeps: int
    settled: bool
    first_change: float
    last_change: float
    stale: int
    lost: int
    missing: int
    changed_records: int
    changed_edges: int
    seconds: float


OnProgress = Callable[[RefreshProgress], None]


def refresh(
    path: str | os.PathLike[str],
    tolerance: float = TOLERANCE,
    *,
    ram_bytes: int | None = None,
    max_sweeps: int = MAX_SWEEPS,
    on_progress: OnProgress | None = None,
) -> RefreshReport:
    """Brings every q of a graph file up to date with its child, and returns a report.

    It writes nothing before the values have settled. Then it rewrites the records in steps; each is complete,
    so it may be interrupted at any moment. Visits, draws of the path, V and P stay as they are.

    Args:
      path: the graph file; locked against other writers meanwhile, readers can use it.
      tolerance: of Q, in (0, 1]. The sweeps end when no node changes by half of it in one sweep; a second
        refresh then finds no edge off by more than the tolerance.
      ram_bytes: most memory of the table, 20 bytes a node; default: 80 % of the machine's memory.
      max_sweeps: most sweeps.
      on_progress: called after every batch of records.

    Raises:
      InvalidParameterError: if the tolerance or the number of sweeps is out of range.
      CapacityError: if the table does not fit into `ram_bytes`.
      UnfinishedError: if a reevaluation of the file is unfinished; it ends with a refresh.
      StoreLockedError: if another process is writing the file.
      CorruptRecordError: if a block is damaged; then nothing is written.
      StoreError: if the file cannot be read or written.
    """
    _check(tolerance, max_sweeps)
    with Store.open(path) as store:
        report = settle(store, tolerance, ram_bytes=ram_bytes, max_sweeps=max_sweeps, on_progress=on_progress)
        with (
            store.transaction()
        ):  # in any case: after a killed refresh the tables may be older than the records
            store.records_changed(None)
            for root in store.roots():
                write_top_tables(store, board_of(root.position))
            if report.stale:
                _note_run(store, tolerance)
        if report.stale:
            written = RefreshProgress(
                WRITING, report.sweeps, report.last_change, report.records, report.records
            )
            tidy(store, progress=lambda done, total: on_progress(written) if on_progress else None)
        return report


def _check(tolerance: float, max_sweeps: int) -> None:
    if not 0 < tolerance <= 1:
        raise InvalidParameterError(f"the tolerance must be above 0, at most 1, not {tolerance}")
    if max_sweeps < 1:
        raise InvalidParameterError(f"the number of sweeps must be at least 1, not {max_sweeps}")


def write_top_tables(store: Store, root: chess.Board) -> list[Row]:
    """Writes the most visited positions below a root to the plain tables; in a transaction.

    Returns:
      the rows of the positions.
    """
    positions, edges = top_rows(store.read, root)
    store.write_top(positions, edges)
    return positions


def _note_run(store: Store, tolerance: float) -> None:
    """Inserts the run, and the present values of the roots into the history."""
    run = store.begin_run("", {}, {"tolerance": tolerance}, kind=KIND)
    note_roots(store, run)
    store.finish_run(run, 0, 0)


def note_roots(store: Store, run: int) -> None:
    """Inserts the present values of all roots into the history, those of books too; in a transaction."""
    read = completed_reader(store)
    for fen in games.known_roots(store):
        board = board_of(fen)
        if values := root_values(read, board):
            history.write(store, run, values)


def settle(
    store: Store,
    tolerance: float = TOLERANCE,
    *,
    ram_bytes: int | None = None,
    max_sweeps: int = MAX_SWEEPS,
    on_progress: OnProgress | None = None,
) -> RefreshReport:
    """Brings every q in the records of an open store up to date, as `refresh` does, but no plain tables."""
    check_fits(store.node_count, ram_bytes, "refreshing")
    return _Refresh(store, tolerance, on_progress or (lambda progress: None)).refresh(max_sweeps)


LOAD = 0.8  # of the table; a node takes 8 * PLACE_WORDS / 0.8 = 20 bytes


def table_bytes(records: int) -> int:
    """Returns the bytes of a table for `records` nodes.

    >>> table_bytes(1_000_000)
    20000256
    """
    return 8 * sweep.PLACE_WORDS * (int(records / LOAD) + 16)


def check_fits(records: int, ram_bytes: int | None, what: str) -> None:
    """Raises CapacityError if a table for `records` nodes takes more than `ram_bytes`.


    Args:
      ram_bytes: by default 80 % of the machine's memory. what: the operation, for the message.
    """
    limit, need = default_budget() if ram_bytes is None else ram_bytes, table_bytes(records)
    if need > limit:
        raise CapacityError(
            f"{what} {records} nodes takes {need / 1e6:,.2f} MB of memory, more than the"
            f" {limit / 1e6:,.2f} MB allowed; allow more"
        )


class _Refresh:
    """One refresh of an open store."""

    def __init__(self, store: Store, tolerance: float, on_progress: OnProgress) -> None:
        self._started = time.monotonic()
        self._store = store
        self._tolerance = tolerance
        self._on_progress = on_progress
        self._total = store.node_count
        self._tables = owned(load_tables(), np.uint64)
        self._scratch = sweep.new_scratch()
        self._counts = np.zeros(sweep.COUNTS, np.int64)
        self._changes: list[float] = []
        self._table = np.zeros(table_bytes(self._total) // 8, np.uint64)

    def refresh(self, max_sweeps: int) -> RefreshReport:
        """Reads, sweeps and, if anything is stale, writes."""
        self._read()
        settled = self._total == 0
        while not settled and len(self._changes) < max_sweeps:
            self._changes.append(self._sweep())
            settled = self._changes[-1] < self._tolerance / 2
        stale, lost, missing = (
            int(self._counts[i]) for i in (sweep.STALE_EDGES, sweep.LOST_CHILDREN, sweep.MISSING_CHILDREN)
        )
        if stale:
            self._write()
        return RefreshReport(
            records=self._total,
            sweeps=len(self._changes),
            settled=settled,
            first_change=self._changes[0] if self._changes else 0.0,
            last_change=self._changes[-1] if self._changes else 0.0,
            stale=stale,
            lost=lost,
            missing=missing,
            changed_records=int(self._counts[sweep.CHANGED_RECORDS]),
            changed_edges=int(self._counts[sweep.CHANGED_EDGES]),
            seconds=time.monotonic() - self._started,
        )

    def _read(self) -> None:
        done = 0
        for batch in self._store.all_records():
            done += len(batch)
            if done > self._total:
                raise StoreError(
                    f"{self._store.path} holds more records than it counts ({self._total});"
                    " `graphsearch store verify` shows where"
                )
            sweep.enter(self._tables, self._table, columns_of(batch))
            self._say(READING, done)

    def _sweep(self) -> float:
        """Sweeps once over all records; returns the largest change of a node Q."""
        self._counts[:] = 0
        largest, done = 0.0, 0
        number = len(self._changes) + 1
        for batch in self._store.all_records():
            change = sweep.sweep(
                self._tables, self._table, columns_of(batch), self._scratch, self._tolerance, self._counts
            )
            largest = max(largest, float(change))
            done += len(batch)
            self._say(SWEEPING, done, number)
        return largest

    def _write(self) -> None:
        def say(done: int, total: int) -> None:
            self._say(WRITING, done, len(self._changes), total)

        rewrite(self._store, self._freshened, say)

    def _freshened(self, batch: RecordBatch) -> RecordBatch:
        """Returns records with the values of their children from the table."""
        fresh = replace(batch, q=batch.q.copy(), edge_d=batch.edge_d.copy(), flags=batch.flags.copy())
        sweep.freshen(self._tables, self._table, columns_of(fresh), self._scratch, self._counts)
        return fresh

    def _say(self, stage: str, done: int, number: int = 0, total: int | None = None) -> None:
        largest = self._changes[-1] if self._changes else None
        self._on_progress(
            RefreshProgress(stage, number, largest, done, self._total if total is None else total)
        )
