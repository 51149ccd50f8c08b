"""Merges the records of one file into another, in the sort order of both and in bounded memory.

New and changed records are written as one new segment, newer than all others. Each transaction leaves a sound
file, and a repeated step changes nothing, so an interrupted merge is simply repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CorruptRecordError, UnsoundRecordError
from ..position.board import fen_of, unpack
from .reading import find, newest
from .record import RecordBatch, sort_keys
from .record_kernel import MAX_RUN
from .rewrite import Rewrite
from .segment import OnCorrupt
from .store import Store
from .union import Input, LeaveOut

EXAMPLES = 5  # positions with contradicting proofs that are named
_CLASH = "the files have proofs that contradict each other; the proof that stands with more visits is kept"

Places = NDArray[np.int64]
OnRecords = Callable[[int], object]


@dataclass(slots=True)
class RecordCounts:
    """Counts of an input's records by outcome.

    Attributes:
      records: sound records that were read. unsound: records left out, because their contents are impossible.
      fresh: records of new positions. changed: records that change the record of a known position.
      unchanged: the rest; nothing is written for them.
      different: positions with two different evaluations, one in each file; one was chosen.
      contradictions: positions with proofs in both files that cannot both be true.
    """

    records: int = 0
    unsound: int = 0
    fresh: int = 0
    changed: int = 0
    different: int = 0
    contradictions: int = 0

    @property
    def unchanged(self) -> int:
        """Number of records that add nothing."""
        return self.records - self.fresh - self.changed


@dataclass(frozen=True, slots=True)
class Part:
    """The union of two batches of records.

    Attributes:
      out: the records of the second that are new or change one of the first, in order.
      before: `[out]` index of the old record that each is a new version of, -1 if it is new.
      clashing: `[new]` where proofs contradict each other.
      counts: as `unite` of `union_kernel.py` returns them.
    """

    out: RecordBatch
    before: Places
    clashing: NDArray[np.bool_]
    counts: Places


def translator(one: Input) -> Callable[[RecordBatch], RecordBatch]:
    """Returns a thread-safe function that translates records of an input to the target's numbers.

    A run that the input does not list becomes unknown.

    Raises:
      CorruptRecordError: from that function, if a record has an evaluator that the input does not list.
    """
    runs = np.zeros(MAX_RUN + 1, np.uint32)
    for old, new in one.numbers["run"].items():
        runs[old] = new
    evaluators = np.full(256, 255, np.uint8)
    evaluators[0] = 0
    for old, new in one.numbers["evaluator"].items():
        evaluators[old] = new

    def translated(batch: RecordBatch) -> RecordBatch:
        found = evaluators[batch.evaluator]
        if (found == 255).any():
            number = int(batch.evaluator[found == 255][0])
            raise CorruptRecordError(f"{one.name}: records are of evaluator {number}, which it does not list")
        return batch.replace(run=runs[batch.run], evaluator=found)

    return translated


def batches(one: Input, counts: RecordCounts, leave_out: LeaveOut) -> Iterator[RecordBatch]:
    """Yields the records of an input in order, with the target's numbers; leaves out unsound records.

    Raises:
      CorruptRecordError: at the first other damage.
    """
    translated = translator(one)
    unsound: list[CorruptRecordError] = []
    for batch in one.store.portions(lambda portion: translated(portion.records(unsound.append))):
        counts.records += len(batch)
        while unsound:
            counts.unsound += 1
            leave_out(str(unsound.pop()))
        if len(batch):
            yield batch


def united(old: RecordBatch, new: RecordBatch, places: Places, bound: int) -> Part:
    """Returns the union of two batches.

    Args:
      places: for each of `new` the index of its position in `old`, -1 for none.
      bound: number of the evaluator that the file is bound to.
    """
    from .union_kernel import COUNTS, unite

    codes = int(new.code_offsets[-1])
    out = RecordBatch.room(len(new), codes, codes)
    whence, clashing = np.empty(len(new), np.int64), np.zeros(len(new), bool)
    counts = np.zeros(COUNTS, np.int64)
    found = int(unite(old, new, places, bound, out, whence, clashing, counts))
    return Part(out.part(0, found).copied(), places[whence[:found]], clashing, counts)


def _part(store: Store, batch: RecordBatch, total: RecordCounts, on_unsound: OnCorrupt) -> Part:
    """Returns the union of some records with those of a file, and counts them.

    Args:
      on_unsound: called for each unsound record of the file, which counts as missing.

    Raises:
      CorruptRecordError: if a block of the file that may hold one of the records is damaged.
    """
    from .union_kernel import CHANGED, CONTRADICTIONS, DIFFERENT, FRESH

    words, most = batch.words, store.sizes.piece_blocks
    found = list(find(store.connection, store.catalog.around(sort_keys(words)), words, most))
    for error in (error for one in found for error in one.damage):
        if not isinstance(error, UnsoundRecordError):
            raise error
        on_unsound(error)
    have, old = newest(found, len(batch))
    part = united(old, batch, np.where(have, np.cumsum(have) - 1, -1), store.evaluator_number)
    total.fresh += int(part.counts[FRESH])
    total.changed += int(part.counts[CHANGED])
    total.different += int(part.counts[DIFFERENT])
    total.contradictions += int(part.counts[CONTRADICTIONS])
    return part


def unite_records(
    store: Store,
    one: Input,
    *,
    on_records: OnRecords,
    leave_out: LeaveOut,
    in_step: Callable[[], object] = lambda: None,
) -> RecordCounts:
    """Merges the records of an input into a file that is open for writing; returns their counts.

    It opens its own transactions.

    Args:
      on_records: called with the number of records read so far.
      leave_out: called with a message for each unsound record, and for contradictions.
      in_step: called in every transaction that writes records.

    Raises:
      CorruptRecordError: if either file is damaged; records written before stay.
      StoreError: if the file cannot be read or written.
    """
    counts = RecordCounts()
    work, first = Rewrite(store, in_step), not store.node_count  # in an empty file everything is new
    for batch in batches(one, counts, leave_out):
        if first:
            counts.fresh += len(batch)
            work.add(batch, len(batch))
        else:
            named = counts.contradictions
            part = _part(store, batch, counts, lambda error: leave_out(str(error)))
            for i in np.flatnonzero(part.clashing)[: max(0, EXAMPLES - named)].tolist():
                leave_out(f"{fen_of(unpack(batch.words[i].tolist()))}: {_CLASH}")
            work.add(part.out, int((part.before < 0).sum()))
        on_records(counts.records)
    work.flush()
    if counts.contradictions > EXAMPLES:
        leave_out(f"{counts.contradictions - EXAMPLES:,} more positions with such contradictions")
    return counts


def add_records(store: Store, batch: RecordBatch) -> RecordCounts:
    """Merges records, in segment order, into a file, in the open transaction; returns their counts.

    They must have the file's numbers of runs and evaluators. An unsound record of the file counts as missing.

    Raises:
      CorruptRecordError: if the file is damaged.
      StoreError: if it cannot be read or written.
    """
    counts = RecordCounts(records=len(batch))
    store.append(_part(store, batch, counts, lambda error: None).out, fresh=counts.fresh)
    return counts
