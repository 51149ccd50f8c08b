"""Loads a file into memory in order, with all cores, for a search that needs much of it.

    file       portion | portion | portion ...           in the order of the file: 1 us of CPU a record
    threads       decode    decode    decode
    search     waves | enter | enter | waves | enter     only the search's thread touches the arena

A single read costs about 10 times as much per record; 100 times where kernels cannot do it. A search begins
with single reads. It loads the file once these have cost a certain share of loading it, or 0.2 s: a search
that needs little of a file never pays for all of it. If the file does not fit, the records with the most
visits are loaded, as many as fit; if that is less than an eighth of them, single reads cost less than
decoding the whole file.

Records in memory are newer than those of the file, and stay. The first eviction ends the loading, because an
older version of an evicted record could be loaded.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CapacityError, CorruptRecordError
from ..store.codec.bulk import take
from ..store.record.node import RecordBatch
from ..store.record.node_layout import BLOCK_HEADER, HEADER_WORDS
from ..store.record.ranking import visits_of
from ..store.scanning import Portion
from ..store.store import Store
from .bring_kernel import BYTES_PER_NODE
from .paging import Pager

# a single read costs some 10 times a read in order, in Python 100 times
SINGLE_READS_SHARE = 400
LEAST_SINGLE_READS = 256
MOST_SINGLE_READS, MOST_IN_PYTHON = 13_000, 1_700  # 0.2 s of CPU
LEAST_PART = 8  # a file is loaded if at least 1 / LEAST_PART of it fits
FILLED_SHARE = 0.9  # of the budget; the additions of a search need the rest
SAMPLES = 8  # portions sampled from a file that does not fit, to estimate the visits of its records


class Loader:
    """Loads a file into memory, some records at each `advance`.

    Attributes:
      done, total: records read so far, and in the file.
      least_visits: N below which records are left in the file.
    """

    def __init__(self, path: Path, pager: Pager) -> None:
        """Opens the file for reading; `close` must follow.

        Raises:
          StoreError: if it cannot be read.
        """
        self._pager = pager
        self._store = Store.open(path, read_only=True)
        self.done, self.total = 0, self._store.node_count
        self.least_visits = 0 if pager.has_room_for(self.total) else self._visits_that_fit()
        self._evictions = pager.evictions
        self._batches = self._store.portions(self._wanted)
        self._is_whole = self.least_visits == 0
        if self._is_whole:
            pager.expect(self.total)

    def advance(self, seconds: float) -> bool:
        """Loads records for about `seconds`; returns whether there are more.

        Raises:
          StoreError: if the file cannot be read.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._pager.evictions != self._evictions:
                return False
            try:
                found = next(self._batches, None)
            except CorruptRecordError:
                # records already loaded are skipped; single reads will report the damaged ones
                rest = self._store.scan(on_corrupt=lambda _: None)
                self._batches = ((len(batch), batch) for batch in rest)
                self._is_whole, self.done = False, 0
                continue
            if found is None:
                self._pager.complete = self._is_whole
                return False
            looked_at, batch = found
            self.done = min(self.total, self.done + looked_at)
            if not self._enter(batch):
                return False
        return True

    def close(self) -> None:
        """Stops the threads and closes the file."""
        if isinstance(self._batches, Generator):
            self._batches.close()
        self._store.close()

    def _enter(self, batch: RecordBatch) -> bool:
        """Inserts records; returns False if there is no room without evicting some."""
        if not self._is_whole and _room(self._pager) < len(batch) * BYTES_PER_NODE:
            return False
        try:
            self._pager.enter(batch)
        except CapacityError:
            return False
        return True

    def _wanted(self, portion: Portion) -> tuple[int, RecordBatch]:
        """Returns the number of records in a portion, and the records to load; on any thread."""
        batch = portion.records()
        if self.least_visits == 0:
            return len(batch), batch
        return len(batch), take(batch, np.flatnonzero(visits_of(batch) >= self.least_visits))

    def _visits_that_fit(self) -> int:
        """Returns the least N of the records that fit into memory, estimated from a sample of the file."""
        sampled = [RecordBatch.empty(0, 0, 0)]
        for key in range(0, 1 << 64, (1 << 64) // SAMPLES):  # sort keys begin with a hash
            with suppress(CorruptRecordError):  # a read of these records will report the damage
                sampled.append(self._store.fetch_portion(key).records())
        batch = RecordBatch.concat(sampled)
        if not len(batch):
            return 1
        visits, sizes = visits_of(batch), bytes_of(batch)
        order = np.argsort(-visits, kind="stable")
        taken = np.cumsum(sizes[order]) * (self.total / len(batch))
        fitting = int(np.searchsorted(taken, _room(self._pager), "right"))
        return int(visits[order[min(fitting, len(order) - 1)]]) + 1  # of the first one that does not fit


def is_due(pager: Pager, nodes: int) -> bool:
    """Returns whether single reads have cost so much that loading a file of `nodes` records pays.

    Enough of the file must fit into memory. For 10^6 records, 7 % of them in memory, a search of 200,000
    visits took 16.6 us each with single reads, and 23.6 us if it loaded the file first; with 18 % in memory
    13.8 and 13.9 us, and on two cores 10.8 and 8.2 us of its own thread.
    """
    pays = FILLED_SHARE * pager.budget >= nodes * BYTES_PER_NODE / LEAST_PART
    most = MOST_SINGLE_READS if pager.kernels_read else MOST_IN_PYTHON
    allowed = max(LEAST_SINGLE_READS, min(most, nodes // SINGLE_READS_SHARE))
    return not pager.complete and pager.read_back > allowed and pays


def bytes_of(batch: RecordBatch) -> NDArray[np.int64]:
    """Returns the approximate bytes of memory of every record, `[R]`, including its table place."""
    moves, edges = np.diff(batch.code_offsets), np.diff(batch.edge_offsets)
    blocks = np.where(edges > 0, 4 * BLOCK_HEADER + 14 * edges, 0)  # 12 bytes an edge, and some room
    return np.asarray(8 * (HEADER_WORDS + (moves + 7) // 8) + blocks + 16, np.int64)


def _room(pager: Pager) -> int:
    """Returns the bytes of memory that loading may still fill."""
    return int(FILLED_SHARE * pager.budget) - pager.bytes_used
