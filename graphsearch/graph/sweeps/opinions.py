"""Second opinions: another evaluator's values of a file's positions, beside their records.

The most visited positions come first, so that an interrupted run has done the most important part: the file
is read once to count, then once for each power of ten of visits,

    n >= 1000 | 100 <= n < 1000 | 10 <= n < 100 | n < 10

which takes a second or two for a million records, little compared with the evaluation.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ...base.answer import Answer
from ...base.errors import EvaluatorError, InvalidParameterError
from ...evaluators.protocol import Evaluator
from ...position.board import decode_move, key_text_of_words
from ...position.fens import fens
from ...position.values import D_SCALE
from ...store.codec.bulk import take
from ...store.file import shorten_log
from ...store.record.bounds import share_of
from ...store.record.node import RecordBatch
from ...store.record.provenance import BY_RULE
from ...store.record.ranking import visits_of
from ...store.store import Store
from ...store.tables import opinions as table
from ...store.tables.opinions import Opinion
from .evaluating import SAVE_SECONDS, EvaluatingProgress, Reevaluation, answers, positions_of, read_portions

SAVE_ROWS = 20_000  # rows of a transaction: some 5 MB
KIND = "opinion"  # kind of the run
COUNTING, EVALUATING = "counting", "evaluating"
STEPS = 10  # from one least number of visits to the next


@dataclass(frozen=True)
class OpinionProgress(EvaluatingProgress):
    """Progress of a second opinion; its stages are `counting` and `evaluating`.

    Attributes:
      least: fewest visits of the positions in the present pass.
    """

    least: int


@dataclass(frozen=True, slots=True)
class OpinionReport(Answer):
    """Report of a second opinion.

    Attributes:
      finished: whether all requested positions have an opinion; if not, the same call continues.
      positions: positions with at least `min_visits` visits, without terminals and mates in one. done: those
        that have an opinion.
      evaluated: positions evaluated by this call. updated: rows whose visits or V were brought up to date.
      seconds: wall time.
      mean_change, largest_change: |difference of V|, in [0, 2], over those evaluated by this call.
    """

    finished: bool
    positions: int
    done: int
    evaluated: int
    updated: int
    seconds: float
    mean_change: float
    largest_change: float


OnProgress = Callable[[OpinionProgress], None]


def second_opinion(
    path: str | os.PathLike[str],
    evaluator: Evaluator,
    *,
    min_visits: int = 1,
    stop: threading.Event | None = None,
    on_progress: OnProgress | None = None,
) -> OpinionReport:
    """Writes an evaluator's values of a file's positions into its table `opinion`, most visited first.

    The records stay as they are, and the file bound to its evaluator. A position with this evaluator's
    opinion is not evaluated again; its row is updated if its visits or its V have changed.

    Args:
      path: the graph file, locked against other writers meanwhile; readers can use it.
      evaluator: an evaluator other than the file's.
      min_visits: positions of fewer visits (node N) are skipped.
      stop: set it, from any thread or a signal handler, to save and return.
      on_progress: called after every batch.

    Raises:
      EvaluatorError: if it is the file's own evaluator, or fails; its earlier answers are saved.
      InvalidParameterError: if `min_visits` is less than 1.
      UnfinishedError: if a reevaluation of the file is unfinished.
      StoreLockedError: if another process is writing the file.
      CorruptRecordError: if a block is damaged; earlier results are saved.
      StoreError: if the file cannot be read or written.
    """
    if min_visits < 1:
        raise InvalidParameterError(f"min_visits must be at least 1, not {min_visits}")
    with Store.open(path) as store:
        if not store.is_bound:
            raise EvaluatorError(f"{store.path} has no evaluated positions; search first")
        if store.identity.as_json() == evaluator.identity.as_json():
            raise EvaluatorError(
                f"{store.path} holds the values of {store.identity.describe()}; a second opinion is that of"
                " another evaluator"
            )
        work = _SecondOpinion(store, evaluator, stop or threading.Event(), on_progress)
        return work.ask(min_visits)


class _SecondOpinion:
    """One call, on an open store."""

    def __init__(
        self, store: Store, evaluator: Evaluator, stop: threading.Event, on_progress: OnProgress | None
    ) -> None:
        self._store = store
        self._evaluator = evaluator
        self._stop = stop
        self._on_progress = on_progress or (lambda progress: None)
        self._started = self._saved_at = time.monotonic()
        self._waiting: list[Opinion] = []
        self._evaluated = self._updated = self._done = self._total = self._least = 0
        self._change = self._largest = 0.0
        with store.transaction():
            self._number = store.add_evaluator(evaluator.identity)
            self._run = store.begin_run("", {}, {}, kind=KIND, evaluator=self._number)

    def ask(self, min_visits: int) -> OpinionReport:
        """Counts, then evaluates pass by pass; saves all evaluations even after an error."""
        try:
            steps = self._count(min_visits)
            for answer in answers(self._evaluator, self._left(steps), self._stop):
                self._take(answer)
                self._save_if_due()
                self._say(EVALUATING, self._done, self._total)
        finally:
            self._save()
            with self._store.transaction():
                self._store.finish_run(self._run, 0, self._evaluated)
        return self._report()

    # ---------------------------------------------------------- positions
    def _count(self, min_visits: int) -> list[tuple[int, int]]:
        """Returns the passes as ranges of visits, most visits first."""
        limits = [min_visits, *(STEPS**k for k in range(1, 11) if STEPS**k > min_visits), 1 << 40]
        found = np.zeros(len(limits) - 1, np.int64)
        read = 0
        for batch in read_portions(self._store, self._stop):
            read += len(batch)
            found += np.histogram(visits_of(batch)[_has_opinions(batch)], limits)[0]
            self._say(COUNTING, read, self._store.node_count)
        self._total = int(found.sum())
        ranges = list(pairwise(limits))
        return [ranges[k] for k in range(len(ranges) - 1, -1, -1) if found[k]]

    def _left(self, steps: Sequence[tuple[int, int]]) -> Iterator[RecordBatch]:
        """Yields the records that lack this evaluator's opinion; updates the rows of the others."""
        for least, below in steps:
            self._least = least
            for batch in read_portions(self._store, self._stop):
                visits = visits_of(batch)
                wanted = np.nonzero(_has_opinions(batch) & (visits >= least) & (visits < below))[0]
                if len(wanted):
                    yield from self._lacking(take(batch, wanted))

    def _lacking(self, records: RecordBatch) -> Iterator[RecordBatch]:
        keys = [key_text_of_words(words) for words in records.words.tolist()]
        rows = table.known(self._store, self._number, keys)
        lacking = [i for i, key in enumerate(keys) if key not in rows]
        visits = visits_of(records)
        for i, key in enumerate(keys):
            if key in rows:
                self._bring_up_to_date(rows[key], records, i, int(visits[i]))
        self._done += len(keys) - len(lacking)
        self._save_if_due()
        self._say(EVALUATING, self._done, self._total)
        if lacking:
            yield take(records, np.array(lacking, np.int64))

    def _bring_up_to_date(self, row: Opinion, records: RecordBatch, i: int, visits: int) -> None:
        """Queues a row for writing if its visits or the V of the file's evaluator have changed."""
        q = float(records.v[i])
        draw = share_of(q, int(records.d[i])) / D_SCALE
        if (row.n, row.q, row.draw) == (visits, q, draw):
            return
        best = row.best_move
        if (row.q, row.draw) != (q, draw):
            record = records.part(i, i + 1)
            best = _first_choices(record, positions_of(record).moves, record.codes)[0]
        self._waiting.append(replace(row, n=visits, q=q, draw=draw, best_move=best))
        self._updated += 1

    # ---------------------------------------------------------- writing
    def _take(self, answer: Reevaluation) -> None:
        change = np.abs(answer.v.astype(np.float64) - answer.records.v)
        self._change += float(change.sum())
        self._largest = max(self._largest, float(change.max()))
        self._waiting += _rows(answer, self._number, self._run)
        self._evaluated += len(answer.records)
        self._done += len(answer.records)

    def _save_if_due(self) -> None:
        late = time.monotonic() - self._saved_at >= SAVE_SECONDS
        if len(self._waiting) >= SAVE_ROWS or (late and self._waiting):
            self._save()

    def _save(self) -> None:
        with self._store.transaction():
            table.write(self._store, self._waiting)
            self._store.update_run(self._run, 0, self._evaluated)
        self._waiting = []
        self._saved_at = time.monotonic()
        shorten_log(self._store)

    # ---------------------------------------------------------- report
    def _say(self, stage: str, done: int, total: int) -> None:
        seconds = time.monotonic() - self._started
        self._on_progress(OpinionProgress(stage, done, total, self._evaluated, seconds, self._least))

    def _report(self) -> OpinionReport:
        return OpinionReport(
            finished=not self._stop.is_set(),
            positions=self._total,
            done=self._done,
            evaluated=self._evaluated,
            updated=self._updated,
            seconds=time.monotonic() - self._started,
            mean_change=self._change / self._evaluated if self._evaluated else 0.0,
            largest_change=self._largest,
        )


