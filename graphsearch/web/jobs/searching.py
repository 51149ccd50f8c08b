"""Searches for the page in the worker process: a graph file, or a cluster with its own processes.

A search that follows the board shares the time among its current position and a list of others. The graph
stays open between two searches, so a repeated search of a position continues where it ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import chess

from ...base.errors import GraphSearchError, UnsavedError
from ...search.turns import Turns
from ...store.sharded.manifest import is_sharded
from .memory import Memory
from .reporting import UPDATE_SECONDS, Reports
from .tasks import Reached, SearchTask, ready

if TYPE_CHECKING:
    import threading

    from ...graph.graph import Graph
    from ...graph.view import Reader
    from ...search.job import OnProgress, SearchJob
    from ...search.params import Limits
    from ...search.results import SearchResult
    from ...search.turns import Root
    from .tasks import FollowTask, Requests, Searching, SendProgress

IDLE_SECONDS = 0.03  # between two checks of requests while no root needs a search
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
def _open_graph(task: Searching, requests: Requests, send: SendProgress) -> Iterator[Graph]:
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
def _unsaved_told() -> Iterator[None]:
    """Turns the failure of a save into an error for the page."""
    try:
        yield
    except UnsavedError as error:
        raise GraphSearchError(f"the results could not be saved: {error}") from error


def _search_graph(
    graph: Graph, job: SearchJob, requests: Requests, stop: threading.Event, on_progress: OnProgress
) -> SearchResult:
    """Runs a search of an open graph until `stop`; it answers the questions of requests meanwhile."""
    from ...search.job import Control
    from ...search.loop import search
    from ...solvers.mate.beside import MateFinder

    limits = job.limits
    control = Control(
        on_progress=on_progress,
        interval=UPDATE_SECONDS,
        stop=stop,
        mates=MateFinder(seconds=limits.seconds, visits=limits.visits or limits.evaluations),
        on_slice=partial(_answer, graph, requests),
    )
    return search(graph, job, control)


def _answer(graph: Graph, requests: Requests) -> None:
    """Answers the open questions from the memory of a graph."""
    assert graph.path is not None
    requests.answer(partial(Memory, graph.path, graph.read))


@contextmanager
def _file(task: SearchTask, requests: Requests, send: SendProgress) -> Iterator[Searched]:
    """Yields a graph file, open in this process."""
    from ...search.job import SearchJob

    with _open_graph(task, requests, send) as graph:

        def search(board: chess.Board, limits: Limits, on_progress: OnProgress) -> SearchResult:
            job = SearchJob(board=board, limits=limits, params=task.params, searchmoves=_listed(task))
            return _search_graph(graph, job, requests, requests.stop, on_progress)

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
        with _unsaved_told():
            result = self._searched.search(board, limits, self._reports.show)
        self._totals |= {name: value + getattr(result, name) for name, value in self._totals.items()}
        self._reached = replace(
            self._reached,
            visits=self._reached.visits + result.new_visits,
            evaluations=self._reached.evaluations + result.evaluations,
            seconds=self._reached.seconds + result.seconds,
        )
        return result.stop_reason


# ------------------------------------------------------------ following
def do_follow(task: FollowTask, requests: Requests, send: SendProgress) -> dict[str, Any]:
    """Searches the roots of a task in turn until it is stopped; returns the final report for the page."""
    send({"stage": "starting"})
    with _open_graph(task, requests, send) as graph, _unsaved_told():
        return _Follower(task, graph, requests, send).run()


class _Follower:
    def __init__(self, task: FollowTask, graph: Graph, requests: Requests, send: SendProgress) -> None:
        self._task, self._graph, self._requests, self._send = task, graph, requests, send
        self._turns = Turns(task.roots)
        self._reports = Reports(graph.read, requests, send)
        self._totals = {"new_visits": 0, "evaluations": 0, "seconds": 0.0}

    def run(self) -> dict[str, Any]:
        while not self._requests.stop.is_set():
            self._requests.turn.clear()  # before the roots are read, so that new ones end the search
            if self._requests.stop.is_set():
                break
            if self._requests.roots is not None:
                self._turns.replace(self._requests.roots)
            root = self._turns.next()
            if root is None:
                self._rest()
            else:
                self._search(root)
        self._graph.flush()  # with all roots in the file's list, also those of the last seconds
        return {"stage": "done", "reason": "stop", **self._totals}

    def _search(self, root: Root) -> None:
        """Searches a root for a turn, or until other roots arrive."""
        self._reports.facts = {"title": f"follow {root.title}", "roots": self._turns.as_list()}
        job = self._turns.job(root, self._task.params)
        result = _search_graph(self._graph, job, self._requests, self._requests.turn, self._reports.show)
        self._totals |= {name: value + getattr(result, name) for name, value in self._totals.items()}
        self._turns.count(root, result.seconds, result.stop_reason)
        self._graph.save_soon()

    def _rest(self) -> None:
        """Waits for other roots: the current ones need no more search."""
        self._send({"stage": "resting", "roots": self._turns.as_list()})
        while not self._requests.turn.wait(IDLE_SECONDS):
            _answer(self._graph, self._requests)
            self._graph.save_soon()
