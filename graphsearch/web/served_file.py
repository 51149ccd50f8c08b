"""The served file, shared by all requests: its path, permissions, queue, and a folder for files."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.errors import InvalidParameterError
from ..evaluators.factory import EvaluatorSpec
from ..query.source import KeptFile
from ..store.file import holder
from .jobs.kept_queue import KeptQueue
from .jobs.live import Ask, json_of
from .jobs.task import Place, Task
from .jobs.task_queue import TaskQueue

CLOSE_SECONDS = 30.0  # for the last changes of the queue
FLUSH_SECONDS = 2.0  # time limit of saving a task before its request is answered


@dataclass(slots=True)
class ServedFile:
    """One served graph file.

    Attributes:
      path: of the file. read_only: whether to refuse searches, builds and imports.
      evaluators: the permitted ones by name: a page may not name programs or files.
      ram_bytes: most memory of a search, unless it asks for less; None: the default of searches.
      kept: the file for queries; it keeps their records in memory.
      beside: other graph files, of any folder, that the page may compare with this one, or merge into it.
    """

    path: Path
    read_only: bool = False
    evaluators: dict[str, EvaluatorSpec] = field(default_factory=lambda: offered())
    ram_bytes: int | None = None
    beside: tuple[Path, ...] = ()
    queue: TaskQueue = field(init=False)
    kept: KeptFile = field(init=False)
    kept_queue: KeptQueue = field(init=False)
    _folder: tempfile.TemporaryDirectory[str] | None = None
    _making: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Makes the cache of records and the queue."""
        self.kept = KeptFile(self.path, self.stamp)
        self.kept_queue = KeptQueue(self.path, read_only=self.read_only)
        self.queue = TaskQueue(self.kept_queue, lambda: self.place)

    @property
    def folder(self) -> Path:
        """A folder for uploads and exports; `close` removes it if the queue is in memory only."""
        if self.kept_queue.folder is not None:
            return self.kept_queue.folder
        with self._making:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="graphsearch-")
            return Path(self._folder.name)

    @property
    def place(self) -> Place:
        """The file, as tasks know it."""
        return Place(self.path, self.folder, self.evaluators, self.ram_bytes, self.beside)

    def add(self, task: Task) -> dict[str, object]:
        """Queues a task, and returns it for the page once the file has it; `TaskQueue.add` has the errors."""
        job = self.queue.add(task)
        self.kept_queue.flush(FLUSH_SECONDS)
        return job.as_dict()

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

    def close(self) -> None:
        """Ends and saves the running tasks, and removes the files that no task needs."""
        self.queue.close()
        self.kept_queue.close(self.queue.files(), CLOSE_SECONDS)
        if self._folder:
            self._folder.cleanup()


def offered(names: Sequence[str] = ()) -> dict[str, EvaluatorSpec]:
    """Returns the evaluators for a page: the given ones first, then the built-in ones without files."""
    return {name: EvaluatorSpec(evaluator=name) for name in (*names, "builtin", "uniform")}


def _mark(path: Path) -> str:
    try:
        facts = path.stat()
    except OSError:
        return "-"
    return f"{facts.st_size}.{facts.st_mtime_ns}" if facts.st_size else "-"
