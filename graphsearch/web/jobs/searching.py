"""Searches for the page, in the other process: of a graph file, or of a cluster with its own processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

import chess

from ...errors import GraphSearchError, UnsavedError
from ...position.board import board_of
from ...store.sharded.manifest import is_sharded
from ..lines import with_sans
from .tasks import SearchTask, ready

if TYPE_CHECKING:
    from ...graph.view import NodeView, Reader
    from ...search.params import Limits
    from ...search.results import Progress, SearchResult
    from .tasks import Requests, SendProgress

LINES, WATCHED_LINES = 5, 3  # best moves with their line
UPDATE_SECONDS = 0.2  # between two signs of progress, at least
LONGEST_SECONDS = 0.6  # between two updates of the numbers of a watched position, but for the next progress
SHARE = 0.005  # of its time that a search spends on lines for the page, and as much on everything else

OnProgress = Callable[["Progress"], None]
Search = Callable[[chess.Board, "Limits", OnProgress], "SearchResult"]


@dataclass(frozen=True, slots=True)
class Searched:
    """An open graph to search.

    read: returns the record of a position. search: searches a position, and saves.
      facts: of the last search, reported at the end.
    """

    read: Reader
    search: Search
    facts: dict[str, Any]


def do_search(task: SearchTask, requests: Requests, send: SendProgress) -> dict[str, Any]:
    """Runs the searches of a task; returns the final report for the page."""
    send({"stage": "starting"})
    opened = _cluster if is_sharded(task.path) else _file
    with opened(task, requests, send) as searched:
        return _Searches(task, searched, requests, send).run()


@contextmanager
def _file(task: SearchTask, requests: Requests, send: SendProgress) -> Iterator[Searched]:
    """Yields a graph file, open in this process."""
    from ...graph.graph import Graph
    from ...search.loop import analyze, moves_of_tables
    from ...search.warm import paging_kernels_compiling
    from ...solvers.mate.beside import MateFinder

    with (
        ready(task.evaluator, send) as evaluator,
        Graph.open(task.path, evaluator=evaluator, ram_bytes=task.ram_bytes) as graph,
    ):

        def search(board: chess.Board, limits: Limits, on_progress: OnProgress) -> SearchResult:
            return analyze(
                graph,
                board,
                limits,
                task.params,
                on_progress=on_progress,
                interval=UPDATE_SECONDS,
                stop=requests.stop,
                searchmoves=_listed(task) or tuple(moves_of_tables(graph, board)),
                mates=MateFinder(seconds=limits.seconds, visits=limits.visits or limits.evaluations),
            )

        with paging_kernels_compiling():
            yield Searched(graph.read, search, {})


@contextmanager
def _cluster(task: SearchTask, requests: Requests, send: SendProgress) -> Iterator[Searched]:
    """Yields a cluster; its shards are processes of this one."""
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
        yield Searched(store.read, search, facts)


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
        self._send = send
        self._place = 0
        self._totals = {"new_visits": 0, "evaluations": 0, "seconds": 0.0}
        self._numbers = _Share(SHARE, UPDATE_SECONDS, LONGEST_SECONDS)
        self._lines = _Share(SHARE, UPDATE_SECONDS)
        self._watched_before: tuple[str, ...] = ()
        self._shown: dict[str, dict[str, Any]] = {}  # nodes with lines, by key

    def run(self) -> dict[str, Any]:
        reason = "visits"
        for place, board in enumerate(self._task.boards):
            self._place = place
            if self._requests.stop.is_set():
                break
            if (limits := self._limits(board)) is not None:
                reason = self._one(board, limits)
        return {
            "stage": "done",
            "reason": "stop" if self._requests.stop.is_set() else reason,
            "positions": len(self._task.boards),
            **self._totals,
            **self._searched.facts,
        }

    def _limits(self, board: chess.Board) -> Limits | None:
        """Returns the limits of a position; None if it has all its visits already."""
        task = self._task
        if task.until is None:
            return task.limits
        known = self._searched.read(board)
        missing = task.until - (known.visits if known else 0)
        if missing <= 0:
            return None
        return replace(task.limits, visits=min(missing, task.limits.visits or missing))

    def _one(self, board: chess.Board, limits: Limits) -> str:
        try:
            result = self._searched.search(board, limits, self._show)
        except UnsavedError as error:
            raise GraphSearchError(f"what was found could not be saved: {error}") from error
        self._totals["new_visits"] += result.new_visits
        self._totals["evaluations"] += result.evaluations
        self._totals["seconds"] += result.seconds
        return result.stop_reason

    def _show(self, now: Progress) -> None:
        """Reports a search's state; lines take twenty times as long as numbers, and are sent less often."""
        watched = self._requests.watched
        if not self._numbers.is_due() and watched == self._watched_before:
            return
        self._watched_before = watched
        with self._numbers:
            nodes = [node := now.node(0), *self._watched(node.position, lines=0)]
            facts = {
                "stage": "searching",
                "place": self._place + 1,
                "positions": len(self._task.boards),
                "counters": _counters(now),
                "reading": now.loaded,
            }
        if self._lines.is_due():
            with self._lines:
                found = [now.node(LINES), *self._watched(node.position, lines=WATCHED_LINES)]
                self._shown = {view.key: _node(view) for view in found}
        self._send(facts | {"nodes": [self._fresh(node) for node in nodes]})

    def _watched(self, root: str, *, lines: int) -> list[NodeView]:
        """Returns the watched positions that the graph knows."""
        from ...graph.view import view

        boards = [board_of(fen) for fen in self._requests.watched if fen != root]
        found = [view(self._searched.read, board, lines=lines) for board in boards]
        return [node for node in found if node]

    def _fresh(self, node: NodeView) -> dict[str, Any]:
        """Returns the present state of a node, its moves with the lines last shown."""
        known = {move["move"]: move for move in self._shown.get(node.key, {}).get("moves", ())}
        moves = [_with_line(move, known.get(move["move"])) for move in node.as_dict()["moves"]]
        return node.as_dict() | {"mate": node.mate, "moves": moves}


class _Share:
    """A context whose body may take a share of the time: it is due again after a long enough pause."""

    def __init__(self, share: float, least: float, most: float = inf) -> None:
        """Takes the share, and the least and most seconds between two times."""
        self._share = share
        self._least, self._most = least, most
        self._next = self._began = self._used = 0.0

    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def __enter__(self) -> None:
        self._began, self._used = time.monotonic(), time.thread_time()

    def __exit__(self, *_: object) -> None:
        used = time.thread_time() - self._used
        self._next = self._began + max(self._least, min(self._most, used / self._share))


def _with_line(move: dict[str, Any], known: dict[str, Any] | None) -> dict[str, Any]:
    """Returns a move with the line last shown for it."""
    line = {name: known[name] for name in ("pv", "pv_san")} if known else {"pv_san": [move["san"]]}
    return move | line


def _node(node: NodeView) -> dict[str, Any]:
    return with_sans({**node.as_dict(), "mate": node.mate}, board_of(node.position))


_COUNTERS = (
    "seconds", "visits", "new_visits", "evaluations", "catch_ups", "collisions", "nodes", "resident",
    "ram_bytes", "read_back", "written", "depth", "seldepth", "visits_per_s", "evaluations_per_s",
)  # fmt: skip


def _counters(now: Progress) -> dict[str, float]:
    return {name: getattr(now, name) for name in _COUNTERS}
