"""What two workers know of one position: which record the file keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...record.node import LOWER_SHIFT, TERMINAL_MASK, UPPER_SHIFT, RecordBatch
from ...store.codec.bulk import take
from ...store.reading import MAX_ASKED, Reader
from ...store.upkeep.prune import visits_of

I64 = NDArray[np.int64]
Flags = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Merged:
    """What becomes of the records that a worker sends.

    Attributes:
      records: to write. fresh: how many of them are in no version in the file.
      better: those of the file that have won; what the worker has of these positions was dropped.
    """

    records: RecordBatch
    fresh: int
    better: RecordBatch


def merged(batch: RecordBatch, reader: Reader) -> Merged:
    """Returns what to write of the records that a worker sends, given those in the file.

    Of two versions the one with the greater node N stays, the file's if both have the same; what either has
    proven holds for both. This keeps invariant 3, child N >= n - r of every edge, if every worker sends all
    that it has changed in one transaction:

    - Node N in the file never falls, because the greater one stays.
    - A worker begins a turn with one state of the file, which holds this invariant, and changes it as a
      search in one process does (`worker.catch_up`): in what it has, an edge's child has N >= n - r. That
      child is
      in the same transaction, or was sent before, or is in that state of the file. Either way the file has
      it with at least this N when the transaction ends, and ever after.
    - So whichever version of the parent stays, each of its edges has what it counts. That all edges of a
      record come from one version is why they are not mixed: N = 1 + sum n stays true as well.

    One case is left: when memory is so short that a worker has to read back in the middle of a turn what it
    has saved in it, it goes on with a newer state of the file, and an edge may then count some visits more
    than its child has. Searches heal that as they heal a lost child.

    What loses are visits, never an evaluation: every position that was evaluated has a record in the file.

    Args:
      batch: of one worker, each position once.
      reader: sees what is committed.

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
    """Returns flags of records with what other versions of the same positions have proven.

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
