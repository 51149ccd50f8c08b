"""Refreshes a file whose table does not fit in memory: the values of all children, part by part.

Each sweep uses the children's values of the sweep before, so a change rises one move per sweep; the result is
the same as with the table in memory (`refresh.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...store.codec.bulk import columns_of
from ...store.portions import portions
from ...store.record.node import RecordBatch
from ...store.scanning import Portion
from ...store.store import Store
from . import parts_kernel
from .parts import Bytes, Listed, PartedGraph, U64s, by_part, listed, table_bytes
from .sweep_kernel import COUNTS, new_scratch

OnDone = Callable[[int], None]


class PartedSweeps:
    """The sweeps of one refresh over a file that nobody else writes."""

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
        """Lists the graph, and finds the children of all edges; `on_done` is called with records listed."""
        done = 0
        for place, size, found in portions(self._store, self._listed):
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
        return _place(portion), len(batch), listed(batch, parts_kernel.VALUED, self._graph.parts)

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
        """Writes every edge's present child value; calls `tick` now and then."""
        special = np.array([parts_kernel.LOST, parts_kernel.UNKNOWN], np.uint64)
        for part in range(self._graph.parts):
            worths = np.concatenate([self._worths.part(part), special])
            for number, places in enumerate(self._places.chunks(part)):
                self._answers.put_chunk(number, part, worths[places])
                tick()

    def sweep(self, tolerance: float, counts: NDArray[np.int64], on_done: OnDone) -> float:
        """Returns the largest change of a node Q in a sweep over all records; `counts` as in `sweep`."""
        self._gather(lambda: on_done(1))

        def solve(portion: Portion) -> tuple[float, NDArray[np.int64], int]:
            batch = portion.records()
            own = np.zeros(COUNTS, np.int64)
            return self._swept(self._numbers[_place(portion)], batch, tolerance, own), own, len(batch)

        largest, done = 0.0, 0
        for change, own, size in portions(self._store, solve):
            largest = max(largest, change)
            counts += own
            done += size
            on_done(done)
        return largest

    def _swept(self, number: int, batch: RecordBatch, tolerance: float, counts: NDArray[np.int64]) -> float:
        order = by_part(self._record_parts.batch(number))
        worths = np.empty(len(batch), np.uint64)
        worths[order] = self._worths.batch(number)
        answers, resets, misfits = self._of(number)
        change = parts_kernel.sweep_answers(
            columns_of(batch), misfits, answers, resets, worths, new_scratch(), tolerance, counts
        )
        self._worths.put_batch(number, worths[order])
        return float(change)

    def _of(self, number: int) -> tuple[U64s, Bytes, Bytes]:
        """Returns the answers for the edges of a batch, and its other lists, in file order."""
        sorted_answers = self._answers.batch(number)
        answers = np.empty_like(sorted_answers)
        answers[by_part(self._edge_parts.batch(number))] = sorted_answers
        return answers, self._resets.batch(number).copy(), self._misfits.batch(number).copy()

    def freshener(self, counts: NDArray[np.int64], on_done: OnDone) -> Callable[[RecordBatch], RecordBatch]:
        """Returns a function that gives records, all of them in file order, the values of their children."""
        self._gather(lambda: on_done(1))
        rest = _Rest(self._of(number) for number in range(len(self._graph.record_bounds)))

        def fresh(batch: RecordBatch) -> RecordBatch:
            new = replace(batch, q=batch.q.copy(), edge_d=batch.edge_d.copy(), flags=batch.flags.copy())
            answers, resets, misfits = rest.take(batch)
            parts_kernel.freshen_answers(columns_of(new), misfits, answers, resets, new_scratch(), counts)
            return new

        return fresh


def _place(portion: Portion) -> tuple[str, int]:
    """Returns the file of a portion, and its first key."""
    return portion.name, portion.start


class _Rest:
    """Lists that are read in pieces of any size."""

    def __init__(self, batches: Iterator[tuple[U64s, Bytes, Bytes]]) -> None:
        self._batches = batches
        self._lists: list[NDArray[Any]] = [np.zeros(0, kind) for kind in (np.uint64, np.uint8, np.uint8)]

    def take(self, batch: RecordBatch) -> tuple[U64s, Bytes, Bytes]:
        """Returns the pieces of the next records."""
        while len(self._lists[2]) < len(batch):
            more: tuple[NDArray[Any], ...] = next(self._batches)
            self._lists = [np.concatenate(pair) for pair in zip(self._lists, more, strict=True)]
        fits = np.repeat(self._lists[2][: len(batch)] == 0, np.diff(batch.edge_offsets))
        edges = int(((batch.n > batch.r) & fits).sum())
        counts = edges, edges, len(batch)
        answers, resets, misfits = (part[:n].copy() for part, n in zip(self._lists, counts, strict=True))
        self._lists = [part[n:] for part, n in zip(self._lists, counts, strict=True)]
        return answers, resets, misfits
