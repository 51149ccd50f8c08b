"""The queue of the web page: the table `task`. Write within a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, dataclass

from .columns import TABLES
from .rows import insert, rows

_TASK = tuple(TABLES["task"].columns)


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A row of `task`; `request` and `facts` are JSON objects."""

    id: int
    kind: str
    title: str
    state: str
    request: str
    facts: str
    note: str | None
    seconds: float
    added: str
    changed: str


def all_tasks(connection: sqlite3.Connection) -> list[TaskRow]:
    """Returns all tasks in the order in which they were added."""
    return [TaskRow(*row) for row in rows(connection, "task", _TASK, "ORDER BY id")]


def put_tasks(connection: sqlite3.Connection, tasks: Iterable[TaskRow]) -> None:
    """Writes tasks, replacing those of the same numbers."""
    insert(connection, "task", _TASK, map(astuple, tasks))


def drop_tasks(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Deletes tasks."""
    connection.executemany("DELETE FROM task WHERE id = ?", ((number,) for number in numbers))
