"""Merging the versions of a record that two workers have made."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...store.codec.bulk import take
from ...store.reading import MAX_ASKED, Reader
from ...store.record.node import LOWER_SHIFT, TERMINAL_MASK, UPPER_SHIFT, RecordBatch
from ...store.upkeep.prune import visits_of

I64 = NDArray[np.int64]
Flags = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Merged:
    """The merged records of a worker.

    Attributes:
      records: to write. fresh: the number of them whose position is not in the file.
      better: records of the file that have won; the worker's versions were dropped.
    """

    records: RecordBatch
    fresh: int
    better: RecordBatch


def merged(batch: RecordBatch, reader: Reader) -> Merged:
    """Returns the records to write, out of those that a worker sends and those in the file.

    Of two versions the one with the greater node N stays, the file's if both are equal; proven bounds of
    either hold for both. This keeps invariant 3, child N >= n - r of every edge, if every worker sends all
    its changes in one transaction:

    - Node N in the file never falls, because the greater one stays.
    - A worker begins a turn with one state of the file, where the invariant holds, and changes it as a search
      in one process does (`worker.catch_up`): in its memory, an edge's child has N >= n - r. That child is in
      the same transaction, or was sent before, or is in that state of the file. In each case the file has it
      with at least this N when the transaction ends, and ever after.
    - So each edge of either version of the parent has its visits below. Edges of two versions are never
      mixed: N = 1 + sum n stays true as well.

    One case is left: if memory is so short that a worker reads back records that it has saved in the same
    turn, it sees a newer state of the file, and an edge may count some visits more than its child has.
    Searches heal that as they heal a lost child.

    Visits may be lost, never an evaluation: every evaluated position has a record in the file.

    Args:
      batch: of one worker, each position once.
      reader: sees all commits.

    Raises:
      StoreError: if the file cannot be read.
    """
    parts = [
        _merged(batch.part(first, min(first + MAX_ASKED, len(batch))), reader)
        for first in range(0, len(batch), MAX_ASKED)
    ]
    records = RecordBatch.concat([part.records for part in parts])
    better = RecordBatch.concat([part.better for part in parts])
    return Merged(records, sum(part.fresh for part in parts), better)


def _merged(batch: RecordBatch, reader: Reader) -> Merged:
    have, stored = reader.find(batch.words)
    places = np.nonzero(have)[0]
    wins = np.ones(len(batch), bool)
    wins[places] = visits_of(batch)[places] > visits_of(stored)
    flags = batch.flags.copy()
    flags[places] = tightened(batch.flags[places], _clocks(batch)[places], stored.flags, _clocks(stored))
    ours = take(replace(batch, flags=flags), np.nonzero(wins)[0])
    others = tightened(stored.flags, _clocks(stored), batch.flags[places], _clocks(batch)[places])
    stored, proven = replace(stored, flags=others), others != stored.flags
    theirs = take(stored, np.nonzero(~wins[places] & proven)[0])
    records = RecordBatch.concat([part for part in (ours, theirs) if len(part)])
    return Merged(records, len(batch) - len(places), take(stored, np.nonzero(~wins[places])[0]))


def _clocks(batch: RecordBatch) -> I64:
    """Returns the halfmove clock that each record was evaluated with."""
    return np.asarray(batch.words[:, 8] >> np.uint64(12) & np.uint64(255), np.int64)


def tightened(flags: Flags, clocks: I64, others: Flags, their_clocks: I64) -> Flags:
    """Returns flags of records with the proven bounds of other versions of the same positions.

    A win or a loss is proven for the clock of its record and those below, a draw for all, as in
    `NodeRecord.bounds_at`.

    >>> win, open_ = np.array([2 << 2 | 2 << 4], np.uint8), np.array([0 << 2 | 2 << 4], np.uint8)
    >>> early, late = np.array([0]), np.array([10])
    >>> bool(tightened(open_, early, win, late) == win), bool(tightened(open_, late, win, early) == win)
    (True, False)
    """
    lower, upper = _bounds(flags)
    their_lower, their_upper = _bounds(others)
    later = clocks > their_clocks
    lower = np.maximum(lower, np.where(later, np.minimum(their_lower, 0), their_lower))
    upper = np.minimum(upper, np.where(later, np.maximum(their_upper, 0), their_upper))
    found = lower + 1 << LOWER_SHIFT | upper + 1 << UPPER_SHIFT
    good = (lower <= upper) & (flags & TERMINAL_MASK == 0) & (others & TERMINAL_MASK == 0)
    return np.where(good, found, flags).astype(np.uint8)


def _bounds(flags: Flags) -> tuple[I64, I64]:
    wide = flags.astype(np.int64)
    return (wide >> LOWER_SHIFT & 3) - 1, (wide >> UPPER_SHIFT & 3) - 1
