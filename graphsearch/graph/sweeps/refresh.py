"""Refreshes a file: every edge gets the present value of its child.

An edge's q is its child's value at the edge's last visit; it becomes stale when visits through other parents
change the child. The file is read once: a table of every node's value and the visited edges, without
positions and priors, stay in memory (`sweep_kernel.py`) and are swept until they settle. Then the records
that have changed are written. Cycles settle too, because a node's V keeps its weight.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...base.answer import Answer
from ...base.errors import CapacityError, InvalidParameterError, StoreError
from ...position.board import board_of
from ...position.tables import load_tables
from ...position.words import CLOCK_SHIFT, META
from ...store.apart import completed_reader
from ...store.provenance import UNSETTLED
from ...store.record import RecordBatch, columns_of, owned, take
from ...store.rewrite import OnProgress, Progress, rewrite, tidy
from ...store.store import Store
from ...store.tables import games, history
from ...store.tables.top import Row
from ..arena import default_budget
from ..summary import root_values, top_rows
from . import sweep_kernel as sweep
from .sweep_kernel import Nodes

TOLERANCE = 1e-3  # of Q: 0.14 centipawns near 0
MAX_SWEEPS = 100
NODES_PER_SECOND = 300_000  # of CPU time
KIND = "refresh"  # kind of the row in the table `run`, although no evaluator is called
READING, SWEEPING, WRITING = "reading", "sweeping", "writing"  # stages
SLICE = 1 << 18  # records that are swept between two reports of the progress


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


def refresh(
    path: str | os.PathLike[str],
    tolerance: float = TOLERANCE,
    *,
    ram_bytes: int | None = None,
    max_sweeps: int = MAX_SWEEPS,
    on_progress: OnProgress | None = None,
) -> RefreshReport:
    """Brings every q of a graph file up to date with its child, and returns a report.

    It writes nothing before the values have settled. Then it writes new versions of the changed records in
    steps; each is complete, so it may be interrupted at any moment. Visits, draws of the path, V and P stay
    as they are.

    Args:
      path: the graph file; locked against other writers meanwhile, readers can use it.
      tolerance: of Q, in (0, 1]. The sweeps end when no node changes by half of it in one sweep; a second
        refresh then finds no edge off by more than the tolerance.
      ram_bytes: most memory, 80 bytes a node; default: 80 % of the machine's memory.
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
        return refresh_store(
            store, tolerance, ram_bytes=ram_bytes, max_sweeps=max_sweeps, on_progress=on_progress
        )


def refresh_store(
    store: Store,
    tolerance: float = TOLERANCE,
    *,
    ram_bytes: int | None = None,
    max_sweeps: int = MAX_SWEEPS,
    on_progress: OnProgress | None = None,
) -> RefreshReport:
    """Refreshes an open store; as `refresh`."""
    report = settle(store, tolerance, ram_bytes=ram_bytes, max_sweeps=max_sweeps, on_progress=on_progress)
    with store.transaction():  # in any case: after a kill the tables may be older than the records
        store.records_changed(None)
        write_root_tables(store)
        if report.stale:
            run = store.begin_run("", {}, {"tolerance": tolerance}, kind=KIND)
            note_roots(store, run)
            store.finish_run(run, 0, 0)
        store.write_fact(UNSETTLED, None)
    if report.stale:
        tidy(store)
    return report


def refresh_if_due(store: Store, seconds: float) -> None:
    """Refreshes a file in which a merge or a search of some moves has left stale values.

    Args:
      seconds: of CPU time; a file that would take longer is skipped.
    """
    due = store.read_fact(UNSETTLED) is not None and store.unfinished is None
    if (
        due
        and store.node_count <= seconds * NODES_PER_SECOND
        and not lacks_memory(store.node_count, None, "")
    ):
        refresh_store(store)


