"""The graph of a file on disk, in parts by key, for tables that do not fit in memory.

    file order   batch 0 | batch 1 | ...          as a scan yields the records
    a grid       0: part 0, 1, .. | 1: part 0, 1, .. | ...          the same items, each batch sorted by part

A record belongs to the part of its key, an edge to that of its child. So everything about one part fits in
memory, and its children are found there; results are written into a grid of the same shape, and read again
batch by batch. All reads and writes are sequential.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CapacityError
from ...store.codec.bulk import board_tables, columns_of
from ...store.record.node import RecordBatch
from .parts_kernel import ENTRY_WORDS, list_graph
from .sweep_kernel import PLACE_WORDS, new_scratch

LOAD = 0.8  # of a table; a node takes 8 * PLACE_WORDS / 0.8 = 20 bytes
MOST_PARTS = 128  # a number of a part is a byte; with more parts, single reads would be small
PART_BYTES = 64  # of the lists of each part

U64s = NDArray[np.uint64]
Bytes = NDArray[np.uint8]


def table_bytes(records: int) -> int:
    """Returns the bytes of a table of so many nodes.

    >>> table_bytes(1_000_000)
    20000256
    """
    return 8 * PLACE_WORDS * (int(records / LOAD) + 16)


def least_bytes(records: int) -> int:
    """Returns the least memory for going through the graph of so many nodes in parts."""
    return table_bytes(_largest_part(records, MOST_PARTS)) + PART_BYTES * MOST_PARTS


def _largest_part(records: int, parts: int) -> int:
    """Returns the largest number of records that one part may get: its share, and a margin for chance.

    >>> _largest_part(1000, 1), _largest_part(1_000_000, 10)
    (1000, 101913)
    """
    share = records / parts
    return records if parts == 1 else int(share + 6 * (share**0.5) + 16)


def parts_for(records: int, ram_bytes: int, what: str) -> int:
    """Returns the number of parts for the graph of a file: 1 if its table fits.

    Raises:
      CapacityError: if the memory is too small for any number; its message names the operation, `what`.
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


def part_of(keys: U64s, parts: int) -> NDArray[np.int64]:
    """Returns the part of each key."""
    high = (keys >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32)
    return high.astype(np.int64)


class Grid:
    """Items of one kind in a file: batches one after the other, each sorted by part."""

    def __init__(self, path: Path, dtype: Any, bounds: list[NDArray[np.int64]], width: int = 1) -> None:
        """Creates an empty grid; grids of one shape share their `bounds`: for each batch, the ends of its
        parts.

        Args:
          width: numbers of an item.
        """
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        self._dtype = np.dtype(dtype)
        self._width = width
        self.bounds = bounds

    def close(self) -> None:
        """Closes the file."""
        os.close(self._handle)

    def clear(self) -> None:
        """Frees the space of all items; none is read any more."""
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
                raise OSError("a temporary file is shorter than what was written to it")
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
      records, edges: `[2 K]` entries. record_parts, edge_parts: `[K]` of each, in file order.
      worths: of the records, sorted likewise. misfits, resets: in file order.
    """

    records: U64s
    edges: U64s
    record_parts: Bytes
    edge_parts: Bytes
    worths: U64s
    misfits: Bytes
    resets: Bytes


def listed(batch: RecordBatch, which: int, parts: int) -> Listed:
    """Returns the lists of a batch; on any thread."""
    size, room = len(batch), len(batch.n)
    records, edges = np.empty(ENTRY_WORDS * size, np.uint64), np.empty(ENTRY_WORDS * room, np.uint64)
    worths, misfits, resets = np.empty(size, np.uint64), np.empty(size, np.uint8), np.empty(room, np.uint8)
    columns, tables = columns_of(batch), board_tables()
    count = int(list_graph(tables, columns, new_scratch(), which, records, worths, misfits, edges, resets))
    edges, resets = edges[: ENTRY_WORDS * count], resets[:count]
    of_records, of_edges = (part_of(entries[::ENTRY_WORDS], parts) for entries in (records, edges))
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
    """The lists of a file in a temporary folder (TMPDIR): some 50 bytes a node for a while."""

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
        """Removes everything."""
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
        """Returns how many records a part has."""
        return sum(int(bounds[part + 1] - bounds[part]) for bounds in self.record_bounds)
