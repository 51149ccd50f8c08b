"""Executors search positions of a book: in this process, or with workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import chess

from ..store.record.node import NodeRecord
from ..store.store import Store

UNFINISHED = ("time", "stop", "memory", "reader")  # stop reasons of a search before its limit
Note = Callable[[Store], None]


@dataclass(frozen=True, slots=True)
class Task:
    """One search of one position.

    Attributes:
      key: of the position, as `key_text` has it.
      fen: the position, without history.
      moves: UCI moves that are searched; empty: all.
      evaluations, visits: limits; None: no such limit.
      params: (name, value text) pairs of the search.
    """

    key: str
    fen: str
    moves: tuple[str, ...] = ()
    evaluations: int | None = None
    visits: int | None = None
    params: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a task.

    Attributes:
      visits, evaluations: added by its search. error: why it failed; empty if it did not.
      is_whole: whether the search came to its limit; else it was stopped.
    """

    task: Task
    visits: int = 0
    evaluations: int = 0
    error: str = ""
    is_whole: bool = True


class Executor(Protocol):
    """Searches tasks, returns outcomes, and is the only writer of the file."""

    @property
    def capacity(self) -> int:
        """The number of tasks that are searched at once."""

    @property
    def open_tasks(self) -> int:
        """The number of tasks without an outcome."""

    def submit(self, task: Task) -> None:
        """Queues a task."""

    def finished(self, timeout: float) -> list[Outcome]:
        """Returns outcomes, whose records can be read; waits up to `timeout` seconds for the first.

        Raises:
          GraphSearchError: if the evaluator or the file fails.
        """

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position, None if the graph does not know it."""

    def note(self, note: Note) -> None:
        """Adds a write to the next transaction, after the records of all outcomes so far."""

    def save(self, *, wait: bool) -> None:
        """Saves pending data; with `wait` it is in the file on return.

        Raises:
          StoreError: if it cannot be written.
        """

    def stop(self) -> None:
        """Ends searches after their wave, and drops waiting tasks; no more may be submitted."""

    def close(self) -> None:
        """Stops running searches, saves their results, and closes the file."""
