"""Replaces the evaluator of a file: new V and P in every record, visits unchanged.

    evaluating   portion by portion in the order of runs, new versions of records appended every few seconds
    settling     no edge's q is from the old evaluator: sweeps as those of `refresh`, children to parents
    writing      the records with those values; then the mark is removed

Until the end the file is marked as unfinished, and bound to the new evaluator. Each record has the number of
its evaluator, so an interrupted call does not evaluate saved records again.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...base.answer import Answer
from ...evaluators.protocol import Evaluator
from ...evaluators.tablebase import TablebaseEvaluator
from ...position.board import board_of
from ...store.codec.bulk import take
from ...store.record.node import UNPROVEN, RecordBatch
from ...store.store import Store
from ...store.tables.unfinished import ROOTS, Unfinished
from ...store.upkeep.rewrite import tidy
from .evaluating import (
    SAVE_SECONDS,
    EvaluatingProgress,
    Favourite,
    Reevaluation,
    answers,
    done_of,
    favourites,
    read_portions,
    reevaluated,
)
from .refresh import (
    TOLERANCE,
    RefreshProgress,
    RefreshReport,
    check_fits,
    note_roots,
    settle,
    write_top_tables,
)

EVALUATING, SETTLING, WRITING = "evaluating", "settling", "writing"
SAVE_RECORDS = 65_536  # records of a chunk; a save is due at this number
MERGE_STEPS = 4  # most merge steps after a save; meanwhile the evaluator works on the next batches
KIND = "reevaluate"  # kind of the run


@dataclass(frozen=True, slots=True)
class ReevaluateReport(Answer):
    """Report of a reevaluation; figures cover all its calls, except where noted.

    Attributes:
      finished: whether everything is done; if not, the same call continues.
      records: in the file. done: records passed so far, including those by rule.
      evaluated: positions evaluated, without terminals and mates in one. evaluated_now: by this call.
      seconds: of evaluating and settling.
      mean_change, largest_change: |difference of V|, in [0, 2], over all replaced V; 0 if there is none.
      settled: whether every q is up to date; if not, `graphsearch lab refresh` continues.
      kept: edges whose q is still from the old evaluator, because the file has lost their child.
      roots: number of searched roots in the file.
      changed: the roots whose favourite move has changed.
    """

    finished: bool
    records: int
    done: int
    evaluated: int
    evaluated_now: int
    seconds: float
    mean_change: float
    largest_change: float
    settled: bool
    kept: int
    roots: int
    changed: tuple[ChangedRoot, ...]


@dataclass(frozen=True, slots=True)
class ChangedRoot:
    """A root whose favourite move has changed.

    Attributes:
      position: FEN. before, after: the move in SAN. q_before, q_after: node Q of the root.
    """

    position: str
    before: str
    after: str
    q_before: float
    q_after: float


OnProgress = Callable[[EvaluatingProgress], None]


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
      ram_bytes: most memory for settling, 20 bytes a node; default: 80 % of the machine's memory.
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
        store.leaves_out = True
        check_fits(
            store.node_count, ram_bytes, "updating"
        )  # too little memory is reported before any evaluation
        work = _Reevaluation(store, evaluator, stop or threading.Event(), on_progress, command)
        return work.reevaluate(ram_bytes)


class _Stopped(Exception):  # noqa: N818  (never leaves the module)
    """Raised when settling should stop; nothing is lost."""


class _Reevaluation:
    """One call, on an open store."""

    def __init__(
        self,
        store: Store,
        evaluator: Evaluator,
        stop: threading.Event,
        on_progress: OnProgress | None,
        command: str,
    ) -> None:
        self._store = store
        self._evaluator = evaluator
        self._stop = stop
        self._on_progress = on_progress or (lambda progress: None)
        self._command = command
        self._started = time.monotonic()
        self._total = store.node_count
        self._evaluated = 0
        self._passed = 0  # records read that needed no evaluation, or have it now
        self._waiting: list[RecordBatch] = []  # not yet in the file
        self._saved_at = self._started
        self._run = 0
        self._number = 0
        self._before = Unfinished(0)

    def reevaluate(self, ram_bytes: int | None) -> ReevaluateReport:
        """Does the remaining work; saves all evaluations even after an error."""
        mark = self._store.unfinished
        if mark is None and self._is_of_it_already():
            return self._report(Unfinished(0, self._total), None)
        self._begin(mark)
        try:
            self._evaluate()
        finally:
            self._save(finished=self._stop.is_set())
        if self._stop.is_set():
            return self._report(self._mark(), None)
        return self._settle_and_finish(ram_bytes)

    # ---------------------------------------------------------- beginning
    def _is_of_it_already(self) -> bool:
        """Returns whether the values of all records are the evaluator's; a file may have lost its mark."""
        if self._store.identity.as_json() != self._evaluator.identity.as_json():
            return False
        number = self._store.evaluator_number
        return not any(not _is_done(batch, number, self._evaluator).all() for batch in self._store.scan())

    def _begin(self, mark: Unfinished | None) -> None:
        """Binds the file to the evaluator and marks it, in one transaction."""
        roots = (
            favourites(self._store) if self._store.read_fact(ROOTS) is None else None
        )  # or a merge marked it
        with self._store.transaction():
            self._number = self._store.add_evaluator(self._evaluator.identity)
            if mark is None or mark.evaluator != self._number:
                mark = Unfinished(self._number, total=self._total)
            self._before = replace(mark, command=self._command or mark.command, total=self._total)
            self._store.mark_unfinished(self._before)
            self._store.bind_evaluator(self._number)
            self._run = self._store.begin_run("", {}, {}, kind=KIND, evaluator=self._number)
            if roots is not None:
                self._store.write_fact(ROOTS, json.dumps([json.dumps(asdict(root)) for root in roots]))

    # ---------------------------------------------------------- evaluating
    def _evaluate(self) -> None:
        for answer in answers(self._evaluator, self._left(), self._stop):
            self._take(answer)
            self._save_if_due()

    def _left(self) -> Iterator[RecordBatch]:
        """Yields the records with another evaluator's values, in file order."""
        for batch in read_portions(self._store, self._stop):
            done = _is_done(batch, self._number, self._evaluator)
            self._passed += int(done.sum())
            self._say(EVALUATING, self._passed)
            if not done.all():
                yield take(batch, np.nonzero(~done)[0])

    def _take(self, answer: Reevaluation) -> None:
        """Adds the new versions of the records of an answer."""
        change = np.abs(answer.v.astype(np.float64) - answer.records.v)
        self._before = replace(
            self._before,
            change=self._before.change + float(change.sum()),
            largest=max(self._before.largest, float(change.max())),
        )
        runs = np.full(len(answer.records), self._run, np.uint32)
        self._waiting.append(reevaluated(answer, self._number, runs))
        self._passed += len(answer.records)
        self._evaluated += len(answer.records)

    def _save_if_due(self) -> None:
        late = time.monotonic() - self._saved_at >= SAVE_SECONDS
        if sum(map(len, self._waiting)) >= SAVE_RECORDS or late:
            self._save()
        self._say(EVALUATING, self._passed)

    def _save(self, *, finished: bool = False) -> None:
        """Writes the evaluations; then continues the file's merges and truncates its WAL."""
        batch = RecordBatch.concat(self._waiting)
        with self._store.transaction():
            self._store.append(batch, fresh=0)
            self._store.mark_unfinished(self._mark())
            if finished:
                self._store.finish_run(self._run, 0, self._evaluated)
            else:
                self._store.update_run(self._run, 0, self._evaluated)
        self._waiting = []
        self._saved_at = time.monotonic()
        for _ in range(MERGE_STEPS):
            if not self._store.merge_step():
                break
        self._store.shorten_log()

    def _mark(self) -> Unfinished:
        """Returns the progress, this call included."""
        return replace(
            self._before,
            done=max(self._before.done, self._passed),
            evaluated=self._before.evaluated + self._evaluated,
            seconds=self._before.seconds + time.monotonic() - self._started,
        )

    # ---------------------------------------------------------- settling
    def _settle_and_finish(self, ram_bytes: int | None) -> ReevaluateReport:
        try:
            settled = settle(self._store, TOLERANCE, ram_bytes=ram_bytes, on_progress=self._say_settling)
        except _Stopped:
            with self._store.transaction():
                self._store.finish_run(self._run, 0, self._evaluated)
            return self._report(self._mark(), None)
        report = self._report(self._mark(), settled)
        self._finish()
        tidy(self._store, progress=lambda done, total: self._say(WRITING, self._total))
        return report

    def _finish(self) -> None:
        """Removes the mark, and updates the plain tables."""
        with self._store.transaction():
            for root in self._store.roots():
                write_top_tables(self._store, board_of(root.position))
            note_roots(self._store, self._run)
            self._store.finish_run(self._run, 0, self._evaluated)
            self._store.mark_unfinished(None)
            self._store.write_fact(ROOTS, None)

    def _say_settling(self, progress: RefreshProgress) -> None:
        if self._stop.is_set():
            raise _Stopped
        stage = WRITING if progress.stage == WRITING else SETTLING
        self._say(stage, progress.done, progress.total)

    # ---------------------------------------------------------- report
    def _say(self, stage: str, done: int, total: int | None = None) -> None:
        seconds = time.monotonic() - self._started
        whole = self._total if total is None else total
        self._on_progress(EvaluatingProgress(stage, done, whole, self._evaluated, seconds))

    def _report(self, mark: Unfinished, settled: RefreshReport | None) -> ReevaluateReport:
        roots = [Favourite(**json.loads(text)) for text in json.loads(self._store.read_fact(ROOTS) or "[]")]
        return ReevaluateReport(
            finished=settled is not None or not mark.evaluator,
            records=self._total,
            done=mark.done,
            evaluated=mark.evaluated,
            evaluated_now=self._evaluated,
            seconds=mark.seconds,
            mean_change=mark.change / max(1, mark.evaluated),
            largest_change=mark.largest,
            settled=settled is None or settled.settled,
            kept=settled.lost + settled.missing if settled else 0,
            roots=len(roots),
            changed=tuple(self._changed(roots)) if settled else (),
        )

    def _changed(self, roots: list[Favourite]) -> Iterator[ChangedRoot]:
        """Yields the roots whose favourite move has changed since the reevaluation began."""
        now = {root.position: root for root in favourites(self._store)}
        for before in roots:
            after = now.get(before.position)
            if after and after.move != before.move:
                yield ChangedRoot(before.position, before.move, after.move, before.q, after.q)


def _is_done(batch: RecordBatch, number: int, evaluator: Evaluator) -> NDArray[np.bool_]:
    """Returns a mask of the records with values of an evaluator or of the rules.

    It excludes records without a proof if the evaluator's tablebases know the result.
    """
    done = done_of(batch, number)
    if isinstance(evaluator, TablebaseEvaluator):
        has_moves = np.diff(batch.code_offsets) > 0
        unproven = np.nonzero(done & has_moves & (batch.flags == UNPROVEN))[0]
        done[unproven[evaluator.knows(batch.words[unproven])]] = False
    return done
