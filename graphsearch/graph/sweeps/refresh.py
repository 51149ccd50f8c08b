"""Refreshes a file: every edge gets the present value of its child.

An edge's q is its child's value at the edge's last visit; it becomes stale when visits through other parents
change the child. The file is read once: a table of every node's value (`sweep_kernel.py`) and the records
that have edges stay in memory, and are swept until they settle. Then the changed records are written. Cycles
settle too, because a node's V keeps its weight.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ...base.answer import Answer
from ...base.errors import CapacityError, InvalidParameterError, StoreError
from ...position.board import board_of
from ...store.apart import ApartMoves
from ...store.provenance import UNSETTLED
from ...store.record import RecordBatch, board_tables, take
from ...store.rewrite import OnProgress, Progress, append_versions, tidy
from ...store.store import Store
from ...store.tables import games, history
from ...store.tables.top import Row
from ..arena import default_budget
from ..saving import root_values, top_rows
from . import sweep_kernel as sweep
from .sweep_kernel import Links

TOLERANCE = 1e-3  # of Q: 0.14 centipawns near 0
MAX_SWEEPS = 100
KIND = "refresh"  # kind of the row in the table `run`, although no evaluator is called
READING, SWEEPING, WRITING = "reading", "sweeping", "writing"  # stages


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
      ram_bytes: most memory, 100 bytes a node; default: 80 % of the machine's memory.
      on_progress: called after every batch of records.

    Raises:
      InvalidParameterError: if the tolerance is out of range.
      CapacityError: if the table does not fit into `ram_bytes`.
      UnfinishedError: if a reevaluation of the file is unfinished; it ends with a refresh.
      StoreLockedError: if another process is writing the file.
      CorruptRecordError: if a block is damaged; then nothing is written.
      StoreError: if the file cannot be read or written.
    """
    if not 0 < tolerance <= 1:
        raise InvalidParameterError(f"the tolerance must be above 0, at most 1, not {tolerance}")
    with Store.open(path) as store:
        report = settle(store, tolerance, ram_bytes=ram_bytes, on_progress=on_progress)
        with store.transaction():  # in any case: after a kill the tables may be older than the records
            store.records_changed(None)
            write_root_tables(store)
            if report.stale:
                note_roots(store, _note_run(store, tolerance))
            store.write_fact(UNSETTLED, None)
        if report.stale:
            tidy(store)
        return report


def _note_run(store: Store, tolerance: float) -> int:
    """Inserts the run of a refresh; returns its number."""
    run = store.begin_run("", {}, {"tolerance": tolerance}, kind=KIND)
    store.update_run(run, 0, 0, finished=True)
    return run


def refresh_if_due(store: Store, most: int) -> None:
    """Refreshes a file of at most so many nodes in which a merge or a search of some moves left stale q."""
    due = store.read_fact(UNSETTLED) is not None and store.unfinished is None
    if due and store.node_count <= most and not lacks_memory(store.node_count, None, ""):
        report = settle(store)
        with store.transaction():  # without a look at all roots: games have one for every move
            if report.stale:
                _note_run(store, TOLERANCE)
            store.write_fact(UNSETTLED, None)


def write_root_tables(store: Store) -> list[Row]:
    """Writes the most visited positions below each root to the plain tables; returns the roots' rows."""
    found = []
    for root in store.roots():
        shown = top_rows(store, board_of(root.position))
        store.write_top(shown)
        found += [one.position for one in shown if one.position["key"] == root.key]
    return found


def note_roots(store: Store, run: int) -> None:
    """Inserts the present values of all roots into the history, those of books too; in a transaction."""
    read = ApartMoves.of(store).read
    for fen in games.known_roots(store):
        board = board_of(fen)
        if values := root_values(read, board):
            history.write(store, run, values)


LOAD = 0.8  # of the table
KEPT_BYTES = 80  # of the records that have edges, and of these, for each node of a file
NODE_BYTES = 8 * sweep.PLACE_WORDS / LOAD + KEPT_BYTES


