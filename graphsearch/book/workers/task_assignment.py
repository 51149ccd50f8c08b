"""The assignment of a task to a worker, and its rest after that worker is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import chess

from ...base.errors import InvalidPositionError
from ...position.notation import board_from_fen
from ...search.job import limits_after
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

    def visits_in_file(self, read: Read) -> int:
        """Returns the present visits of the position; 0 if it has no record or is illegal."""
        try:
            record = read(board_from_fen(self.task.fen))
        except InvalidPositionError:  # the worker reports it
            return 0
        return record.visits if record else 0

    def rest(self) -> Task | None:
        """Returns the task with the remaining limits; None if the lost workers had reached one."""
        left = limits_after(self.task.limits, visits=self.visits, evaluations=self.saved)
        return replace(self.task, visits=left.visits, evaluations=left.evaluations) if left else None

    def __str__(self) -> str:
        return self.task.fen
