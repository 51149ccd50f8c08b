"""Copies single records from an arena: views, lines and plain tables read hundreds of them per search."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..jit.compiler import Call
from ..store.codec.bulk import columns_of
from ..store.record.node import MAX_MOVES, Edge, NodeRecord, RecordBatch
from . import transfer_kernel
from .arena_kernel import ArenaArrays


class SingleCopies:
    """A buffer for one record, and kernels bound to it and to an arena.

    Attributes:
      arrays: arrays of the arena.
    """

    def __init__(self, arrays: ArenaArrays) -> None:
        self.arrays = arrays
        self._slots = np.zeros(1, np.uint32)
        self._batch = batch = RecordBatch.room(1, MAX_MOVES, MAX_MOVES)
        columns = columns_of(batch)
        self._calls = (
            Call(transfer_kernel.measure, arrays, self._slots, batch.code_offsets, batch.edge_offsets),
            Call(transfer_kernel.copy_out, arrays, self._slots, columns),
        )

    def record(self, slot: int, words: NDArray[np.uint64]) -> NodeRecord:
        """Returns a copy of the record at `slot`; `words` is its packed position."""
        self._slots[0] = slot
        for call in self._calls:
            call()
        found, edges = self._batch, int(self._batch.edge_offsets[1])
        rows = (column[:edges].tolist() for column in (found.n, found.r, found.q, found.edge_d))
        return NodeRecord(
            words=tuple(words.tolist()),
            v=float(found.v[0]),
            d=int(found.d[0]),
            evaluator=int(found.evaluator[0]),
            flags=int(found.flags[0]),
            codes=found.codes[: found.code_offsets[1]].tobytes(),
            edges=tuple(map(Edge, *rows)),
            run=int(found.run[0]),
        )
