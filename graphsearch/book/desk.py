"""Where positions of a book are searched: in this process, or by workers. The builder sees no difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import chess

from ..record.node import NodeRecord
from ..store.store import Store

UNFINISHED = ("time", "stop", "memory", "reader")  # what ends a search before it has had its budget
Note = Callable[[Store], None]


@dataclass(frozen=True, slots=True)
class Task:
    """One search of one position.

    Attributes:
      key: of the position, 16 hex digits: what is leased.
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
    """What became of a task: what its search added; or, if `error` is not empty, why there is nothing.

    Attributes:
      is_whole: whether the search came to its limit; else it was stopped.
    """

    task: Task
    visits: int = 0
    evaluations: int = 0
    error: str = ""
    is_whole: bool = True


class Desk(Protocol):
    """Takes tasks, gives outcomes, and is the one writer of the file."""

    @property
    def capacity(self) -> int:
        """How many tasks it works on at once."""

    @property
    def open_tasks(self) -> int:
        """How many it has that have no outcome yet."""

    def submit(self, task: Task) -> None:
        """Takes a task."""

    def finished(self, timeout: float) -> list[Outcome]:
        """Returns outcomes, waiting up to `timeout` seconds for the first; what they found can be read then.

        Raises:
          GraphSearchError: if nothing can be searched any more: evaluator or file fail.
        """

    def read(self, board: chess.Board) -> NodeRecord | None:
        """Returns the record of a position as of the outcomes so far, None if the graph does not know it."""

    def note(self, note: Note) -> None:
        """Has something written to the file with what is saved next, after the records of outcomes so far."""

    def save(self, *, wait: bool) -> None:
        """Saves what is not in the file; with `wait` it is there on return.

        Raises:
          StoreError: if it cannot be written.
        """

    def stop(self) -> None:
        """Has searches end after their wave, and drops tasks nobody works on; no more may be submitted."""

    def close(self) -> None:
        """Stops what is running, saves what it found, and closes the file."""
