"""Merges the records of files, in the sort order of all and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..base.errors import CorruptRecordError, UnsoundRecordError
from ..position.board import fen_of, unpack
from .reading import find, newest
from .record import RecordBatch, sort_keys
from .record_kernel import MAX_RUN
from .rewrite import rewrite
from .segment import cursors_from, fetch_portion
from .store import Store
from .union import Input, LeaveOut

EXAMPLES = 5  # positions with contradicting proofs that are named
_CLASH = "the files have proofs that contradict each other; the proof that stands with more visits is kept"


@dataclass(slots=True)
class RecordCounts:
    """Counts of an input's records by outcome.

    Attributes:
      records: sound records that were read. unsound: records left out, because their contents are impossible.
      fresh: records of new positions. changed: records that change the record of a known position.
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

    def unite(
        self, old: RecordBatch, new: RecordBatch, bound: int, on_clash: Callable[[int], object] | None = None
    ) -> RecordBatch:
        """Returns the union of records, each in segment order, and counts those of the second batch.

        Args:
          bound: number of the evaluator that the file is bound to.
          on_clash: called with the index in `new` of a record whose proofs contradict the old one's.
        """
        from .union_kernel import CHANGED, CONTRADICTIONS, COUNTS, DIFFERENT, FRESH, unite

        codes = len(old.codes) + len(new.codes)
        out, clashing = RecordBatch.room(len(old) + len(new), codes, codes), np.zeros(len(new), bool)
        counts = np.zeros(COUNTS, np.int64)
        united = int(unite(old, new, bound, out, clashing, counts))
        self.records += len(new)
        self.fresh += int(counts[FRESH])
        self.changed += int(counts[CHANGED])
        self.different += int(counts[DIFFERENT])
        self.contradictions += int(counts[CONTRADICTIONS])
        if on_clash:
            for i in np.flatnonzero(clashing).tolist():
                on_clash(i)
        return out.part(0, united)


def translator(one: Input) -> Callable[[RecordBatch], RecordBatch]:
    """Returns a function that translates records of an input to the target's numbers.

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


def unite_records(
    store: Store,
    inputs: Sequence[Input],
    *,
    on_records: Callable[[int], object],
    leave_out: LeaveOut,
) -> list[RecordCounts]:
    """Merges the records of inputs into a file that is open for writing; returns the counts of each.

    All files are read in step, and the file is written once. It opens its own transactions.

    Args:
      on_records: called with the number of records read since the last call.
      leave_out: called with a message for each unsound record, and for contradictions.

    Raises:
      CorruptRecordError: if a file is damaged; records written before stay.
      StoreError: if a file cannot be read or written.
    """
    counts = [RecordCounts() for _ in inputs]
    translators = [translator(one) for one in inputs]
    blocks, unsound = store.catalog.sizes.step_blocks, list[CorruptRecordError]()

    def change(batch: RecordBatch, low: int, pivot: int | None) -> RecordBatch:
        for one, its, translated in zip(inputs, counts, translators, strict=True):
            catalog, connection = one.store.catalog, one.connection
            cursors = cursors_from(catalog, catalog.segments, low, blocks)
            new = fetch_portion(connection, catalog, cursors, low, pivot).records(unsound.append)
            its.unsound += len(unsound)
            while unsound:
                leave_out(str(unsound.pop()))
            clashes = list[int]()
            before = its.contradictions
            batch = its.unite(batch, translated(new), store.evaluator_number, clashes.append)
            for i in clashes[: max(0, EXAMPLES - before)]:
                leave_out(f"{fen_of(unpack(new.words[i].tolist()))}: {_CLASH}")
            on_records(len(new))
        return batch

    rewrite(
        store,
        change,
        others=[one.store for one in inputs],
        advance=on_records,
        on_unsound=lambda error: leave_out(str(error)),
    )
    for its in counts:
        if its.contradictions > EXAMPLES:
            leave_out(f"{its.contradictions - EXAMPLES:,} more positions with such contradictions")
    return counts


def add_records(store: Store, batch: RecordBatch) -> None:
    """Merges records, in segment order, into a file, in the open transaction.

    They must have the file's numbers of runs and evaluators. An unsound record of the file counts as missing.

    Raises:
      CorruptRecordError: if a block of the file that may hold one of the records is damaged.
      StoreError: if it cannot be read or written.
    """
    words, counts = batch.words, RecordCounts()
    index = store.catalog.around(sort_keys(words))
    found = list(find(store.connection, index, words, store.catalog.sizes.piece_blocks))
    for error in (error for one in found for error in one.damage):
        if not isinstance(error, UnsoundRecordError):
            raise error
    united = counts.unite(newest(found, len(batch))[1], batch, store.evaluator_number)
    store.append(united, fresh=counts.fresh)
