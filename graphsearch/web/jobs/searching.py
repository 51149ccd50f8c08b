"""The searches of the page: of a position, and of the position on the board.

The graph stays open between two searches of a process, so a repeated search of a position continues where it
ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import chess
from pydantic import Field

from ...base.answer import picked
from ...base.system import give_way
from ...position.notation import read_moves
from ...search.job import Control, SearchJob, limits_after
from ...search.params import Limits
from ..wanted import Count, GivenPosition, Words
from .task import Place, Settings, Task, Work

if TYPE_CHECKING:
    from threading import Event

    from ...graph.graph import Graph
    from ...search.results import Progress

MOST_SECONDS = 10**9
MOST_NAMED = 5  # moves in the title of a search
IDLE_SECONDS = 0.03  # between two looks at the server's messages while the position needs no search
UPDATE_SECONDS = 0.2  # between two reports
COUNTERS = (
    "seconds visits new_visits evaluations catch_ups collisions nodes resident ram_bytes read_back"
    " written=saved_nodes depth seldepth visits_per_s evaluations_per_s"
)
TOTALS = "new_visits evaluations seconds"
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS)]


def name_of(board: chess.Board) -> str:
    """Returns a line as a title: its last moves, or the position's FEN."""
    if not board.move_stack:
        return "the start position" if board.fen() == chess.STARTING_FEN else board.fen()
    text = board.root().variation_san(board.move_stack)
    return text if len(text) <= 60 else "… " + text[-58:].partition(" ")[2]


class PositionTask(GivenPosition, Settings, Task):
    """A search of a position; `searchmoves`: the moves to search there; none: all."""

    searchmoves: Words = ""

    def title(self, place: Place) -> str:
        """Returns the position's name, with the moves that the search takes or leaves out."""
        self.check(place)
        board = self.board()
        listed = self.listed(board)
        others = [move for move in board.legal_moves if move not in listed]
        title = f"{self.word} {name_of(board)}"
        if not listed or not others:
            return title
        word, moves = ("only", listed) if len(listed) <= len(others) else ("without", tuple(others))
        names = [board.san(move) for move in moves[:MOST_NAMED]]
        return f"{title}, {word} {' '.join([*names, *['...'][: len(moves) - len(names)]])}"

    def listed(self, board: chess.Board) -> tuple[chess.Move, ...]:
        """Returns the moves to search; raises InvalidPositionError if one is illegal."""
        return tuple(read_moves(board, self.searchmoves)) if self.searchmoves.strip() else ()

    def job(self, limits: Limits) -> SearchJob:
        """Returns the search of the position."""
        from ...solvers.mate.beside import MateFinder

        board = self.board()
        return SearchJob(
            board=board,
            limits=limits,
            params=self.search_params(),
            searchmoves=self.listed(board),
            mates=MateFinder.within,
        )

    @contextmanager
    def opened(self, work: Work, stop: Event) -> Iterator[tuple[Graph, Control]]:
        """Compiles the kernels, and yields the open graph, and the control of its searches until `stop`."""
        from ...graph.graph import Graph
        from ...search.warm import other_kernels_compiling

        def show(now: Progress) -> None:
            node = now.node(0)
            found = node.as_dict()
            for move in found["moves"]:
                del move["pv"]
            report = {"counters": picked(now, COUNTERS), "reading": now.loaded}
            work.send({"stage": "searching", **report, "node": found | {"mate": node.mate}})

        with (
            work.ready(self.spec(work.place)) as evaluator,
            Graph.open(work.place.path, evaluator=evaluator, ram_bytes=work.place.ram(self.ram)) as graph,
            other_kernels_compiling(),
        ):
            give_way()  # to the server and the browser, which show what it finds
            answer = lambda: work.answer(graph.read)  # noqa: E731
            yield graph, Control(on_progress=show, interval=UPDATE_SECONDS, stop=stop, on_slice=answer)


class SearchTask(PositionTask):
    """A search of a position until its limits; with `queue` it waits for its turn."""

    word = "search"
    visits: Count | None = None
    evaluations: Count | None = None
    seconds: Seconds | None = None
    queue: bool = False

    @property
    def waits(self) -> bool:
        """Whether it waits for other programs, too."""
        return self.queue

    def run(self, work: Work) -> dict[str, Any]:
        """Searches what an interruption has left of the limits."""
        from ...search.loop import search

        before = spent_before(work.order.before)
        limits = Limits(visits=self.visits, evaluations=self.evaluations, seconds=self.seconds)
        left = limits_after(limits, visits=before["new_visits"], **before)
        totals: dict[str, Any] = {"reason": "visits"} | dict.fromkeys(before, 0)
        with self.opened(work, work.stop) as (graph, control):
            if left is not None:
                result = search(graph, self.job(left), control)
                totals = picked(result, f"reason=stop_reason {TOTALS}")
        return {"stage": "done", "spent": {name: before[name] + totals[name] for name in before}, **totals}


def spent_before(facts: dict[str, Any]) -> dict[str, float]:
    """Returns the visits, evaluations and seconds of a search before its interruption, from its last report.

    >>> spent_before({"spent": {"new_visits": 3, "evaluations": "x"}})
    {'new_visits': 3, 'evaluations': 0, 'seconds': 0}
    """
    kept = facts.get("spent")
    found = kept if isinstance(kept, dict) else {}
    numbers = {name: found.get(name) for name in TOTALS.split()}
    return {name: value if isinstance(value, int | float) else 0 for name, value in numbers.items()}


class FollowTask(PositionTask):
    """A search of a position until it is stopped; another such task replaces it."""

    word = "follow"
    is_kept = False

    def run(self, work: Work) -> dict[str, Any]:
        """Searches the position, and those that replace it, until the end."""
        from ...search.loop import search

        totals = dict.fromkeys(TOTALS.split(), 0.0)
        with self.opened(work, work.turn) as (graph, control):
            while not work.stop.is_set():
                work.turn.clear()  # before the task is read, so that a new one ends the search
                if work.stop.is_set():
                    break
                task = work.task if isinstance(work.task, FollowTask) else self
                work.facts = {"title": task.title(work.place)}
                result = search(graph, replace(task.job(Limits()), hurry=True, lines=0), control)
                totals = {name: value + getattr(result, name) for name, value in totals.items()}
                graph.save_soon()
                if not work.turn.is_set():
                    work.send({"stage": "resting"})
                while not work.turn.wait(IDLE_SECONDS):  # for another position: this one needs no more search
                    work.answer(graph.read)
                    graph.save_soon()
            graph.flush()  # with all roots in the file's list, also those of the last seconds
        return {"stage": "done", "reason": "stop", **totals}
