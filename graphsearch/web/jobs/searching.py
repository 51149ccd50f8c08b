"""Searches of a graph file for the page, in the worker process.

A search that follows the board shares the time among its current position and a list of others. The graph
stays open between two searches, so a repeated search of a position continues where it ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import chess

from ...base.errors import GraphSearchError, UnsavedError
from .memory import Memory
from .reporting import UPDATE_SECONDS, Reports
from .tasks import Reached, SearchTask, ready

if TYPE_CHECKING:
    import threading

    from ...graph.graph import Graph
    from ...search.job import Control, OnProgress
    from ...search.params import Limits
    from ...search.results import Progress
    from .tasks import FollowTask, Requests, Searching, SendProgress

IDLE_SECONDS = 0.03  # between two checks of requests while no root needs a search


def do_search(task: SearchTask, requests: Requests, send: SendProgress) -> dict[str, Any]:
    """Runs the searches of a task; returns the final report for the page."""
    send({"stage": "starting"})
    with _open_graph(task, requests, send) as graph:
        return _Searches(task, graph, requests, send).run()


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


def _control(graph: Graph, requests: Requests, stop: threading.Event, on_progress: OnProgress) -> Control:
    """Returns the control of searches until `stop` that answer the questions of requests meanwhile."""
    from ...search.job import Control

    return Control(
        on_progress=on_progress,
        interval=UPDATE_SECONDS,
        stop=stop,
        on_slice=partial(_answer, graph, requests),
    )


def _answer(graph: Graph, requests: Requests) -> None:
    """Answers the open questions from the memory of a graph."""
    assert graph.path is not None
    requests.answer(partial(Memory, graph.path, graph.read))


class _Searches:
    def __init__(self, task: SearchTask, graph: Graph, requests: Requests, send: SendProgress) -> None:
        self._task, self._graph, self._requests = task, graph, requests
        self._reached = task.reached
        self._totals = {"new_visits": 0, "evaluations": 0, "seconds": 0.0}
        self._reports = Reports(graph.read, requests, send)
        self._listed = tuple(chess.Move.from_uci(move) for move in task.searchmoves)

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
        }

    def _limits(self, board: chess.Board) -> Limits | None:
        """Returns the limits of a position; None if it needs no more visits."""
        limits, until = self._reached.left(self._task.limits), self._task.until
        if until is None or limits is None:
            return limits
        known = self._graph.read(board)
        missing = until - (known.visits if known else 0)
        if missing <= 0:
            return None
        return replace(limits, visits=min(missing, limits.visits or missing))

    def _one(self, board: chess.Board, limits: Limits) -> str:
        from ...search.job import SearchJob
        from ...search.loop import search
        from ...solvers.mate.beside import MateFinder

        job = SearchJob(
            board=board,
            limits=limits,
            params=self._task.params,
            searchmoves=self._listed,
            mates=MateFinder.within,
        )
        control = _control(self._graph, self._requests, self._requests.stop, self._reports.show)
        with _unsaved_told():
            result = search(self._graph, job, control)
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
        from ...search.turns import Turns

        self._graph, self._requests, self._send = graph, requests, send
        self._turns = Turns(task.roots)
        self._reports = Reports(graph.read, requests, send)
        self._totals = {"new_visits": 0, "evaluations": 0, "seconds": 0.0}

    def run(self) -> dict[str, Any]:
        from ...search.detached import OwnSearches
        from ...search.params import Limits
        from ...search.turns import search_in_turns

        requests = self._requests
        searches = OwnSearches[Any](self._graph, _control(self._graph, requests, requests.turn, self._show))
        while not requests.stop.is_set():
            requests.turn.clear()  # before the roots are read, so that new ones end the search
            if requests.stop.is_set():
                break
            if requests.roots is not None:
                self._turns.replace(requests.roots)
            for _, result in search_in_turns(searches, self._turns, requests.turn, Limits()):
                self._totals |= {name: value + getattr(result, name) for name, value in self._totals.items()}
                self._graph.save_soon()
            if not requests.turn.is_set():
                self._rest()
        self._graph.flush()  # with all roots in the file's list, also those of the last seconds
        return {"stage": "done", "reason": "stop", **self._totals}

    def _show(self, now: Progress) -> None:
        """Reports a search of the root that has its turn."""
        if (job := self._turns.next()) is not None:
            self._reports.facts = {"title": f"follow {job.title}", "roots": self._turns.as_list()}
            self._reports.show(now)

    def _rest(self) -> None:
        """Waits for other roots: the current ones need no more search."""
        self._send({"stage": "resting", "roots": self._turns.as_list()})
        while not self._requests.turn.wait(IDLE_SECONDS):
            _answer(self._graph, self._requests)
            self._graph.save_soon()