def _check(tolerance: float, max_sweeps: int) -> None:
    if not 0 < tolerance <= 1:
        raise InvalidParameterError(f"the tolerance must be above 0, at most 1, not {tolerance}")
    if max_sweeps < 1:
        raise InvalidParameterError(f"the number of sweeps must be at least 1, not {max_sweeps}")


def write_root_tables(store: Store) -> list[Row]:
    """Writes the most visited positions below each root to the plain tables, in a transaction.

    Returns:
      the rows of the roots.
    """
    found = []
    for root in store.roots():
        shown = top_rows(store.read, board_of(root.position))
        store.write_top(shown)
        found += [one.position for one in shown if one.position["key"] == root.key]
    return found


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
    if lack := lacks_memory(store.node_count, ram_bytes, "refreshing"):
        raise CapacityError(lack)
    work = _Refresh(store, tolerance, on_progress or (lambda progress: None))
    return work.refresh(max_sweeps)


LOAD = 0.8  # of the table
EDGE_BYTES = 60  # of the visited edges, and of the records that have them, for each node of a file
NODE_BYTES = 8 * sweep.PLACE_WORDS / LOAD + EDGE_BYTES


def memory_of(records: int) -> int:
    """Returns the bytes that refreshing `records` nodes takes.

    >>> memory_of(1_000_000)
    80000000
    """
    return int(NODE_BYTES * records)


def lacks_memory(records: int, ram_bytes: int | None, what: str) -> str:
    """Returns a message if refreshing `records` nodes takes more memory than allowed, else an empty text.

    Args:
      ram_bytes: by default 80 % of the machine's memory. what: the operation, for the message.
    """
    limit, need = default_budget() if ram_bytes is None else ram_bytes, memory_of(records)
    if need <= limit:
        return ""
    return (
        f"{what} {records} nodes takes {need / 1e6:,.2f} MB of memory, more than the"
        f" {limit / 1e6:,.2f} MB allowed; allow more"
    )


