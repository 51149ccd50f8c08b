"""Compares two graph files for the page, in the worker process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ..lines import with_ways

if TYPE_CHECKING:
    from ...query.diff import OnProgress
    from .tasks import CompareTask


def do_compare(task: CompareTask, show: OnProgress) -> dict[str, object]:
    """Writes the differences of two files; returns the final report for the page."""
    from ...book.changes import changes
    from ...query.diff import WHATS, diff

    pair = (task.path, task.other) if task.turned else (task.other, task.path)
    what = (task.what,) if task.what else WHATS
    found = diff(*pair, cp=task.cp, what=what, top=task.top, on_progress=show).as_dict()
    for name, path in (("changes", pair[1]), ("come", pair[1]), ("gone", pair[0])):
        found[name] = with_ways(path, found[name])
    found |= {"old": pair[0].name, "new": pair[1].name}
    found["books"] = [book.as_dict() for book in changes(*pair, top=task.top)]
    task.file.write_text(json.dumps(found), encoding="utf-8")
    return {"stage": "done", "path": task.file.name}
