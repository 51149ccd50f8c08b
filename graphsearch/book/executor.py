"""The executor that searches in this process; `workers.worker_executor` has the one with workers.

An executor searches tasks, returns their outcomes, and is the only writer of the file.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import chess

from ..evaluators.protocol import Evaluator
from ..graph.graph import Graph
from ..position.notation import board_from_fen
from ..search.loop import analyze
from ..search.params import Limits, SearchParams
from ..search.results import SearchResult
from ..solvers.mate.beside import MateFinder
from ..store.record.node import NodeRecord
from ..store.sharded.cluster_store import open_to_write
from ..store.store import Store

UNFINISHED = ("time", "stop", "memory", "reader")  # stop reasons of a search before its limit
Note = Callable[[Store], None]


@dataclass(frozen=True, slots=True)
class Task:
    """One search of one position.

    Attributes:
      key: of the position, as `key_text` has it.
      fen: the position, without history.
      moves: UCI moves to search; empty: all.
      evaluations, visits: limits; None: no such limit.
      params: (name, value text) pairs of the search.
    """

    key: str
    fen: str
    moves: tuple[str, ...] = ()
    evaluations: int | None = None
    visits: int | None = None
    params: tuple[tuple[str, str], ...] = ()

    @property
    def limits(self) -> Limits:
        """The limits of its search."""
        return Limits(visits=self.visits, evaluations=self.evaluations)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a task.

    Attributes:
      visits, evaluations: added by its search. error: why it failed; empty if it did not.
      is_whole: whether the search reached its limit; otherwise it was stopped.
    """

    task: Task
    visits: int = 0
    evaluations: int = 0
    error: str = ""
    is_whole: bool = True


def search_task(graph: Graph, task: Task, limits: Limits, run: int, stop: threading.Event) -> SearchResult:
    """Searches the position of a task on a graph, within the task's limits or what is left of them.

    Raises:
      InvalidPositionError: if the FEN is malformed or its position illegal.
      GraphSearchError: if the evaluator or the file fails.
    """
    return analyze(
        graph,
        board_from_fen(task.fen),
        limits,
        SearchParams.from_options(f"{name}={text}" for name, text in task.params),
        stop=stop,
        searchmoves=[chess.Move.from_uci(move) for move in task.moves],
        hurry=True,
        run=run,
        mates=MateFinder(visits=task.visits or task.evaluations),
    )


class LocalExecutor:
    """One graph, searched in the calling thread while `finished` is called."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        evaluator: Evaluator,
        *,
        run: int,
        ram_bytes: int | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        """Opens the file.

        Args:
          run: row of the table `run`, stored in the records.
          stop: ends the running search, and keeps its results.

        Raises:
          StoreError: if the file cannot be opened for writing.
        """
        self._stop = stop or threading.Event()
        self._run = run
        self._tasks: deque[Task] = deque()
        store = open_to_write(path, identity=evaluator.identity, create=True)
        self._graph = Graph.over(store, evaluator, ram_bytes)

    @property
    def capacity(self) -> int:
        """The number of tasks that are searched at once."""
        return 1

    @property
    def open_tasks(self) -> int:
        """The number of tasks without an outcome."""
        return len(self._tasks)

    def submit(self, task: Task) -> None:
        """Queues a task."""
        self._tasks.append(task)

    def finished(self, timeout: float) -> list[Outcome]:
        """Searches the oldest task, however long that takes, and returns its outcome.

        Raises:
          GraphSearchError: if the evaluator or the file fails.
        """
        if not self._tasks:
            return []
        task = self._tasks.popleft()
        result = search_task(self._graph, task, task.limits, self._run, self._stop)
        is_whole = result.stop_reason not in UNFINISHED
        return [Outcome(task, result.new_visits, result.evaluations, is_whole=is_whole)]

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position, None if the graph does not know it."""
        return self._graph.read(board)

    def note(self, note: Note) -> None:
        """Adds a write to the next transaction, after the records of all outcomes so far."""
        self._graph.note_later(note)

    def save(self, *, wait: bool) -> None:
        """Saves pending data; with `wait` it is in the file on return."""
        if wait:
            self._graph.flush()
        else:
            self._graph.save_soon()

    def stop(self) -> None:
        """Ends the running search, and drops waiting tasks; the caller submits no more."""
        self._stop.set()
        self._tasks.clear()

    def close(self) -> None:
        """Saves pending data, and closes the file."""
        self._graph.close()
