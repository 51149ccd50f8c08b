"""Stored positions: the input and the output of a walk through a file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ....position.words import CLOCK_BITS, CLOCK_SHIFT, META
from ....store.index.locate_kernel import FilterArrays, no_filter
from ....store.reading import MAX_ASKED, Reader
from ....store.record.node import LOWER_SHIFT, TERMINAL_MASK, UNPROVEN, UPPER_SHIFT
from ....store.record.transposition import TYPES, EntryTable
from .rules import KINDS
from .stored_steps_kernel import EntryIndex, index_entries

Words = NDArray[np.uint64]
Codes = NDArray[np.uint8]
Bounds = tuple[NDArray[np.int8], NDArray[np.int8]]

PV_CODE, CUT_CODE, ALL_CODE = (TYPES.index(kind) for kind in KINDS)
NO_DISTANCE = (1 << 15) - 1  # of a node without a PV node above it


class Proofs(Protocol):
    """Proven results of a graph's records."""

    def filter(self) -> FilterArrays:
        """Returns the filter of the positions that may have a record."""

    def bounds(self, words: Words) -> Bounds:
        """Returns the proven lower and upper results of positions, `[K, 10]`; (-1, 1) where nothing is."""


class NoProofs:
    """Proofs of no graph at all."""

    def filter(self) -> FilterArrays:
        """Returns an empty filter."""
        return no_filter()

    def bounds(self, words: Words) -> Bounds:
        """Returns (-1, 1) for every position."""
        return np.full(len(words), -1, np.int8), np.full(len(words), 1, np.int8)


class RecordProofs:
    """Proven results of a file's records."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def filter(self) -> FilterArrays:
        """Returns the filter of the file."""
        return self._reader.filter()

    def bounds(self, words: Words) -> Bounds:
        """Returns the bounds that hold at the clocks of the positions: `NodeRecord.bounds_at`.

        Raises:
          StoreError: if the file cannot be read.
        """
        lower, upper = NoProofs().bounds(words)
        for first in range(0, len(words), MAX_ASKED):
            found, records = self._reader.find(words[first : first + MAX_ASKED])
            at = first + np.flatnonzero(found)
            flags = records.flags.astype(np.int64)
            lower[at], upper[at] = (flags >> LOWER_SHIFT & 3) - 1, (flags >> UPPER_SHIFT & 3) - 1
            clocks = _clocks(words[at])
            late = (clocks > _clocks(records.words)) & (flags & TERMINAL_MASK == 0)
            for i in np.flatnonzero(late & (flags != UNPROVEN)).tolist():
                lower[at[i]], upper[at[i]] = records.record(i).bounds_at(int(clocks[i]))
        return lower, upper


def _clocks(words: Words) -> NDArray[np.int64]:
    clocks: NDArray[np.int64] = (words[:, META] >> np.uint64(CLOCK_SHIFT) & np.uint64(CLOCK_BITS)).astype(
        np.int64
    )
    return clocks


@dataclass(frozen=True, slots=True)
class Nodes:
    """Stored positions as columns, `[N]`, in the order in which they were found.

    Types are 1 PV, 2 Cut, 3 All, 0 unknown.

    Attributes:
      ply: plies from the start. actual: type by the stored bound (exact PV, lower Cut, upper All).
      garms, kannan: types expected by the topology. searched: type that the search itself expected.
      proven: whether it is a proof: a mate, or a result that a record proves.
      depth: of the entry, plies; 0 without one. cut: which move in order made the cut, from 1; 0 none.
      is_record: whether a record, and no entry, holds it.
      distance: plies to the nearest PV node (by its bound) on the deciding line; a start without a
        bound counts as one; NO_DISTANCE where there is none.
      moves: legal moves. stored: those that lead to stored positions.
      best_marks: marks of its best move.
    """

    ply: NDArray[np.int16]
    actual: Codes
    garms: Codes
    kannan: Codes
    searched: Codes
    proven: NDArray[np.bool_]
    depth: Codes
    cut: Codes
    is_record: NDArray[np.bool_]
    distance: NDArray[np.int16]
    moves: NDArray[np.int16]
    stored: NDArray[np.int16]
    best_marks: Codes

    def __len__(self) -> int:
        return len(self.ply)

    @classmethod
    def concat(cls, parts: list[Nodes]) -> Nodes:
        """Returns the nodes of all parts."""
        return cls(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(cls)))


@dataclass(frozen=True, slots=True)
class Walked:
    """The result of a walk.

    Attributes:
      nodes: the stored positions. entries: how many there are in all. reached: how many of them were found.
      complete: False if the limit was met.
    """

    nodes: Nodes
    entries: int
    reached: int
    complete: bool


def entries_of(table: EntryTable) -> EntryIndex:
    """Returns the entries of a table in memory as columns for a walk."""
    there = table.arrays.keys != 0
    return index_entries(table.arrays.keys[there], table.arrays.data[there])
