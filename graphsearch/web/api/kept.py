"""Makes tasks from requests, now or after a restart: the file keeps the requests, never the tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from ...base.errors import GraphSearchError, InvalidParameterError
from ...store.tables.rows import json_object
from ...store.tables.tasks import TaskRow
from ..jobs.queued import ENDED, FAILED, INTERRUPTED, RUNNING, QueuedTask, Request
from ..jobs.task_queue import KEPT, MOST_WAITING
from ..jobs.tasks import READING, ExportTask, ImportTask, ReviewTask, Task
from ..served_file import ServedFile
from .requests import Wanted, read_request

FLUSH_SECONDS = 2.0  # time limit of saving a task before its request is answered

_W = TypeVar("_W", bound=Wanted)
Maker = Callable[[ServedFile, _W], Task]
_MAKERS: dict[str, tuple[type[Wanted], Callable[[ServedFile, Any], Task]]] = {}


def makes(name: str, kind: type[_W]) -> Callable[[Maker[_W]], Maker[_W]]:
    """Returns a decorator for the function that makes the task of a request."""

    def declared(maker: Maker[_W]) -> Maker[_W]:
        _MAKERS[name] = kind, maker
        return maker

    return declared


def queue(served: ServedFile, name: str, wanted: Wanted, *, now: bool = False) -> dict[str, object]:
    """Queues the task of a request, and returns it for the page once the file has it."""
    task = _MAKERS[name][1](served, wanted)
    request = Request(name, wanted.model_dump(mode="json", exclude_defaults=True))
    job = served.queue.add(task, now=now, request=request)
    served.kept_queue.flush(FLUSH_SECONDS)
    return job.as_dict()


def restore(served: ServedFile) -> None:
    """Restores the queue of an ended server; unfinished tasks wait until the queue is released."""
    served.kept_queue.begin()
    rows = served.kept_queue.rows()
    ended = [row for row in rows if row.state in ENDED][-KEPT:]
    others = [row for row in rows if row.state not in ENDED][:MOST_WAITING]
    served.queue.restore(
        [_restored(served, row) for row in sorted([*ended, *others], key=lambda row: row.id)]
    )
    served.kept_queue.tidy(served.queue.files())


def _restored(served: ServedFile, row: TaskRow) -> QueuedTask:
    """Returns the job of a row; if its task cannot be made, a failed job with the reason."""
    facts = json_object(row.facts) or {}
    facts.pop("title", None)
    error, state = row.note or "", INTERRUPTED if row.state == RUNNING else row.state
    request: Request | None = None
    try:
        request, task = _made(served, json_object(row.request) or {})
        if isinstance(task, READING) and isinstance(facts.get("path"), str):
            task = replace(task, file=task.file.with_name(facts["path"].rpartition("/")[2]))
        if state in ENDED and not all(file.exists() for file in _written(task)):
            facts["missing"] = True  # in a copy of the graph file, without the folder of its queue
        if isinstance(task, ImportTask | ReviewTask) and state not in ENDED and not task.file.exists():
            raise InvalidParameterError("the uploaded file is gone")
    except GraphSearchError as problem:
        task = Task(title=row.title, path=served.path)
        if state not in ENDED:
            state, error = FAILED, f"it was interrupted and cannot continue: {problem}"
    return QueuedTask(
        row.id, task, request, state, facts=facts, error=error, before=row.seconds, added=row.added
    )


def _written(task: Task) -> tuple[Path, ...]:
    """Returns the files that the page offers of an ended task."""
    if isinstance(task, ReviewTask):
        return (task.out.with_suffix(".json"),)
    return (task.file,) if isinstance(task, ExportTask) else ()


def _made(served: ServedFile, kept: dict[str, object]) -> tuple[Request, Task]:
    """Returns a request kept in the file, and its task."""
    name, wanted = kept.get("name"), kept.get("wanted")
    if not isinstance(name, str) or name not in _MAKERS or not isinstance(wanted, dict):
        raise InvalidParameterError("a task of this kind is not repeated")
    kind, maker = _MAKERS[name]
    return Request(name, wanted), maker(served, read_request(kind, wanted))