def lacks_memory(records: int, ram_bytes: int | None, what: str) -> str:
    """Returns a message if refreshing so many nodes takes more memory than allowed, else an empty text.

    `ram_bytes`: by default 80 % of the machine's memory. `what`: the operation, for the message.
    """
    limit, need = default_budget() if ram_bytes is None else ram_bytes, int(NODE_BYTES * records)
    if need <= limit:
        return ""
    return (
        f"{what} {records} nodes takes {need / 1e6:,.2f} MB of memory, more than the"
        f" {limit / 1e6:,.2f} MB allowed; allow more"
    )


def settle(
    store: Store,
    tolerance: float = TOLERANCE,
    *,
    ram_bytes: int | None = None,
    on_progress: OnProgress | None = None,
) -> RefreshReport:
    """Brings every q in the records of an open store up to date, as `refresh` does, but no plain tables."""
    if lack := lacks_memory(store.node_count, ram_bytes, "refreshing"):
        raise CapacityError(lack)
    started, total = time.monotonic(), store.node_count
    counts, changes = np.zeros(sweep.COUNTS, np.int64), list[float]()
    places = int(total / LOAD) + 16
    table = sweep.Table(words=np.zeros(sweep.PLACE_WORDS * places, np.uint64), places=places)

    def say(stage: str, done: int, note: str = "") -> None:
        if on_progress:
            on_progress(Progress(stage, done, total, note))

    unchanged = np.zeros(0, np.uint8)
    parts = _read(store, table, lambda done: say(READING, done))
    for batch, links in parts:
        sweep.link(table, batch, links, counts)
    while total and len(changes) < MAX_SWEEPS and (not changes or changes[-1] >= tolerance / 2):
        counts[sweep.STALE_EDGES], largest = 0, 0.0
        note = f" {len(changes) + 1}" + (f", largest change {changes[-1]:.5f}" if changes else "")
        for done, (batch, links) in enumerate(parts, 1):
            largest = max(largest, float(sweep.sweep(table, batch, links, tolerance, counts, unchanged)))
            say(SWEEPING, done * total // len(parts), note)
        changes.append(largest)

    def changed() -> Iterator[RecordBatch]:
        """Yields the records that have other values now, in the order of the file."""
        for done, (batch, links) in enumerate(parts, 1):
            is_changed = np.zeros(len(batch), np.uint8)
            sweep.sweep(table, batch, links, 0.0, counts, is_changed)
            yield take(batch, np.nonzero(is_changed)[0])
            say(WRITING, done * total // len(parts))

    if counts[sweep.STALE_EDGES]:
        append_versions(store, changed())
    first, last = (changes[0], changes[-1]) if changes else (0.0, 0.0)
    stale, lost, missing, records, edges = counts.tolist()
    settled, seconds = not total or last < tolerance / 2, time.monotonic() - started
    return RefreshReport(
        total, len(changes), settled, first, last, stale, lost, missing, records, edges, seconds
    )


def _read(store: Store, table: sweep.Table, say: Callable[[int], object]) -> list[tuple[RecordBatch, Links]]:
    """Enters all records into the table; returns those with edges, in the order of the file."""
    done, total, parts = 0, store.node_count, list[tuple[RecordBatch, Links]]()
    for batch in store.all_records():
        done += len(batch)
        if done > total:
            raise StoreError(
                f"{store.path} holds more records than it counts ({total});"
                " `graphsearch store verify` shows where"
            )
        edges = len(batch.n)
        links = Links(
            place=np.empty(len(batch), np.int64),
            child=np.zeros(edges, np.uint64),
            check=np.zeros(edges, np.uint32),
            resets=np.zeros(edges, np.uint8),
        )
        sweep.enter(board_tables(), table, batch, links)
        inner = np.nonzero(np.diff(batch.edge_offsets))[0]
        parts.append((take(batch, inner).copied(), links.replace(place=links.place[inner])))
        say(done)
    return parts
