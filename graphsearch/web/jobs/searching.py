"""Searches a graph file, or a cluster with its own processes, for the page in the worker process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import chess

from ...base.errors import GraphSearchError, UnsavedError
from ...store.sharded.manifest import is_sharded
from .memory import Memory
from .reporting import UPDATE_SECONDS, Reports
from .tasks import Reached, SearchTask, ready

if TYPE_CHECKING:
    from ...graph.graph import Graph
    from ...graph.view import Reader
    from ...search.job import OnProgress
    from ...search.params import Limits
    from ...search.results import SearchResult
    from .tasks import Requests, Searching, SendProgress

CLUSTER_LINES = 5  # best moves with lines in a cluster's reports; a search of one file answers queries

Search = Callable[[chess.Board, "Limits", "OnProgress"], "SearchResult"]


@dataclass(frozen=True, slots=True)
class Searched:
    """An open graph to search.

    Attributes:
      read: returns the record of a position. search: searches a position, and saves.
      facts: of the last search, reported at the end. lines: root moves with lines in reports.
    """

    read: Reader
    search: Search
    facts: dict[str, Any]
    lines: int = 0


def do_search(task: SearchTask, requests: Requests, send: SendProgress) -> dict[str, Any]:
    """Runs the searches of a task; returns the final report for the page."""
    send({"stage": "starting"})
    opened = _cluster if is_sharded(task.path) else _file
    with opened(task, requests, send) as searched:
        return _Searches(task, searched, requests, send).run()


@contextmanager
def open_graph(task: Searching, requests: Requests, send: SendProgress) -> Iterator[Graph]:
    """Compiles the kernels of a task, opens its graph in this process, and yields it."""
    from ...graph.graph import Graph
    from ...search.warm import paging_kernels_compiling

    with (
        ready(task.evaluator, send) as evaluator,
        Graph.open(task.path, evaluator=evaluator, ram_bytes=task.ram_bytes) as graph,
        paging_kernels_compiling(),
    ):
        yield graph


@contextmanager
def unsaved_told() -> Iterator[None]:
    """Turns the failure of a save into an error for the page."""
    try:
        yield
    except UnsavedError as error:
        raise GraphSearchError(f"the results could not be saved: {error}") from error


def memory_of(graph: Graph) -> Memory:
    """Returns the records of an open graph, for one question."""
    assert graph.path is not None
    return Memory(graph.path, graph.read)


@contextmanager
def _file(task: SearchTask, requests: Requests, send: SendProgress) -> Iterator[Searched]:
    """Yields a graph file, open in this process."""
    from ...search.job import Control, SearchJob
    from ...search.loop import search as search_graph
    from ...solvers.mate.beside import MateFinder

    with open_graph(task, requests, send) as graph:
        answer = partial(requests.answer, partial(memory_of, graph))

        def search(board: chess.Board, limits: Limits, on_progress: OnProgress) -> SearchResult:
            job = SearchJob(board=board, limits=limits, params=task.params, searchmoves=_listed(task))
            mates = MateFinder(seconds=limits.seconds, visits=limits.visits or limits.evaluations)
            control = Control(
                on_progress=on_progress,
                interval=UPDATE_SECONDS,
                stop=requests.stop,
                mates=mates,
                on_slice=answer,
            )
            return search_graph(graph, job, control)

        yield Searched(graph.read, search, {})


@contextmanager
def _cluster(task: SearchTask, requests: Requests, send: SendProgress) -> Iterator[Searched]:
    """Yields a cluster; its shards are child processes of this one."""
    from ...evaluators.uniform import UniformEvaluator
    from ...search.job import Control, SearchJob
    from ...search.shards import warm
    from ...search.shards.master import searching
    from ...store.sharded.files import open_to_read

    if warm.kernels_missing():
        send({"stage": "compiling"})
        warm.compile_kernels(UniformEvaluator())
    send({"stage": "opening"})  # from here on shards may write
    facts: dict[str, Any] = {}

    def search(board: chess.Board, limits: Limits, on_progress: OnProgress) -> SearchResult:
        job = SearchJob(board=board, limits=limits, params=task.params, searchmoves=_listed(task))
        found = shards.search(
            job, Control(on_progress=on_progress, interval=UPDATE_SECONDS, stop=requests.stop)
        )
        facts["shards"] = [_shard(report) for report in found.as_dict()["shards"]]
        return found.result

    with (
        open_to_read(task.path) as store,
        searching(task.path, evaluator=task.evaluator, ram_bytes=task.ram_bytes) as shards,
    ):
        yield Searched(store.read, search, facts, CLUSTER_LINES)


def _shard(report: dict[str, Any]) -> dict[str, Any]:
    """Returns a shard's figures for the page."""
    names = ("number", "place", "nodes", "evaluations", "saved", "seconds", "cpu_seconds")
    return {name: report[name] for name in names} | {"waited": report["traffic"]["waiting"]}


def _listed(task: SearchTask) -> tuple[chess.Move, ...]:
    return tuple(chess.Move.from_uci(move) for move in task.searchmoves)


class _Searches:
    """The searches of one task."""

    def __init__(self, task: SearchTask, searched: Searched, requests: Requests, send: SendProgress) -> None:
        self._task = task
        self._searched = searched
        self._requests = requests
        self._reached = task.reached
        self._totals = {"new_visits": 0, "evaluations": 0, "seconds": 0.0}
        self._reports = Reports(searched.read, requests, send, lines=searched.lines)

    def run(self) -> dict[str, Any]:
        reason = "visits"
        for place, board in enumerate(self._task.boards):
            self._reports.facts = {"place": place + 1, "positions": len(self._task.boards)}
            if self._requests.stop.is_set():
                break
            if place < self._reached.positions:
                continue
            if (limits := self._limits(board)) is not None:
                reason = self._one(board, limits)
            if not self._requests.stop.is_set():
                self._reached = Reached(place + 1)
        return {
            "stage": "done",
            "reason": "stop" if self._requests.stop.is_set() else reason,
            "positions": len(self._task.boards),
            "reached": asdict(self._reached),
            **self._totals,
            **self._searched.facts,
        }

    def _limits(self, board: chess.Board) -> Limits | None:
        """Returns the limits of a position; None if it needs no more visits."""
        limits, until = self._reached.left(self._task.limits), self._task.until
        if until is None or limits is None:
            return limits
        known = self._searched.read(board)
        missing = until - (known.visits if known else 0)
        if missing <= 0:
            return None
        return replace(limits, visits=min(missing, limits.visits or missing))

    def _one(self, board: chess.Board, limits: Limits) -> str:
        with unsaved_told():
            result = self._searched.search(board, limits, self._reports.show)
        self._totals |= {name: value + getattr(result, name) for name, value in self._totals.items()}
        self._reached = replace(
            self._reached,
            visits=self._reached.visits + result.new_visits,
            evaluations=self._reached.evaluations + result.evaluations,
            seconds=self._reached.seconds + result.seconds,
        )
        return result.stop_reason
