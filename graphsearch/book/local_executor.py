"""The executor without workers: it searches one task after the other in this process."""

from __future__ import annotations

import os
import threading
from collections import deque

import chess

from ..evaluators.protocol import Evaluator
from ..graph.graph import Graph
from ..position.notation import board_from_fen
from ..search.loop import analyze
from ..search.params import Limits, SearchParams
from ..search.shards.store import open_to_write
from ..solvers.mate.beside import MateFinder
from ..store.record.node import NodeRecord
from .executor import UNFINISHED, Note, Outcome, Task


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
          run: row of the table `run`, which records carry.
          stop: ends the running search, whose results are kept.

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
        """One."""
        return 1

    @property
    def open_tasks(self) -> int:
        """The number of submitted tasks that were not searched."""
        return len(self._tasks)

    def submit(self, task: Task) -> None:
        """Queues a task."""
        self._tasks.append(task)

    def finished(self, timeout: float) -> list[Outcome]:
        """Searches the oldest task, however long that takes, and returns its outcome."""
        if not self._tasks:
            return []
        task = self._tasks.popleft()
        board = board_from_fen(task.fen)
        result = analyze(
            self._graph,
            board,
            Limits(visits=task.visits, evaluations=task.evaluations),
            SearchParams.from_options(f"{name}={text}" for name, text in task.params),
            stop=self._stop,
            searchmoves=[chess.Move.from_uci(move) for move in task.moves],
            hurry=True,
            run=self._run,
            mates=MateFinder(visits=task.visits or task.evaluations),
        )
        is_whole = result.stop_reason not in UNFINISHED
        return [Outcome(task, result.new_visits, result.evaluations, is_whole=is_whole)]

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position."""
        return self._graph.read(board)

    def note(self, note: Note) -> None:
        """Adds a write to the next transaction."""
        self._graph.note_later(note)

    def save(self, *, wait: bool) -> None:
        """Saves pending data."""
        if wait:
            self._graph.flush()
        else:
            self._graph.save_soon()

    def stop(self) -> None:
        """Drops the tasks that were not searched."""
        self._stop.set()
        self._tasks.clear()

    def close(self) -> None:
        """Saves pending data, and closes the file."""
        self._graph.close()
