"""The searches of the page: of a position, and of the position on the board.

The graph stays open between two searches of a process, so a repeated search of a position continues where it
ended.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import chess
from pydantic import Field

from ...base.answer import picked
from ...position.board import board_of
from ...position.notation import read_moves
from ...search.job import Control, OnProgress, SearchJob, limits_after
from ...search.params import Limits
from ..wanted import Count, GivenPosition, Words
from .task import Place, Settings, Task, Work

if TYPE_CHECKING:
    import threading

    from ...graph.graph import Graph
    from ...graph.view import NodeView, Reader
    from ...search.results import Progress, SearchResult

MOST_SECONDS = 10**9
MOST_NAMED = 5  # moves in the title of a search
IDLE_SECONDS = 0.03  # between two looks at the server's messages while the position needs no search
UPDATE_SECONDS = 0.2  # least time between two progress reports
LONGEST_SECONDS = 0.6  # most time between two updates of the numbers, plus the wait for the next progress
SHARE = 0.005  # of a search's time spent on reports
COUNTERS = (
    "seconds visits new_visits evaluations catch_ups collisions nodes resident ram_bytes read_back"
    " written=saved_nodes depth seldepth visits_per_s evaluations_per_s"
)
TOTALS = "new_visits evaluations seconds"
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS)]


# ---------------------------------------------------------------- what a search is
class RootWanted(GivenPosition):
    """A position to search, and the moves to search there; none: all."""

    searchmoves: Words = ""

    def listed(self, board: chess.Board) -> tuple[chess.Move, ...]:
        """Returns the moves to search; raises InvalidPositionError if one is illegal."""
        return tuple(read_moves(board, self.searchmoves)) if self.searchmoves.strip() else ()

    def name(self) -> str:
        """Returns the position as a title, with the moves that the search takes or leaves out."""
        board = self.board()
        listed = self.listed(board)
        others = [move for move in board.legal_moves if move not in listed]
        if not listed or not others:
            return name_of(board)
        word, moves = ("only", listed) if len(listed) <= len(others) else ("without", tuple(others))
        names = [board.san(move) for move in moves[:MOST_NAMED]]
        return f"{name_of(board)}, {word} {' '.join([*names, *['...'][: len(moves) - len(names)]])}"

    def job(self, settings: Settings, limits: Limits) -> SearchJob:
        """Returns the search of the position."""
        from ...solvers.mate.beside import MateFinder

        board = self.board()
        return SearchJob(
            board=board,
            limits=limits,
            params=settings.search_params(),
            searchmoves=self.listed(board),
            mates=MateFinder.within,
            title=self.name(),
        )


def name_of(board: chess.Board) -> str:
    """Returns a line as a title: its last moves, or the position's FEN."""
    if not board.move_stack:
        return "the start position" if board.fen() == chess.STARTING_FEN else board.fen()
    text = board.root().variation_san(board.move_stack)
    return text if len(text) <= 60 else "… " + text[-58:].partition(" ")[2]


@contextmanager
def opened(task: Settings, work: Work) -> Iterator[Graph]:
    """Compiles the kernels of a task, opens its graph in this process, and yields it."""
    from ...graph.graph import Graph
    from ...search.warm import other_kernels_compiling

    with (
        work.ready(task.spec(work.place)) as evaluator,
        Graph.open(work.place.path, evaluator=evaluator, ram_bytes=work.place.ram(task.ram)) as graph,
        other_kernels_compiling(),
    ):
        yield graph


class Reports:
    """The reports of a task's searches, and their totals.

    Attributes:
      facts: of the task itself; they are part of every report.
    """

    def __init__(self, read: Reader, work: Work) -> None:
        """Prepares reports; `read` reads positions of the graph."""
        self.facts: dict[str, Any] = {}
        self.totals = {"new_visits": 0, "evaluations": 0, "seconds": 0.0}
        self._read, self._work = read, work
        self._next = 0.0
        self._watched_before: tuple[str, ...] = ()

    def control(self, stop: threading.Event, show: OnProgress | None = None) -> Control:
        """Returns the control of searches until `stop` that report by `show`, and answer questions."""
        return Control(
            on_progress=show or self.show,
            interval=UPDATE_SECONDS,
            stop=stop,
            on_slice=lambda: self._work.answer(self._read),
        )

    def count(self, result: SearchResult) -> None:
        """Adds a search to the totals."""
        self.totals |= {name: value + getattr(result, name) for name, value in self.totals.items()}

    def show(self, now: Progress) -> None:
        """Reports a search's state, unless it was reported just now."""
        began, used, watched = time.monotonic(), time.thread_time(), self._work.watched
        if began < self._next and watched == self._watched_before:
            return
        self._watched_before = watched
        root = now.node(0)
        nodes = [_node(root), *(_node(each) for each in self._watched(root.position))]
        report = {"counters": picked(now, COUNTERS), "reading": now.loaded, "nodes": nodes}
        self._next = began + pause_after(time.thread_time() - used)
        self._work.send(self.facts | {"stage": "searching"} | report)

    def _watched(self, root: str) -> Iterator[NodeView]:
        """Yields the watched positions in the graph, except the root."""
        from ...graph.view import view

        for fen in self._work.watched:
            node = None if fen == root else view(self._read, board_of(fen), lines=0)
            if node is not None:
                yield node


