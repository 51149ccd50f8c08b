"""The queue of the web page: the table `task`. Write within a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from .rows import read_rows, write_rows


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
    return read_rows(connection, "task", TaskRow, "ORDER BY id")


def put_tasks(connection: sqlite3.Connection, tasks: Iterable[TaskRow]) -> None:
    """Writes tasks, replacing those of the same numbers."""
    write_rows(connection, "task", tasks)


def drop_tasks(connection: sqlite3.Connection, numbers: Iterable[int]) -> None:
    """Deletes tasks."""
    connection.executemany("DELETE FROM task WHERE id = ?", ((number,) for number in numbers))
