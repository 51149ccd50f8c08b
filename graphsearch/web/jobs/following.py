"""Searches the board's current position and a list of others, each for its share of the time.

The graph stays open between two searches, so a repeated search of a position continues where it ended.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ...search.turns import Turns
from .reporting import UPDATE_SECONDS, Reports
from .searching import memory_of, open_graph, unsaved_told

if TYPE_CHECKING:
    from ...graph.graph import Graph
    from ...search.results import SearchResult
    from ...search.turns import Root
    from .tasks import FollowTask, Requests, SendProgress

IDLE_SECONDS = 0.03  # between two checks of requests while no root needs a search


def do_follow(task: FollowTask, requests: Requests, send: SendProgress) -> dict[str, Any]:
    """Searches the roots of a task in turn until it is stopped; returns the final report for the page."""
    send({"stage": "starting"})
    with open_graph(task, requests, send) as graph, unsaved_told():
        return _Follower(task, graph, requests, send).run()


class _Follower:
    """The searches of one task."""

    def __init__(self, task: FollowTask, graph: Graph, requests: Requests, send: SendProgress) -> None:
        self._task, self._graph, self._requests, self._send = task, graph, requests, send
        self._turns = Turns(task.roots)
        self._reports = Reports(graph.read, requests, send)
        self._answer = partial(requests.answer, partial(memory_of, graph))
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
        result = self._result(root)
        self._totals |= {name: value + getattr(result, name) for name, value in self._totals.items()}
        self._turns.count(root, result.seconds, result.stop_reason)
        self._graph.save_soon()

    def _result(self, root: Root) -> SearchResult:
        from ...search.job import Control
        from ...search.loop import search
        from ...solvers.mate.beside import MateFinder

        job = self._turns.job(root, self._task.params)
        control = Control(
            on_progress=self._reports.show,
            interval=UPDATE_SECONDS,
            stop=self._requests.turn,
            mates=MateFinder(seconds=job.limits.seconds),
            on_slice=self._answer,
        )
        return search(self._graph, job, control)

    def _rest(self) -> None:
        """Waits for other roots: the current ones need no more search."""
        self._send({"stage": "resting", "roots": self._turns.as_list()})
        while not self._requests.turn.wait(IDLE_SECONDS):
            self._answer()
            self._graph.save_soon()
