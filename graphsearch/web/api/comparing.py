"""Compares the served file with others, and merges another one into it.

A page may name only graph files of the same folder, or files named on the command line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated
from uuid import uuid4

from pydantic import Field

from ...base.errors import InvalidParameterError
from ...base.limits import shortened
from ...query.diff import WHATS
from ..jobs.queued import DONE
from ..jobs.tasks import CompareTask, MergeTask
from ..served_file import ServedFile
from .kept import makes, queue
from .requests import SPELLED, Count, Name, Nothing, Ply, Wanted, get, post


# ---------------------------------------------------------------- requests
class OtherFile(Wanted):
    """A graph file beside the served one, by its name."""

    other: Annotated[str, Field(max_length=1000)] = ""


class DiffWanted(OtherFile):
    """Differences of the two files."""

    turned: bool = False
    cp: Count = 20
    what: Name | None = None
    top: Annotated[int, Field(ge=1, le=500), SPELLED] = 50


class TaskWanted(Wanted):
    """The result of a task, by its number."""

    number: Ply


@makes("compare", DiffWanted)
def _compare(served: ServedFile, wanted: DiffWanted) -> CompareTask:
    """Returns the comparison of the served file with an older one, or a newer one with `turned`."""
    if wanted.what and wanted.what not in WHATS:
        raise InvalidParameterError(f"a change is one of {', '.join(WHATS)}, not {shortened(wanted.what)!r}")
    other = _named(served, wanted)
    return CompareTask(
        title=f"compare with {other.name}",
        path=served.path,
        other=other,
        file=served.folder / f"{uuid4().hex}.json",
        turned=wanted.turned,
        cp=wanted.cp,
        what=wanted.what or "",
        top=wanted.top,
    )


def _compared(served: ServedFile, wanted: TaskWanted) -> dict[str, object]:
    """Returns the differences found by a comparison."""
    job = served.queue.job(wanted.number)
    if not isinstance(job.task, CompareTask) or job.state != DONE or not job.task.file.exists():
        raise InvalidParameterError("this task has compared nothing")
    found: dict[str, object] = json.loads(job.task.file.read_text(encoding="utf-8"))
    return found


@makes("merge", OtherFile)
def _merge(served: ServedFile, wanted: OtherFile) -> MergeTask:
    """Returns the task of merging another file into the served one."""
    served.may_write()
    other = _named(served, wanted)
    title = f"merge {other.name} into {served.path.name}"
    return MergeTask(title=title, path=served.path, other=other, ram_bytes=served.ram_bytes)


def _named(served: ServedFile, wanted: OtherFile) -> Path:
    found = served.others().get(wanted.other)
    if found is None:
        name = shortened(wanted.other, 80)
        raise InvalidParameterError(f"there is no graph file {name!r} beside {served.path.name}")
    return found


ROUTES = [
    get("/api/others", Nothing, lambda served, it: {"files": list(served.others())}),
    get("/api/compared", TaskWanted, _compared),
    post("/api/compare", DiffWanted, lambda served, it: queue(served, "compare", it), writes=False),
    post("/api/merge", OtherFile, lambda served, it: queue(served, "merge", it)),
]
