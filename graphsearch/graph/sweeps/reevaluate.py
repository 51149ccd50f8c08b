"""Replaces the evaluator of a file: new V and P in every record, visits unchanged.

    evaluating   in the order of the file
    sweeping     no edge's q is from the old evaluator: as in `refresh`
    writing      the records with those values; then the mark is removed

A new evaluation is a record without edges, and `graphsearch/store/union_kernel.py` unites it with
the old one, as if it came from another file. Until the end the file is marked as unfinished, and bound to
the new evaluator. Each record has the number of its evaluator, so an interrupted call does not evaluate
saved records again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...base.answer import Answer
from ...base.errors import CapacityError
from ...evaluators.inside import inside
from ...evaluators.protocol import Evaluation, Evaluator, PositionBatch, answer
from ...evaluators.tablebase import TablebaseEvaluator
from ...position.board_kernel import ROOM, list_all
from ...position.values import D_SCALE
from ...store.provenance import BY_RULE, UNSETTLED, Unfinished
from ...store.record import UNPROVEN, RecordBatch, board_tables, flags_of, owned, prior_codes, take
from ...store.rewrite import OnProgress, Progress, append_versions, merge_all, tidy
from ...store.store import Store
from ...store.union import RecordCounts
from .refresh import WRITING, lacks_memory, note_roots, settle, write_root_tables

EVALUATING = "evaluating"  # the first stage; then those of `refresh`
BATCH = 4096  # positions that kernels evaluate together
KIND = "reevaluate"  # kind of the run


@dataclass(frozen=True, slots=True)
class ReevaluateReport(Answer):
    """Report of a reevaluation; figures cover all its calls, except where noted.

    Attributes:
      finished: whether everything is done; if not, the same call continues.
      records: in the file. done: records passed so far, including those by rule.
      evaluated: positions evaluated, without terminals and mates in one. evaluated_now: by this call.
      seconds: of evaluating and settling.
      settled: whether every q is up to date; if not, `graphsearch lab refresh` continues.
      kept: edges whose q is still from the old evaluator, because the file has lost their child.
    """

    finished: bool
    records: int
    done: int
    evaluated: int
    evaluated_now: int
    seconds: float
    settled: bool
    kept: int


def reevaluate(
    path: str | os.PathLike[str],
    evaluator: Evaluator,
    *,
    ram_bytes: int | None = None,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
    command: str = "",
) -> ReevaluateReport:
    """Replaces V and P of every record by another evaluator's, and returns a report.

    Edges keep their visits n and r. Their q are recomputed from the children at the end; an edge whose child
    the file has lost keeps its q. Records by rule (terminals, mates in one) are unchanged. Records that
    already have their V from this evaluator are not evaluated again, so a call after an interruption
    continues.

    Args:
      path: the graph file, locked against other writers meanwhile. Until the end it is marked, and other
        commands that would write it refuse it.
      evaluator: the file's new evaluator. An unfinished reevaluation by a third evaluator is abandoned, and
        its values are replaced.
      ram_bytes: most memory for settling, 100 bytes a node; default: 80 % of the machine's memory.
      stop: set it, from any thread or a signal handler, to save and return.
      on_progress: called after every batch.
      command: the command that continues, for the messages of other commands.

    Raises:
      EvaluatorError: if the evaluator fails; its earlier answers are saved.
      CapacityError: if settling would need more than `ram_bytes`; nothing has been evaluated then.
      StoreLockedError: if another process is writing the file.
      CorruptRecordError: if a block is damaged; earlier results are saved.
      StoreError: if the file cannot be read or written.
    """
    with Store.open(path, resume=True) as store:
        if lack := lacks_memory(store.node_count, ram_bytes, "updating"):  # reported before any evaluation
            raise CapacityError(lack)
        work = _Reevaluation(store, evaluator, stop or threading.Event(), on_progress or (lambda now: None))
        return work.run(ram_bytes, command)


class _Stopped(Exception):  # noqa: N818  (never leaves the module)
    """Raised when settling should stop; nothing is lost."""


class _Reevaluation:
    """One call, on an open store."""

    def __init__(
        self, store: Store, evaluator: Evaluator, stop: threading.Event, on_progress: OnProgress
    ) -> None:
        self._store, self._evaluator, self._stop, self._on_progress = store, evaluator, stop, on_progress
        self._started = time.monotonic()
        self._run = self._number = self._evaluated = 0
        self._mark = Unfinished(0)  # what earlier calls have done, and the records passed by this one

    def run(self, ram_bytes: int | None, command: str) -> ReevaluateReport:
        """Does the remaining work; saves all evaluations even after an error."""
        store, mark, settled = self._store, self._store.unfinished, None
        with store.transaction():
            self._number = store.add_evaluator(self._evaluator.identity)
            if mark is None or mark.evaluator != self._number:
                mark = Unfinished(self._number)
            self._mark = replace(mark, done=0, command=command or mark.command, total=store.node_count)
            store.mark_unfinished(replace(self._mark, done=mark.done))
            store.bind_evaluator(self._number)
            self._run = store.begin_run("", {}, {}, kind=KIND, evaluator=self._number)
        try:
            append_versions(store, self._versions(), self._note)
        finally:
            with store.transaction():
                self._note()
        if not self._stop.is_set():
            with suppress(_Stopped):
                merge_all(store, self._say_settling, WRITING)
                settled = settle(store, ram_bytes=ram_bytes, on_progress=self._say_settling)
        with store.transaction():
            store.update_run(self._run, 0, self._evaluated, finished=True)
            if settled:
                write_root_tables(store)
                note_roots(store, self._run)
                store.mark_unfinished(None)
                store.write_fact(UNSETTLED, None)
        if settled:
            tidy(store)
        mark = self._progress()
        return ReevaluateReport(
            finished=settled is not None,
            records=mark.total,
            done=mark.done,
            evaluated=mark.evaluated,
            evaluated_now=self._evaluated,
            seconds=mark.seconds,
            settled=settled is None or settled.settled,
            kept=settled.lost + settled.missing if settled else 0,
        )

    def _versions(self) -> Iterator[RecordBatch]:
        """Yields the records with new evaluations, in file order."""
        size = BATCH if inside(self._evaluator) else self._evaluator.batch_size
        for batch in self._store.all_records():
            left = take(batch, np.nonzero(~self._is_done(batch))[0])
            self._say_evaluating(len(batch) - len(left), 0)
            for first in range(0, len(left), size):
                if self._stop.is_set():
                    return
                old = left.part(first, min(len(left), first + size))
                answers = answer(self._evaluator, _positions_of(old))
                self._say_evaluating(len(old), len(old))
                new = evaluated(old, answers, self._number, self._run)
                yield RecordCounts().unite(old, new, self._number)

    def _is_done(self, batch: RecordBatch) -> NDArray[np.bool_]:
        """Returns a mask of the records with values of the evaluator or of the rules.

        It excludes records without a proof if the evaluator's tablebases know the result.
        """
        has_moves = np.diff(batch.code_offsets) > 0
        done = np.isin(batch.evaluator, (self._number, BY_RULE)) | ~has_moves
        if isinstance(self._evaluator, TablebaseEvaluator):
            unproven = np.nonzero(done & has_moves & (batch.flags == UNPROVEN))[0]
            done[unproven[self._evaluator.knows(batch.words[unproven])]] = False
        return done

    def _note(self) -> None:
        """Records the progress, in the transaction of a step."""
        self._store.mark_unfinished(self._progress())
        self._store.update_run(self._run, 0, self._evaluated)

    def _progress(self) -> Unfinished:
        return replace(
            self._mark,
            evaluated=self._mark.evaluated + self._evaluated,
            seconds=self._mark.seconds + time.monotonic() - self._started,
        )

    def _say_settling(self, progress: Progress) -> None:
        if self._stop.is_set():
            raise _Stopped
        self._on_progress(progress)

    def _say_evaluating(self, done: int, evaluated: int) -> None:
        """Counts and reports records that are done, and how many of them were evaluated."""
        self._mark = replace(self._mark, done=self._mark.done + done)
        self._evaluated += evaluated
        rate = self._evaluated / max(time.monotonic() - self._started, 1e-3)
        note = f", {rate:,.0f}/s" if self._evaluated else ""
        self._on_progress(Progress(EVALUATING, self._mark.done, self._mark.total, note))


def _positions_of(records: RecordBatch) -> PositionBatch:
    """Returns the positions of sound records that are not terminal, with their legal moves."""
    count = len(records)
    words = owned(records.words, np.uint64)
    offsets, moves = np.zeros(count + 1, np.int64), np.zeros(count * ROOM, np.uint16)
    list_all(board_tables(), words.reshape(-1), offsets, moves, np.zeros(count, np.uint8))
    return PositionBatch(words, moves[: offsets[-1]], offsets)


def evaluated(records: RecordBatch, evaluation: Evaluation, evaluator: int, run: int) -> RecordBatch:
    """Returns records without edges with an evaluation, quantised exactly as a search would write it.

    Results that tablebases prove come from no evaluator.
    """
    v = evaluation.v
    draws = np.floor(D_SCALE * evaluation.wdl[:, 1].astype(np.float64) + 0.5)
    most = np.floor(D_SCALE * (1.0 - np.abs(v.astype(np.float64))) + 0.5)
    flags = np.full(len(records), UNPROVEN, np.uint8)
    if evaluation.bounds is not None:
        flags = flags_of(evaluation.bounds)
    codes = prior_codes(evaluation.priors)
    return RecordBatch.empty(len(records), len(codes), 0).replace(
        packed=records.packed,
        v=v,
        d=np.minimum(draws, most).astype(np.uint16),
        evaluator=np.where(flags != UNPROVEN, BY_RULE, evaluator).astype(np.uint8),
        run=np.full(len(records), run, np.uint32),
        flags=flags,
        code_offsets=records.code_offsets,
        codes=codes,
    )