def pause_after(used: float) -> float:
    """Returns the seconds between two reports, the first of which took so many of CPU time.

    >>> pause_after(0.0), pause_after(0.002), pause_after(0.1)
    (0.2, 0.4, 0.6)
    """
    return max(UPDATE_SECONDS, min(LONGEST_SECONDS, used / SHARE))


def _node(node: NodeView) -> dict[str, Any]:
    """Returns a node for the page, without lines of its moves."""
    found = node.as_dict()
    for move in found["moves"]:
        del move["pv"]
    return found | {"mate": node.mate}


# ---------------------------------------------------------------- tasks
class SearchTask(RootWanted, Settings, Task):
    """A search of a position; with `queue` it waits for its turn."""

    word = "search"
    visits: Count | None = None
    evaluations: Count | None = None
    seconds: Seconds | None = None
    queue: bool = False

    @property
    def waits(self) -> bool:
        """Whether it waits for other programs, too."""
        return self.queue

    def limits(self) -> Limits:
        """Returns the limits of the whole search."""
        return Limits(visits=self.visits, evaluations=self.evaluations, seconds=self.seconds)

    def title(self, place: Place) -> str:
        """Returns the position's name."""
        self.check(place)
        return f"search {self.job(self, self.limits()).title}"

    def run(self, work: Work) -> dict[str, Any]:
        """Searches what an interruption has left of the limits."""
        from ...search.loop import search

        before = spent_before(work.order.before)
        names = {"new_visits": "visits"}
        left = limits_after(self.limits(), **{names.get(name, name): before[name] for name in before})
        with opened(self, work) as graph:
            reports, reason = Reports(graph.read, work), "visits"
            if left is not None:
                result = search(graph, self.job(self, left), reports.control(work.stop))
                reports.count(result)
                reason = result.stop_reason
        spent = {name: before[name] + reports.totals[name] for name in before}
        return {"stage": "done", "reason": reason, "spent": spent, **reports.totals}


def spent_before(facts: dict[str, Any]) -> dict[str, float]:
    """Returns the visits, evaluations and seconds of a search before its interruption, from its last report.

    >>> spent_before({"spent": {"new_visits": 3, "evaluations": "x"}})
    {'new_visits': 3, 'evaluations': 0, 'seconds': 0}
    """
    kept = facts.get("spent")
    found = kept if isinstance(kept, dict) else {}
    numbers = {name: found.get(name) for name in TOTALS.split()}
    return {name: value if isinstance(value, int | float) else 0 for name, value in numbers.items()}


class FollowTask(RootWanted, Settings, Task):
    """A search of a position until it is stopped; another such task replaces it."""

    word = "follow"
    is_kept = False

    def title(self, place: Place) -> str:
        """Returns the position's name."""
        self.check(place)
        return f"follow {self.job(self, Limits()).title}"

    def run(self, work: Work) -> dict[str, Any]:
        """Searches the position, and those that replace it, until the end."""
        from ...search.loop import search

        with opened(self, work) as graph:
            reports = Reports(graph.read, work)
            while not work.stop.is_set():
                work.turn.clear()  # before the task is read, so that a new one ends the search
                if work.stop.is_set():
                    break
                task = work.task if isinstance(work.task, FollowTask) else self
                job = replace(task.job(task, Limits()), hurry=True, lines=0)
                reports.facts = {"title": f"follow {job.title}"}
                reports.count(search(graph, job, reports.control(work.turn)))
                graph.save_soon()
                if not work.turn.is_set():
                    work.send({"stage": "resting"})
                while not work.turn.wait(IDLE_SECONDS):  # for another position: this one needs no more search
                    work.answer(graph.read)
                    graph.save_soon()
            graph.flush()  # with all roots in the file's list, also those of the last seconds
        return {"stage": "done", "reason": "stop", **reports.totals}
