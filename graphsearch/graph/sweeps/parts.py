"""The graph of a file on disk, in parts by key, for tables that do not fit in memory.

    file order   batch 0 | batch 1 | ...          as a scan yields the records
    a grid       0: part 0, 1, .. | 1: part 0, 1, .. | ...          the same items, each batch sorted by part

A record belongs to the part of its key, an edge to that of its child. So everything about one part fits in
memory, and its children are found there; results are written into a grid of the same shape, and read again
batch by batch. All reads and writes are sequential.

`PartedSweeps` refreshes such a file. Each sweep uses the children's values of the sweep before, so a change
rises one move per sweep; the result is the same as with the table in memory (`refresh.py`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import CapacityError
from ...store.codec.bulk import board_tables, columns_of
from ...store.record.node import RecordBatch
from ...store.scanning import Portion
from ...store.store import Store
from . import parts_kernel
from .parts_kernel import ENTRY_WORDS, list_graph
from .sweep_kernel import COUNTS, PLACE_WORDS, new_scratch

LOAD = 0.8  # of a table; a node takes 8 * PLACE_WORDS / 0.8 = 20 bytes
MOST_PARTS = 128  # a part number is a byte; with more parts, single reads would be small
PART_BYTES = 64  # memory for the lists of each part

U64s = NDArray[np.uint64]
Bytes = NDArray[np.uint8]


def table_bytes(records: int) -> int:
    """Returns the bytes of a table for `records` nodes.

    >>> table_bytes(1_000_000)
    20000256
    """
    return 8 * PLACE_WORDS * (int(records / LOAD) + 16)


def least_bytes(records: int) -> int:
    """Returns the least memory for sweeping a graph of `records` nodes in parts."""
    return table_bytes(_largest_part(records, MOST_PARTS)) + PART_BYTES * MOST_PARTS


def _largest_part(records: int, parts: int) -> int:
    """Returns the most records of one part: its share and a statistical margin.

    >>> _largest_part(1000, 1), _largest_part(1_000_000, 10)
    (1000, 101913)
    """
    share = records / parts
    return records if parts == 1 else int(share + 6 * (share**0.5) + 16)


def parts_for(records: int, ram_bytes: int, what: str) -> int:
    """Returns the number of parts for the graph of a file: 1 if its table fits.

    Raises:
      CapacityError: if the memory is too small for any number of parts; its message names the operation,
        `what`.
    """
    for parts in range(1, MOST_PARTS + 1):
        if table_bytes(_largest_part(records, parts)) <= ram_bytes:
            break
    if ram_bytes < (table_bytes(records) if parts == 1 else least_bytes(records)):
        raise CapacityError(
            f"{what} {records} nodes takes at least {least_bytes(records) / 1e6:,.2f} MB of memory,"
            f" more than the {ram_bytes / 1e6:,.2f} MB allowed; allow more"
        )
    return parts


class Grid:
    """Items of one kind in a file: batches one after the other, each sorted by part."""

    def __init__(self, path: Path, dtype: Any, bounds: list[NDArray[np.int64]], width: int = 1) -> None:
        """Creates an empty grid.

        Args:
          bounds: for each batch, the ends of its parts; grids of one shape share it.
          width: numbers per item.
        """
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self._dtype = np.dtype(dtype)
        self._width = width
        self.bounds = bounds

    def close(self) -> None:
        """Closes the file."""
        os.close(self._handle)

    def clear(self) -> None:
        """Frees the space of all items, which must not be read any more."""
        os.ftruncate(self._handle, 0)

    def batch(self, number: int) -> NDArray[Any]:
        """Returns the items of a batch, flat."""
        return self._read(self.bounds[number][0], self.bounds[number][-1])

    def put_batch(self, number: int, items: NDArray[Any]) -> None:
        """Writes the items of a batch, flat; on any thread."""
        self._write(self.bounds[number][0], items)

    def chunk(self, number: int, part: int) -> NDArray[Any]:
        """Returns the items of one part in a batch, flat."""
        return self._read(self.bounds[number][part], self.bounds[number][part + 1])

    def put_chunk(self, number: int, part: int, items: NDArray[Any]) -> None:
        """Writes the items of one part in a batch, flat."""
        self._write(self.bounds[number][part], items)

    def chunks(self, part: int) -> Iterator[NDArray[Any]]:
        """Yields the items of one part, batch by batch."""
        return (self.chunk(number, part) for number in range(len(self.bounds)))

    def part(self, part: int) -> NDArray[Any]:
        """Returns all items of one part."""
        return np.concatenate([*self.chunks(part), np.zeros(0, self._dtype)])

    def _read(self, begin: int, end: int) -> NDArray[Any]:
        size = self._dtype.itemsize * self._width
        data, at = bytearray(size * int(end - begin)), 0
        while at < len(data):
            count = os.preadv(self._handle, [memoryview(data)[at:]], size * int(begin) + at)
            if not count:
                raise OSError("a temporary file is shorter than the data written to it")
            at += count
        return np.frombuffer(data, self._dtype)

    def _write(self, begin: int, items: NDArray[Any]) -> None:
        view, at = np.ascontiguousarray(items).view(np.uint8).data, 0
        offset = self._dtype.itemsize * self._width * int(begin)
        while at < len(view):
            at += os.pwrite(self._handle, view[at:], offset + at)


@dataclass(frozen=True, slots=True)
class Listed:
    """A batch as lists, sorted by part.

    Attributes:
      records, edges: `[2 K]` entries. record_parts, edge_parts: `[K]` part of each, in file order.
      worths: worths of the records, sorted by part. misfits, resets: in file order.
    """

    records: U64s
    edges: U64s
    record_parts: Bytes
    edge_parts: Bytes
    worths: U64s
    misfits: Bytes
    resets: Bytes


def listed(batch: RecordBatch, parts: int) -> Listed:
    """Returns the lists of a batch; on any thread."""
    size, room = len(batch), len(batch.n)
    records, edges = np.empty(ENTRY_WORDS * size, np.uint64), np.empty(ENTRY_WORDS * room, np.uint64)
    worths, misfits, resets = np.empty(size, np.uint64), np.empty(size, np.uint8), np.empty(room, np.uint8)
    columns, tables = columns_of(batch), board_tables()
    count = int(list_graph(tables, columns, new_scratch(), records, worths, misfits, edges, resets))
    edges, resets = edges[: ENTRY_WORDS * count], resets[:count]
    of_records, of_edges = (  # by the upper half of the key, which begins each entry
        ((entries[::ENTRY_WORDS] >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)).astype(np.int64)
        for entries in (records, edges)
    )
    return Listed(
        _sorted(records, of_records),
        _sorted(edges, of_edges),
        of_records.astype(np.uint8),
        of_edges.astype(np.uint8),
        worths[by_part(of_records)],
        misfits,
        resets,
    )


def by_part(parts: NDArray[Any]) -> NDArray[np.int64]:
    """Returns the permutation that sorts items by part."""
    return np.argsort(parts, kind="stable")


def _sorted(entries: U64s, parts: NDArray[np.int64]) -> U64s:
    return entries.reshape(-1, ENTRY_WORDS)[by_part(parts)].reshape(-1)


class PartedGraph:
    """The lists of a file in a temporary folder (TMPDIR): some 50 bytes a node at the peak."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self._folder = tempfile.TemporaryDirectory(prefix="graphsearch-")
        self.record_bounds: list[NDArray[np.int64]] = []
        self.edge_bounds: list[NDArray[np.int64]] = []
        self._grids: list[Grid] = []
        self.records = self.grid("records", np.uint64, self.record_bounds, ENTRY_WORDS)
        self.edges = self.grid("edges", np.uint64, self.edge_bounds, ENTRY_WORDS)

    def grid(self, name: str, dtype: Any, bounds: list[NDArray[np.int64]], width: int = 1) -> Grid:
        """Returns a new grid in the folder."""
        grid = Grid(Path(self._folder.name) / name, dtype, bounds, width)
        self._grids.append(grid)
        return grid

    def close(self) -> None:
        """Removes the folder."""
        for grid in self._grids:
            grid.close()
        self._folder.cleanup()

    def __enter__(self) -> PartedGraph:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, found: Listed) -> int:
        """Writes the entries of the next batch; returns its number."""
        number = len(self.record_bounds)
        for bounds, parts in ((self.record_bounds, found.record_parts), (self.edge_bounds, found.edge_parts)):
            counts = np.bincount(parts, minlength=self.parts)
            first = int(bounds[-1][-1]) if bounds else 0
            bounds.append(first + np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]))
        self.records.put_batch(number, found.records)
        self.edges.put_batch(number, found.edges)
        return number

    def records_of(self, part: int) -> int:
        """Returns the number of records in a part."""
        return sum(int(bounds[part + 1] - bounds[part]) for bounds in self.record_bounds)


