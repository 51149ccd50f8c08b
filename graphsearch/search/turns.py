"""Divides the time of searches among several jobs, in turns."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from threading import Event

from ..position.board import fen_of
from .detached import STOP_SECONDS, Searches
from .job import SearchJob, limits_after
from .params import Limits
from .results import SearchResult

ROUND_SECONDS = 30.0  # of a round, in which each job has one turn
LEAST_SECONDS = 3.0  # of a turn: each begins a run in the file
UNFINISHED = {"time", "stop"}  # reasons after which a job has another turn
WAIT_SECONDS = 0.5  # for workers, between two looks at `stop`


class Turns:
    """The jobs, the seconds that each has had, and the jobs that need no more search."""

    def __init__(self, jobs: Sequence[SearchJob], *, round_seconds: float = ROUND_SECONDS) -> None:
        """Begins with these jobs; in `round_seconds` each has one turn."""
        self.jobs = tuple(jobs)
        self.round = round_seconds
        self._had: dict[str, float] = {}  # seconds divided by the share, by position and moves
        self._ended: dict[str, str] = {}  # why it needs no more search

    def next(self, running: Iterable[SearchJob] = ()) -> SearchJob | None:
        """Returns the job with the least time for its share, without those running; None if none is left."""
        busy = set(map(_key, running))
        open_ = [job for job in self._open() if _key(job) not in busy]
        return min(open_, key=lambda job: self._had.get(_key(job), 0.0), default=None)

    def _open(self) -> list[SearchJob]:
        return [job for job in self.jobs if not self.ended(job)]

    def seconds(self, job: SearchJob) -> float | None:
        """Returns the length of a job's turn in seconds; None if no other job needs more search."""
        open_ = self._open()
        if len(open_) < 2:
            return None
        least = min(LEAST_SECONDS, self.round / len(open_))
        return max(least, self.round * job.share / sum(one.share for one in open_))

    def turn(self, job: SearchJob, left: Limits, *, most: float | None = None) -> SearchJob:
        """Returns the search of a job's turn, of at most `most` seconds; `left`: what remains for it."""
        times = [seconds for seconds in (self.seconds(job) or most, left.seconds) if seconds is not None]
        limits = Limits(seconds=min(times, default=None), evaluations=left.evaluations)
        return replace(job, limits=limits, hurry=True, lines=0)

    def had(self, job: SearchJob) -> float:
        """Returns the seconds that a job has had."""
        return self._had.get(_key(job), 0.0) * job.share

    def ended(self, job: SearchJob) -> str:
        """Returns why a job needs no more search; empty if it does."""
        return self._ended.get(_key(job), "")

    def count(self, job: SearchJob, seconds: float, reason: str) -> None:
        """Adds the seconds of a job's search, and stores why it ended."""
        key = _key(job)
        self._had[key] = self._had.get(key, 0.0) + seconds / job.share
        if reason not in UNFINISHED:
            self._ended[key] = reason


def search_in_turns(
    searches: Searches[SearchJob], turns: Turns, stop: Event, limits: Limits
) -> Iterator[tuple[SearchJob, SearchResult]]:
    """Searches jobs in turn until `stop`, a limit of all together, or until none needs more.

    Workers search as many jobs at once; what a turn on a worker finds is saved when it ends.

    Yields:
      each job with the result of its turn.

    Raises:
      EvaluatorError, StoreError: as a search raises them.
    """
    began, evaluations = time.monotonic(), 0
    promised: dict[str, int] = {}  # evaluations of the turns under way, if they are limited

    def counted(
        found: Iterator[tuple[SearchJob, SearchResult]],
    ) -> Iterator[tuple[SearchJob, SearchResult]]:
        nonlocal evaluations
        for job, result in found:
            evaluations += result.evaluations
            promised.pop(_key(job), None)
            turns.count(job, result.seconds, result.stop_reason)
            yield job, result

    while not stop.is_set():
        while searches.room and (job := turns.next(searches.running)) is not None:
            spent = evaluations + sum(promised.values())
            left = limits_after(limits, seconds=time.monotonic() - began, evaluations=spent)
            if left is None:
                break
            if left.evaluations is not None:
                promised[_key(job)] = max(1, left.evaluations // searches.room)
                left = replace(left, evaluations=promised[_key(job)])
            searches.start(job, turns.turn(job, left, most=turns.round if searches.is_detached else None))
        if not searches.running:
            return
        yield from counted(searches.finished(WAIT_SECONDS))
    yield from counted(searches.stop(STOP_SECONDS))


def _key(job: SearchJob) -> str:
    played = " ".join(move.uci() for move in job.board.move_stack)
    return f"{fen_of(job.board.root())} {played} {job.searchmoves}"