def _has_opinions(batch: RecordBatch) -> NDArray[np.bool_]:
    """Returns a mask of the records that an evaluator judges: neither terminals nor mates in one."""
    return np.asarray((np.diff(batch.code_offsets) > 0) & (batch.evaluator != BY_RULE))


def _rows(answer: Reevaluation, evaluator: int, run: int) -> Iterator[Opinion]:
    """Yields the rows of an answer, without positions answered by tablebases."""
    records, visits, exact = answer.records, visits_of(answer.records), answer.is_exact.tolist()
    first = _first_choices(records, answer.moves, records.codes)
    second = _first_choices(records, answer.moves, answer.codes)
    for i, (words, fen) in enumerate(zip(records.words.tolist(), fens(records.words), strict=True)):
        if exact[i]:
            continue
        yield Opinion(
            key=key_text_of_words(words),
            evaluator=evaluator,
            run=run,
            fen=fen,
            n=int(visits[i]),
            q=float(records.v[i]),
            draw=share_of(float(records.v[i]), int(records.d[i])) / D_SCALE,
            second_q=float(answer.v[i]),
            second_draw=int(answer.d[i]) / D_SCALE,
            best_move=first[i],
            second_best_move=second[i],
            policy=answer.codes[records.code_offsets[i] : records.code_offsets[i + 1]].tobytes(),
        )


def _first_choices(records: RecordBatch, moves: NDArray[np.uint16], codes: NDArray[np.uint8]) -> list[str]:
    """Returns the move of the largest P of every record, the first of equals, in UCI."""
    offsets = records.code_offsets
    largest = np.repeat(np.maximum.reduceat(codes, offsets[:-1]), np.diff(offsets))
    places = np.nonzero(codes == largest)[0]
    first = places[np.searchsorted(places, offsets[:-1])]
    return [_uci(code) for code in moves[first].tolist()]


@cache
def _uci(code: int) -> str:
    return decode_move(code).uci()