OnDone = Callable[[int], None]


class PartedSweeps:
    """The sweeps of one refresh, over a file locked against other writers."""

    def __init__(self, store: Store, parts: int) -> None:
        self._store = store
        self._graph = graph = PartedGraph(parts)
        self._worths = graph.grid("worths", np.uint64, graph.record_bounds)
        self._places = graph.grid("places", np.uint32, graph.edge_bounds)
        self._answers = graph.grid("answers", np.uint64, graph.edge_bounds)
        self._record_parts = graph.grid("record parts", np.uint8, graph.record_bounds)
        self._misfits = graph.grid("misfits", np.uint8, graph.record_bounds)
        self._edge_parts = graph.grid("edge parts", np.uint8, graph.edge_bounds)
        self._resets = graph.grid("resets", np.uint8, graph.edge_bounds)
        self._numbers: dict[tuple[str, int], int] = {}  # of batches, by file and first key

    def close(self) -> None:
        """Removes the temporary files."""
        self._graph.close()

    def read(self, on_done: OnDone) -> None:
        """Lists the graph, and finds the children of all edges; calls `on_done` with the records listed."""
        done = 0
        for place, size, found in self._store.portions(self._listed):
            number = self._numbers[place] = self._graph.add(found)
            self._worths.put_batch(number, found.worths)
            self._record_parts.put_batch(number, found.record_parts)
            self._misfits.put_batch(number, found.misfits)
            self._edge_parts.put_batch(number, found.edge_parts)
            self._resets.put_batch(number, found.resets)
            done += size
            on_done(done)
        self._find_children(lambda: on_done(done))

    def _listed(self, portion: Portion) -> tuple[tuple[str, int], int, Listed]:
        batch = portion.records()
        return (portion.name, portion.start), len(batch), listed(batch, self._graph.parts)

    def _find_children(self, tick: Callable[[], None]) -> None:
        for part in range(self._graph.parts):
            table = np.zeros(table_bytes(self._graph.records_of(part)) // 8, np.uint64)
            count = 0
            for entries in self._graph.records.chunks(part):
                parts_kernel.enter_part(table, entries, count)
                count += len(entries) // parts_kernel.ENTRY_WORDS
                tick()
            for number, edges in enumerate(self._graph.edges.chunks(part)):
                places = np.empty(len(edges) // parts_kernel.ENTRY_WORDS, np.uint32)
                parts_kernel.find_children(table, edges, places, count)
                self._places.put_chunk(number, part, places)
                tick()
        self._graph.records.clear()
        self._graph.edges.clear()

    def _gather(self, tick: Callable[[], None]) -> None:
        """Writes the present value of every edge's child; calls `tick` at intervals."""
        special = np.array([parts_kernel.LOST, parts_kernel.UNKNOWN], np.uint64)
        for part in range(self._graph.parts):
            worths = np.concatenate([self._worths.part(part), special])
            for number, places in enumerate(self._places.chunks(part)):
                self._answers.put_chunk(number, part, worths[places])
                tick()

    def sweep(self, tolerance: float, counts: NDArray[np.int64], on_done: OnDone) -> float:
        """Sweeps once over all records; returns the largest change of a node Q; `counts` as in `sweep`."""
        self._gather(lambda: on_done(1))

        def solve(portion: Portion) -> tuple[float, NDArray[np.int64], int]:
            batch = portion.records()
            own = np.zeros(COUNTS, np.int64)
            number = self._numbers[portion.name, portion.start]
            return self._swept(number, batch, tolerance, own), own, len(batch)

        largest, done = 0.0, 0
        for change, own, size in self._store.portions(solve):
            largest = max(largest, change)
            counts += own
            done += size
            on_done(done)
        return largest

    def _swept(self, number: int, batch: RecordBatch, tolerance: float, counts: NDArray[np.int64]) -> float:
        order = by_part(self._record_parts.batch(number))
        worths = np.empty(len(batch), np.uint64)
        worths[order] = self._worths.batch(number)
        answers, resets, misfits = self._lists(number)
        change = parts_kernel.sweep_answers(
            columns_of(batch), misfits, answers, resets, worths, new_scratch(), tolerance, counts
        )
        self._worths.put_batch(number, worths[order])
        return float(change)

    def _lists(self, number: int) -> tuple[U64s, Bytes, Bytes]:
        """Returns the answers for the edges of a batch, and its other lists, in file order."""
        sorted_answers = self._answers.batch(number)
        answers = np.empty_like(sorted_answers)
        answers[by_part(self._edge_parts.batch(number))] = sorted_answers
        return answers, self._resets.batch(number).copy(), self._misfits.batch(number).copy()

    def freshener(self, counts: NDArray[np.int64], on_done: OnDone) -> Callable[[RecordBatch], RecordBatch]:
        """Returns a function that writes the children's values to records; call it in file order for all."""
        self._gather(lambda: on_done(1))
        lists = _ListReader(self._lists(number) for number in range(len(self._graph.record_bounds)))

        def fresh(batch: RecordBatch) -> RecordBatch:
            new = replace(batch, q=batch.q.copy(), edge_d=batch.edge_d.copy(), flags=batch.flags.copy())
            answers, resets, misfits = lists.read(batch)
            parts_kernel.freshen_answers(columns_of(new), misfits, answers, resets, new_scratch(), counts)
            return new

        return fresh


class _ListReader:
    """A reader of lists in pieces of any size."""

    def __init__(self, batches: Iterator[tuple[U64s, Bytes, Bytes]]) -> None:
        self._batches = batches
        self._lists: list[NDArray[Any]] = [np.zeros(0, kind) for kind in (np.uint64, np.uint8, np.uint8)]

    def read(self, batch: RecordBatch) -> tuple[U64s, Bytes, Bytes]:
        """Returns the answers, resets and misfits of the next records, those of `batch`."""
        while len(self._lists[2]) < len(batch):
            more: tuple[NDArray[Any], ...] = next(self._batches)
            self._lists = [np.concatenate(pair) for pair in zip(self._lists, more, strict=True)]
        fits = np.repeat(self._lists[2][: len(batch)] == 0, np.diff(batch.edge_offsets))
        edges = int(((batch.n > batch.r) & fits).sum())
        counts = edges, edges, len(batch)
        answers, resets, misfits = (part[:n].copy() for part, n in zip(self._lists, counts, strict=True))
        self._lists = [part[n:] for part, n in zip(self._lists, counts, strict=True)]
        return answers, resets, misfits
