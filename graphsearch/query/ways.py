"""Counts the visited edges into every position of a file, on all cores.

Records and edges are listed in temporary files, in as many parts as memory requires
(`graph/sweeps/parts.py`); then each part is counted in a table of 20 bytes a node.
"""

from __future__ import annotations

import os

import numpy as np

from ..base.errors import check_least
from ..graph.memory import default_budget
from ..graph.sweeps.parts import Listed, PartedGraph, U64s, listed, parts_for, table_bytes
from ..graph.sweeps.parts_kernel import ANY_VISITS, ENTRY_WORDS
from ..position.fens import fens
from ..store.codec.bulk import sort_keys
from ..store.record.node import RecordBatch
from ..store.record.ranking import node_mean
from ..store.scanning import Portion, portions
from ..store.sharded.files import open_to_read
from ..store.store import Store
from . import ways_kernel
from .diff import OnProgress
from .transpositions import Transposition, Transpositions

SLICE = 1 << 20  # places of a table that are ranked at once, so that memory hardly grows


def count_all(
    path: str | os.PathLike[str],
    *,
    top: int = 20,
    ram_bytes: int | None = None,
    on_progress: OnProgress | None = None,
) -> Transpositions:
    """Returns the positions with the most visited edges into them; counts all edges of the file.

    Exact if nobody writes the file meanwhile. Takes some 40 bytes a node in temporary files (TMPDIR).

    Args:
      path: the graph file; it is only read.
      top: most positions returned, of those with at least two edges.
      ram_bytes: most bytes of a table, 20 a node; if all nodes do not fit, they are counted part by part;
        default: 80 % of the machine's memory.
      on_progress: called with the records read and all records; every record is read twice.

    Raises:
      InvalidParameterError: if `top` is below 1.
      CapacityError: if `ram_bytes` is too small for any number of parts.
      CorruptRecordError: if a block is damaged.
      StoreError: if the file cannot be read.
    """
    check_least(1, top=top)
    with open_to_read(path) as store:
        allowed = default_budget() if ram_bytes is None else ram_bytes
        parts = parts_for(store.node_count, allowed, "counting the ways into")
        with PartedGraph(parts) as graph:
            return _Counting(store, graph, top, on_progress or (lambda done, total: None)).answer()


class _Counting:
    def __init__(self, store: Store, graph: PartedGraph, top: int, on_progress: OnProgress) -> None:
        self._store = store
        self._graph = graph
        self._top = top
        self._on_progress = on_progress
        self._portions: list[tuple[Store, int]] = []  # the file of each, and its first record
        self._listed = self._entered = self._shared = 0
        self._rows: list[Transposition] = []

    def answer(self) -> Transpositions:
        self._list()
        for part in range(self._graph.parts):
            self._count(part)
        edges = int(self._graph.edge_bounds[-1][-1]) if self._graph.edge_bounds else 0
        return Transpositions(
            roots=(),
            looked_at=self._entered,
            total=self._entered,
            edges=edges,
            shared=self._shared,
            positions=tuple(self._rows),
        )

    def _list(self) -> None:
        def solve(portion: Portion) -> tuple[int, int, Listed]:
            batch = portion.records()
            return portion.start, len(batch), listed(batch, ANY_VISITS, self._graph.parts)

        for part in self._store.parts:
            for start, size, found in portions(part, solve):
                self._portions.append((part, start))
                second = found.records[1::ENTRY_WORDS]  # the number of the portion replaces the visits
                portion = np.uint64(len(self._portions))
                found.records[1::ENTRY_WORDS] = second & np.uint64(0xFFFFFFFF << 32) | portion
                self._graph.add(found)
                self._listed += size
                self._say(self._listed)

    def _count(self, part: int) -> None:
        """Counts one part, and keeps the best rows of all parts so far."""
        table = np.zeros(table_bytes(self._graph.records_of(part)) // 8, np.uint64)
        for entries in self._graph.records.chunks(part):
            self._entered += int(ways_kernel.enter(table, entries))
            self._say(self._listed + self._entered)
        for edges in self._graph.edges.chunks(part):
            ways_kernel.count_ways(table, edges)
            self._say(self._listed + self._entered)
        halves = table.view(np.uint32)
        into, numbers = halves[2::4], halves[3::4]
        best = np.zeros(0, np.int64)
        for first in range(0, len(into), SLICE):
            shared = first + np.nonzero(into[first : first + SLICE] > 1)[0]
            self._shared += len(shared)
            best = np.concatenate([best, shared])
            best = best[np.argsort(-into[best].astype(np.int64), kind="stable")[: self._top]]
        if len(self._rows) == self._top:
            best = best[into[best] > self._rows[-1].ways]
        rows = self._read(table, {int(p): int(into[p]) for p in best}, sorted(set(numbers[best].tolist())))
        ranked = sorted([*self._rows, *rows], key=lambda row: (-row.ways, -(row.visits or 0), row.position))
        self._rows = ranked[: self._top]

    def _say(self, done: int) -> None:
        self._on_progress(done, max(done, 2 * self._store.node_count))

    def _read(self, table: U64s, wanted: dict[int, int], numbers: list[int]) -> list[Transposition]:
        """Reads the positions at some places of the table again, from their portions."""
        found: dict[int, Transposition] = {}
        for number in numbers:
            store, start = self._portions[number - 1]
            behind = self._portions[number:][:1]
            end = behind[0][1] if behind and behind[0][0] is store else None  # None: the last of its file
            following: int | None = start
            while following is not None:
                batch, following = store.portion(following)
                self._take(table, batch, wanted, found)
                if end is None or not len(batch) or int(sort_keys(batch.words[-1:])[0]) >= end - 1:
                    break
                if set(wanted) <= set(found):
                    break
        return list(found.values())

    def _take(
        self, table: U64s, batch: RecordBatch, wanted: dict[int, int], found: dict[int, Transposition]
    ) -> None:
        entries = listed(batch, ANY_VISITS, 1).records  # of one part: in file order
        places = np.empty(len(batch), np.int64)  # in the table of a part, -1 for records of other parts
        ways_kernel.places_of(table, entries, places)
        for i in np.nonzero(np.isin(places, list(wanted)))[0].tolist():
            record = batch.record(i)
            found[int(places[i])] = Transposition(
                position=fens(batch.words[i : i + 1])[0],
                ways=wanted[int(places[i])],
                n=None,
                visits=record.visits,
                q=node_mean(record)[0],
                root=None,
                line=None,
            )
