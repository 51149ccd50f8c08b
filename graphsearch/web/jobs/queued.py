"""A task in the queue: its state, its last report, and its row in the file."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...base.answer import picked
from ...store.tables.provenance import now
from ...store.tables.tasks import TaskRow
from ...workers.process import Child
from .tasks import READING, ImportTask, Reached, ReviewTask, SearchTask, Task

WAITING, RUNNING, DONE, FAILED, STOPPED = "waiting", "running", "done", "failed", "stopped"
INTERRUPTED = "interrupted"  # by the end of the server; the task waits for a new start
ENDED = (DONE, FAILED, STOPPED)
OF_A_POSITION = ("nodes", "roots")  # facts dropped when a task has ended
REVIEW_ENDINGS = (".json", ".pgn")


@dataclass(frozen=True, slots=True)
class Request:
    """A page's request, by name and fields; a restarted server makes the task from it again."""

    name: str
    wanted: dict[str, object]


@dataclass(slots=True, eq=False)
class QueuedTask:
    """A queued, running or ended task.

    Attributes:
      request: makes the task again after a restart; None: the task is not repeated.
      state: `waiting`, `running`, `done`, `failed`, `stopped` or `interrupted`.
      stopping: whether the task has been asked to end.
      facts: the latest report of its process. error: why it failed.
      before: seconds that it ran under a server that has ended.
    """

    number: int
    task: Task
    request: Request | None = None
    state: str = WAITING
    stopping: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    began: float = 0.0
    ended: float = 0.0
    before: float = 0.0
    added: str = field(default_factory=now)
    child: Child | None = None

    @property
    def seconds(self) -> float:
        """The seconds that the task has run."""
        last = self.ended or time.monotonic()
        return round(self.before + (last - self.began if self.began else 0.0), 1)

    @property
    def kind(self) -> str:
        """The kind of the task, in a word."""
        return type(self.task).__name__.removesuffix("Task").lower() or "task"

    def rest(self) -> Task:
        """Returns the rest of the task after an interruption."""
        if isinstance(self.task, SearchTask):
            return replace(self.task, reached=Reached.of(self.facts))
        return self.task

    def as_dict(self) -> dict[str, object]:
        """Returns the JSON object for the page."""
        title = self.facts.get("title", self.task.title)
        return (
            picked(self, "number kind")
            | {"title": title}
            | picked(self, "state stopping seconds facts error")
        )

    def brief(self) -> dict[str, object]:
        """Returns the JSON object without the moves of its last position."""
        return self.as_dict() | {"facts": self._kept_facts()}

    def _kept_facts(self) -> dict[str, object]:
        return {name: value for name, value in self.facts.items() if name not in OF_A_POSITION}

    def row(self) -> TaskRow:
        """Returns the task's row in the file."""
        request = {"name": self.request.name, "wanted": self.request.wanted} if self.request else {}
        texts = (json.dumps(request), json.dumps(self._kept_facts()))
        head = (self.number, self.kind, self.task.title, self.state)
        return TaskRow(*head, *texts, self.error or None, self.seconds, self.added, now())

    def files(self) -> set[Path]:
        """Returns the files that the task still needs, or has written."""
        if isinstance(self.task, READING):
            return {self.task.file}
        written: set[Path] = set()
        if isinstance(self.task, ReviewTask):
            written = {self.task.out.with_suffix(ending) for ending in REVIEW_ENDINGS}
        if isinstance(self.task, ImportTask | ReviewTask) and self.state not in ENDED:
            return written | {self.task.file}
        return written

    def remove_upload(self) -> None:
        """Removes the uploaded file of a task, if it is still there."""
        if isinstance(self.task, ImportTask | ReviewTask):
            self.task.file.unlink(missing_ok=True)
