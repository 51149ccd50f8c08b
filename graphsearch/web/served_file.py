"""The served file, shared by all requests: its path, permissions and queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.errors import InvalidParameterError
from ..evaluators.factory import EvaluatorSpec
from ..query.source import KeptFile
from ..store.file import holder
from .jobs.task import Ask, Place, Task, json_of
from .jobs.task_queue import KeptQueue, TaskQueue


@dataclass(slots=True)
class ServedFile:
    """One served graph file.

    Attributes:
      path: of the file. read_only: whether to refuse searches, builds and imports.
      evaluators: the permitted ones by name: a page may not name programs or files.
      ram_bytes: most memory of a search, unless it asks for less; None: the default of searches.
      kept: the file for queries; it keeps their records in memory.
    """

    path: Path
    read_only: bool = False
    evaluators: dict[str, EvaluatorSpec] = field(default_factory=lambda: offered())
    ram_bytes: int | None = None
    queue: TaskQueue = field(init=False)
    kept: KeptFile = field(init=False)

    def __post_init__(self) -> None:
        """Makes the cache of records and the queue."""
        self.kept = KeptFile(self.path, self.stamp)
        self.queue = TaskQueue(KeptQueue(self.path, read_only=self.read_only), lambda: self.place)

    @property
    def place(self) -> Place:
        """The file, as tasks know it, with the folder for uploads and exports."""
        return Place(self.path, self.queue.kept.folder, self.evaluators, self.ram_bytes)

    def add(self, task: Task) -> dict[str, Any]:
        """Queues a task, and returns it for the page; `TaskQueue.add` has the errors."""
        return self.queue.add(task).as_dict()

    def answer(self, ask: Ask) -> dict[str, Any]:
        """Returns the answer of a running search from its memory, else that of the file."""
        found = self.queue.ask(ask)
        return json_of(ask(self.kept)) if found is None else found

    def may_write(self) -> None:
        """Raises InvalidParameterError if the file is served for reading only."""
        if self.read_only:
            raise InvalidParameterError("this page is read-only: it was started with --read-only")

    def stamp(self) -> str:
        """Returns a text that changes when the file does; a reader's empty WAL does not change it."""
        return " ".join(_mark(path) for path in (self.path, Path(f"{self.path}-wal")))

    def holder(self) -> dict[str, Any] | None:
        """Returns the file's writer, None if there is none: `pid`, `since`, whether it is `ours`."""
        found = holder(self.path)
        if found is None:
            return None
        return {"pid": found.pid, "since": found.since, "ours": found.pid == self.queue.writer}


def offered(names: Sequence[str] = ()) -> dict[str, EvaluatorSpec]:
    """Returns the evaluators for a page: the given ones first, then the built-in ones without files."""
    return {name: EvaluatorSpec(evaluator=name) for name in (*names, "builtin", "uniform")}


def _mark(path: Path) -> str:
    try:
        facts = path.stat()
    except OSError:
        return "-"
    return f"{facts.st_size}.{facts.st_mtime_ns}" if facts.st_size else "-"
