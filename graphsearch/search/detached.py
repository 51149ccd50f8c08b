"""Searches of many jobs: one after the other here, or detached, on workers; each for its share of the time.

    owner    records below a position -> chunk ----> worker: graph in memory, search
             file <- merge <- new and changed records <- chunk

A worker gets a position with the records that the file has below it, at most `MOST_KNOWN`, and returns those
that its search has made or changed. The owner merges them by the rule of `store merge`, in one transaction.
Where an edge then has fewer visits than its child, the next visits catch up; visits that two workers made to
one position count once. A worker that dies or hangs is replaced, and its position searched again; if the
owner dies, the file lacks at most what was not merged.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, Generic, TypeVar

from ..base.errors import InvalidParameterError
from ..base.system import cores
from ..evaluators.factory import EvaluatorSpec, create, crew_of
from ..evaluators.pool import Crew
from ..evaluators.protocol import AbsentEvaluator, Evaluator
from ..graph.arena import default_budget
from ..graph.graph import Graph
from ..position.board import fen_of
from ..store.block import EncodedChunk, encode_chunk
from ..store.record import RecordBatch
from ..store.segment import sorted_records
from ..store.store import Store
from ..workers.executor import STOPPING
from .job import Control, SearchJob, limits_after
from .loop import search
from .params import Limits
from .results import SearchResult

MOST_KNOWN = 4096  # records that a worker gets: a fifth of a second to collect, some 500 kB
SLACK = 20.0  # a worker counts as hung after so many times the longest search so far,
LEAST_SECONDS = 600.0  # but not earlier than this
STOP_SECONDS = 10.0  # for workers to return what they have
Tag = TypeVar("Tag")


def encoded(batch: RecordBatch) -> EncodedChunk:
    """Returns the encoded records of a batch, in any order."""
    return encode_chunk(sorted_records(batch), None)


# ---------------------------------------------------------- in a worker
def search_detached(
    evaluator: Evaluator, job: SearchJob, known: EncodedChunk, number: int, ram_bytes: int | None
) -> tuple[SearchResult, EncodedChunk]:
    """Returns the result of a search in memory, in a worker process, and the new and changed records.

    Args:
      known: the records that the file has below the position. number: of the file's evaluator.
      ram_bytes: of its graph; None: the share of one core in the machine's memory.
    """
    with Graph.detached(
        evaluator, known.records(), number, ram_bytes or default_budget() // cores()
    ) as graph:
        return search(graph, job, Control(stop=STOPPING)), encoded(graph.changed_records())


# ---------------------------------------------------------- in the owner of the file
class Searches(Generic[Tag]):
    """Searches of one process, one after the other.

    Attributes:
      control: of the next ones. count: searches at once. is_detached: whether they only report results.
    """

    count, is_detached = 1, False

    def __init__(self, graph: Graph, control: Control) -> None:
        self._graph, self.control = graph, control
        self._running: dict[Any, Tag] = {}

    @property
    def room(self) -> int:
        """The number of further searches that can begin now."""
        return self.count - len(self._running)

    @property
    def running(self) -> list[Tag]:
        """The tags of the searches under way; without workers, of the one that `finished` will make."""
        return list(self._running.values())

    def start(self, tag: Tag, job: SearchJob) -> None:
        """Notes a search."""
        self._running[partial(search, self._graph, replace(job, hurry=True))] = tag

    def finished(self, seconds: float) -> Iterator[tuple[Tag, SearchResult]]:
        """Makes the search, and yields it; `search` describes the errors."""
        while self._running:
            made, tag = self._running.popitem()
            yield tag, made(self.control)

    def stop(self, seconds: float) -> Iterator[tuple[Tag, SearchResult]]:
        """Drops the noted search; nothing is under way."""
        self._running.clear()
        yield from ()


class DetachedSearches(Searches[Tag]):
    """Searches on workers, which report their results only. The graph must leave all records in its file."""

    is_detached = True

    def __init__(self, graph: Graph, crew: Crew, control: Control, *, ram_bytes: int | None = None) -> None:
        """`ram_bytes`: of all workers together; None: what their machines have."""
        super().__init__(graph, control)
        self._crew, self.count = crew, crew.count
        self._ram_bytes = ram_bytes and ram_bytes // self.count
        self._longest = inf  # seconds of a search so far; inf before the first has ended
        self._run: int | None = None  # of jobs without one
        self._visits = self._evaluations = 0  # of that run

    def start(self, tag: Tag, job: SearchJob) -> None:
        """Starts a search; jobs without a run in the file share one. Raises StoreError."""
        graph = self._graph
        assert graph.store is not None
        if job.lists:
            graph.begin_search(job.board, lists=True)
        if job.run is None and self._run is None:
            graph.call(partial(self._begin_run, job))
        known = encoded(graph.pager.records_below(job.board, MOST_KNOWN))
        job = replace(job, run=job.run or self._run, lists=False, hurry=False)
        given = self._crew.ask(
            search_detached,
            job,
            known,
            graph.store.evaluator_number,
            self._ram_bytes,
            name=f"the search of {fen_of(job.board)}",
            seconds=max(LEAST_SECONDS, SLACK * self._longest),  # the limits of a job are alike
        )
        self._running[given] = tag

    def _begin_run(self, job: SearchJob, store: Store) -> None:
        self._run = store.begin_run(fen_of(job.board), {}, job.params.as_dict())

    def _note_run(self, store: Store, *, finished: bool = False) -> None:
        if self._run is not None:
            store.update_run(self._run, self._visits, self._evaluations, finished=finished)

    def finish(self) -> None:
        """Writes the end of the run of jobs without one."""
        self._graph.call(lambda store: self._note_run(store, finished=True))

    def finished(self, seconds: float) -> Iterator[tuple[Tag, SearchResult]]:
        """Yields the searches that end within some seconds, after merging their records into the file.

        Raises:
          EvaluatorError: if an evaluator fails, or three workers in a row end over one position.
          StoreError: if the file cannot be written.
        """
        for future in wait(self._running, seconds, FIRST_COMPLETED).done:
            tag, (result, changed) = self._running.pop(future), future.result()
            self._longest = max(0.0 if self._longest == inf else self._longest, result.seconds)
            self._visits += result.new_visits
            self._evaluations += result.evaluations
            self._graph.note_later(self._note_run)
            self._graph.add_records(changed.records())
            yield tag, result

    def stop(self, seconds: float) -> Iterator[tuple[Tag, SearchResult]]:
        """Stops all searches; yields those that end within some seconds, as `finished` does."""
        self._crew.stop()
        until = time.monotonic() + seconds
        while self._running and (left := until - time.monotonic()) > 0:
            yield from self.finished(left)


@contextmanager
def open_searches(
    path: str | os.PathLike[str] | None,
    evaluator: Evaluator | EvaluatorSpec,
    control: Control,
    *,
    ram_bytes: int | None = None,
    workers: int | None = None,
    pool: str | None = None,
) -> Iterator[tuple[Graph, Searches[Any]]]:
    """Yields the graph of a file, made if it is missing, and what searches it.

    Args:
      path: None keeps the graph in memory; with workers, in a temporary file.
      evaluator: the caller closes an Evaluator; workers need a specification.
      control: of the searches of this process. ram_bytes: of the graph, or of all workers together.
      workers: number of processes that search, in `pool` (`evaluators.pool.site_of`); None: this one.

    Raises:
      InvalidParameterError, EvaluatorError, StoreError: as `Graph.open`, `factory.crew_of`.
    """
    with ExitStack() as stack:
        if workers is None:
            if isinstance(evaluator, EvaluatorSpec):
                evaluator = stack.enter_context(closing(create(evaluator)))
            graph = stack.enter_context(Graph.open(path, evaluator=evaluator, ram_bytes=ram_bytes))
            yield graph, Searches(graph, control)
            return
        if not isinstance(evaluator, EvaluatorSpec):
            raise InvalidParameterError("each worker makes its own evaluator: give an EvaluatorSpec")
        crew = crew_of(evaluator, workers, pool)
        stack.callback(crew.close)
        identity = crew.describe().identity
        if path is None:
            path = Path(stack.enter_context(TemporaryDirectory())) / "searched.graph"
        store = Store.open(path, identity=identity, create=True)
        graph = stack.enter_context(Graph.over(store, AbsentEvaluator(identity), in_file=True))
        searches = DetachedSearches[Any](graph, crew, control, ram_bytes=ram_bytes)
        yield graph, searches
        searches.finish()


# ---------------------------------------------------------- in turns
ROUND_SECONDS = 30.0  # of a round, in which each job has one turn
LEAST_TURN_SECONDS = 3.0  # of a turn: each begins a run in the file
UNFINISHED = {"time", "stop"}  # reasons after which a job has another turn
WAIT_SECONDS = 0.5  # for workers, between two looks at `stop`
Found = Iterator[tuple[SearchJob, SearchResult]]


class Turns:
    """The jobs, the seconds that each has had, and the jobs that need no more search."""

    def __init__(self, jobs: Sequence[SearchJob], *, round_seconds: float = ROUND_SECONDS) -> None:
        """Begins with these jobs; in `round_seconds` each has one turn."""
        self.jobs = tuple(jobs)
        self.round = round_seconds
        self._had = defaultdict[str, float](float)  # seconds, by position and moves
        self._ended: dict[str, str] = {}  # why it needs no more search

    def next(self, running: Iterable[SearchJob] = ()) -> SearchJob | None:
        """Returns the job with the least time for its share, without those running; None if none is left."""
        busy = set(map(_key, running))
        waiting = [job for job in self._open() if _key(job) not in busy]
        return min(waiting, key=lambda job: self.had(job) / job.share, default=None)

    def _open(self) -> list[SearchJob]:
        return [job for job in self.jobs if not self.ended(job)]

    def seconds(self, job: SearchJob) -> float | None:
        """Returns the length of a job's turn in seconds; None if no other job needs more search."""
        open_ = self._open()
        if len(open_) < 2:
            return None
        least = min(LEAST_TURN_SECONDS, self.round / len(open_))
        return max(least, self.round * job.share / sum(one.share for one in open_))

    def turn(self, job: SearchJob, left: Limits, *, most: float | None = None) -> SearchJob:
        """Returns the search of a job's turn, of at most `most` seconds; `left`: what remains for it."""
        times = [seconds for seconds in (self.seconds(job) or most, left.seconds) if seconds is not None]
        limits = Limits(seconds=min(times, default=None), evaluations=left.evaluations)
        return replace(job, limits=limits, hurry=True, lines=0)

    def had(self, job: SearchJob) -> float:
        """Returns the seconds that a job has had."""
        return self._had[_key(job)]

    def ended(self, job: SearchJob) -> str:
        """Returns why a job needs no more search; empty if it does."""
        return self._ended.get(_key(job), "")

    def count(self, job: SearchJob, seconds: float, reason: str) -> None:
        """Adds the seconds of a job's search, and stores why it ended."""
        self._had[_key(job)] += seconds
        if reason not in UNFINISHED:
            self._ended[_key(job)] = reason


def search_in_turns(searches: Searches[SearchJob], turns: Turns, stop: Event, limits: Limits) -> Found:
    """Searches jobs in turn until `stop`, a limit of all together, or until none needs more; yields results.

    Workers search as many jobs at once; what a turn on a worker finds is saved when it ends.
    """
    began, evaluations = time.monotonic(), 0
    promised: dict[str, int] = {}  # evaluations of the turns under way, if they are limited

    def counted(found: Found) -> Found:
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
