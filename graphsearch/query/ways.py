"""The positions with the most ways in, of all that a file holds: two passes over it with the kernels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np

from ..errors import CapacityError, StoreError
from ..graph.memory import default_budget
from ..graph.ranking import node_mean
from ..position.fens import fens
from ..record.node import RecordBatch
from ..store.codec.bulk import board_tables, sort_keys
from ..store.store import Store
from ..sweep.refresh import columns_of, table_bytes
from ..sweep.sweep_kernel import PLACE_WORDS, new_scratch
from . import ways_kernel
from .transpositions import Transposition, Transpositions, check_numbers

FULLEST = 0.95  # of the table; above that, looking up takes long

OnProgress = Callable[[int, int], None]


def count_all(
    path: str | os.PathLike[str],
    *,
    top: int = 20,
    ram_bytes: int | None = None,
    on_progress: OnProgress | None = None,
) -> Transpositions:
    """Returns the positions with the most ways in, all visited edges of the file counted.

    Exact if nobody writes the file meanwhile.

    Args:
      path: the graph file; it is only read.
      top: how many positions are returned at most, of those with two ways in or more.
      ram_bytes: most bytes that the table may take, 20 a node; default: 80 % of the machine's memory.
      on_progress: called with records done and records in all, two for each record.

    Raises:
      InvalidParameterError: if `top` is below 1.
      CapacityError: if the table would need more than `ram_bytes`.
      CorruptRecordError: if a block is damaged.
      StoreError: if the file cannot be read, or grows much meanwhile.
    """
    check_numbers(top=top)
    with Store.open(path, read_only=True) as store:
        needed, allowed = table_bytes(store.node_count), default_budget() if ram_bytes is None else ram_bytes
        if needed > allowed:
            raise CapacityError(
                f"counting the ways into {store.node_count} positions takes a table of {needed >> 20} MiB,"
                f" more than the {allowed >> 20} MiB allowed; allow more"
            )
        return _Counting(store, needed // 8, on_progress or (lambda done, total: None)).answer(top)


class _Counting:
    """One count of all ways in."""

    def __init__(self, store: Store, words: int, on_progress: OnProgress) -> None:
        self._store = store
        self._table = np.zeros(words, np.uint64)
        self._on_progress = on_progress
        self._starts: list[int] = []  # where each portion begins
        self._counts = np.zeros(ways_kernel.COUNTS, np.int64)
        self._entered = 0

    def answer(self, top: int) -> Transpositions:
        self._enter()
        self._count()
        halves = self._table.view(np.uint32)
        into, portions = halves[2::4], halves[3::4]
        shared = np.nonzero(into > 1)[0]
        best = shared[np.argsort(-into[shared].astype(np.int64), kind="stable")[:top]]
        rows = self._rows({int(p): int(into[p]) for p in best}, sorted(set(portions[best].tolist())))
        return Transpositions(
            roots=(),
            looked_at=self._entered,
            total=self._entered,
            edges=int(self._counts[ways_kernel.EDGES]),
            shared=len(shared),
            positions=tuple(sorted(rows, key=lambda row: (-row.ways, -(row.visits or 0), row.position))),
        )

    def _enter(self) -> None:
        places = len(self._table) // PLACE_WORDS
        for number, (start, batch) in enumerate(self._portions(), 1):
            if self._entered + len(batch) > FULLEST * places:
                raise StoreError(f"{self._store.path} grew too much while it was counted; ask again")
            self._starts.append(start)
            self._entered += int(ways_kernel.enter(board_tables(), self._table, columns_of(batch), number))
            self._say(self._entered)

    def _count(self) -> None:
        scratch, done = new_scratch(), 0
        for _, batch in self._portions():
            ways_kernel.count_ways(board_tables(), self._table, columns_of(batch), scratch, self._counts)
            done += len(batch)
            self._say(self._entered + done)

    def _say(self, done: int) -> None:
        self._on_progress(done, max(done, 2 * self._store.node_count))

    def _portions(self, start: int | None = 0) -> Iterator[tuple[int, RecordBatch]]:
        while start is not None:
            batch, following = self._store.portion(start)
            yield start, batch
            start = following

    def _rows(self, wanted: dict[int, int], portions: list[int]) -> list[Transposition]:
        """Returns the positions of some places, read again from the portions that they stand in."""
        found: dict[int, Transposition] = {}
        for number in portions:
            end = self._starts[number] if number < len(self._starts) else None
            for _, batch in self._portions(self._starts[number - 1]):
                self._take(batch, wanted, found)
                if end is None or not len(batch) or int(sort_keys(batch.words[-1:])[0]) >= end - 1:
                    break
                if set(wanted) <= set(found):
                    break
        return list(found.values())

    def _take(self, batch: RecordBatch, wanted: dict[int, int], found: dict[int, Transposition]) -> None:
        places = np.empty(len(batch), np.int64)
        ways_kernel.places_of(board_tables(), self._table, columns_of(batch), places)
        for i in np.nonzero(np.isin(places, list(wanted)))[0].tolist():
            record = batch.record(i)
            fen = fens(batch.words[i : i + 1])[0]
            found[int(places[i])] = Transposition(
                position=fen,
                ways=wanted[int(places[i])],
                n=None,
                visits=record.visits,
                q=node_mean(record)[0],
                root=None,
                line=None,
            )