class _Refresh:
    """One refresh of an open store."""

    def __init__(self, store: Store, tolerance: float, on_progress: OnProgress) -> None:
        self._started = time.monotonic()
        self._store, self._tolerance, self._on_progress = store, tolerance, on_progress
        self._total = store.node_count
        self._counts = np.zeros(sweep.COUNTS, np.int64)
        self._changes: list[float] = []
        self._table = np.zeros(sweep.PLACE_WORDS * (int(self._total / LOAD) + 16), np.uint64)

    def refresh(self, max_sweeps: int) -> RefreshReport:
        """Reads, sweeps and, if anything is stale, writes."""
        nodes = self._read()
        settled = self._total == 0
        while not settled and len(self._changes) < max_sweeps:
            self._changes.append(self._sweep(nodes))
            settled = self._changes[-1] < self._tolerance / 2
        if self._counts[sweep.STALE_EDGES]:
            rewrite(self._store, self._changed(nodes))
        stale, lost, missing, edges, records = self._counts.tolist()
        return RefreshReport(
            records=self._total,
            sweeps=len(self._changes),
            settled=settled,
            first_change=self._changes[0] if self._changes else 0.0,
            last_change=self._changes[-1] if self._changes else 0.0,
            stale=stale,
            lost=lost,
            missing=missing,
            changed_records=records,
            changed_edges=edges,
            seconds=time.monotonic() - self._started,
        )

    def _read(self) -> Nodes:
        """Enters all records into the table; returns those with edges, in the order of the file."""
        tables, found, done = owned(load_tables(), np.uint64), list[Nodes](), 0
        for batch in self._store.all_records():
            done += len(batch)
            if done > self._total:
                raise StoreError(
                    f"{self._store.path} holds more records than it counts ({self._total});"
                    " `graphsearch store verify` shows where"
                )
            nodes = _nodes_of(batch)
            sweep.enter(tables, self._table, columns_of(batch), nodes)
            found.append(_without_leaves(nodes))
            self._say(READING, done)
        nodes = _joined(found)
        sweep.link(self._table, nodes, self._counts)
        return nodes

    def _sweep(self, nodes: Nodes) -> float:
        """Sweeps once over all records; returns the largest change of a node Q."""
        self._counts[sweep.STALE_EDGES] = 0
        note = f" {len(self._changes) + 1}"
        if self._changes:
            note += f", largest change {self._changes[-1]:.5f}"
        largest, count = 0.0, len(nodes.v)
        for first in range(0, count, SLICE):
            last = min(first + SLICE, count)
            change = sweep.sweep(self._table, nodes, first, last, self._tolerance, self._counts)
            largest = max(largest, float(change))
            self._say(SWEEPING, last * self._total // count, note)
        return largest

    def _changed(self, nodes: Nodes) -> Iterator[RecordBatch]:
        """Yields the records that have other values now, in the order of the file."""
        changed = np.zeros(len(nodes.v), np.uint8)
        sweep.freshen(self._table, nodes, changed, self._counts)
        at = done = 0
        for batch in self._store.all_records():
            inner = np.nonzero(np.diff(batch.edge_offsets))[0]
            end, done = at + len(inner), done + len(batch)
            edges = slice(nodes.offsets[at], nodes.offsets[end])
            if not np.array_equal(nodes.n[edges], batch.n):
                raise StoreError(f"{self._store.path} was changed by another program; refresh it again")
            flags = batch.flags.copy()
            flags[inner] = nodes.flags[at:end]
            fresh = replace(batch, q=nodes.q[edges], edge_d=nodes.edge_d[edges], flags=flags)
            yield take(fresh, inner[changed[at:end] != 0])
            at = end
            self._say(WRITING, done)

    def _say(self, stage: str, done: int, note: str = "") -> None:
        self._on_progress(Progress(stage, done, self._total, note))


def _nodes_of(batch: RecordBatch) -> Nodes:
    """Returns records without positions and priors; places and children are not known yet."""
    edges = len(batch.n)
    return Nodes(
        place=np.empty(len(batch), np.int64),
        offsets=owned(batch.edge_offsets, np.int64),
        v=owned(batch.v, np.float32),
        d=owned(batch.d, np.uint16),
        flags=owned(batch.flags, np.uint8),
        moves=np.diff(batch.code_offsets).astype(np.uint8),
        clock=(batch.words[:, META] >> np.uint64(CLOCK_SHIFT)).astype(np.uint8),
        n=owned(batch.n, np.uint32),
        r=owned(batch.r, np.uint32),
        q=owned(batch.q, np.float32),
        edge_d=owned(batch.edge_d, np.uint16),
        child=np.zeros(edges, np.uint64),
        check=np.zeros(edges, np.uint32),
        resets=np.zeros(edges, np.uint8),
    )


OF_NODES = ("place", "v", "d", "flags", "moves", "clock")  # fields of `Nodes` with a value for each record


def _without_leaves(nodes: Nodes) -> Nodes:
    """Returns the records that have edges, in arrays of their own."""
    inner = np.diff(nodes.offsets) > 0
    kept = {
        name: array[inner] if name in OF_NODES else array.copy() for name, array in nodes._asdict().items()
    }
    return Nodes(**kept | {"offsets": np.append(nodes.offsets[:-1][inner], nodes.offsets[-1])})


def _joined(parts: list[Nodes]) -> Nodes:
    """Returns records of several batches in one, and empties the list."""
    none = _nodes_of(RecordBatch.empty(0, 0, 0))
    counts = np.concatenate([np.diff(part.offsets) for part in (none, *parts)])
    found = {}
    for name in Nodes._fields:
        found[name] = np.concatenate([getattr(part, name) for part in (none, *parts)])
        parts[:] = [part._replace(**{name: getattr(none, name)}) for part in parts]  # frees the memory
    return Nodes(**found | {"offsets": np.append(np.int64(0), np.cumsum(counts))})
