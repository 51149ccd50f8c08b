"""The assignment of a task to a worker, and its rest after that worker is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import chess

from ...base.errors import InvalidPositionError
from ...position.notation import board_from_fen
from ...store.record.node import NodeRecord
from ...workers.supervisor import Assignment
from ..executor import Task

Read = Callable[[chess.Board], NodeRecord | None]  # of a record in the file


@dataclass(eq=False)
class TaskAssignment(Assignment):
    """A task, and the work of the workers lost during it.

    Attributes:
      before: visits of its position when the first worker got it.
      visits, saved: visits of the position and evaluations that lost workers saved; they count for the task.
      paid: evaluations that lost workers made.
    """

    task: Task
    before: int = 0
    visits: int = 0
    saved: int = 0
    paid: int = 0

    def begin(self, read: Read) -> None:
        """Stores the visits of the position before a worker gets the task."""
        self.before = self._visits(read)

    def count_saved(self, read: Read) -> None:
        """Counts the visits of the position that a lost worker saved."""
        self.visits = max(0, self._visits(read) - self.before)

    def _visits(self, read: Read) -> int:
        try:
            record = read(board_from_fen(self.task.fen))
        except InvalidPositionError:  # the worker reports it
            return 0
        return record.visits if record else 0

    def rest(self) -> Task:
        """Returns the task with the remaining limits; one below 1 means that the task is done."""
        task = self.task
        visits = None if task.visits is None else task.visits - self.visits
        evaluations = None if task.evaluations is None else task.evaluations - self.saved
        return replace(task, visits=visits, evaluations=evaluations)

    def is_done(self) -> bool:
        """Returns whether the lost workers had reached a limit."""
        rest = self.rest()
        return any(limit is not None and limit < 1 for limit in (rest.visits, rest.evaluations))

    def __str__(self) -> str:
        return self.task.fen
