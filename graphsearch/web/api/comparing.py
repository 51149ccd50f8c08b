"""Compares the served file with others, and merges another one into it.

A page may name only graph files of the same folder, or files named on the command line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...book.changes import changes
from ...deadline import check_time
from ...errors import InvalidParameterError
from ...limits import shortened
from ...query.diff import WHATS, diff
from ..jobs.tasks import MergeTask
from ..lines import with_ways
from ..served_file import ServedFile
from .asking import get, post
from .kept import makes, queue
from .requests import DiffWanted, Nothing, OtherFile


def _others(served: ServedFile, wanted: Nothing) -> dict[str, Any]:
    """Returns the files that the served one may be compared with."""
    return {"files": list(served.others())}


def _diff(served: ServedFile, wanted: DiffWanted) -> dict[str, Any]:
    """Returns the differences of the served file to an older one, or to a newer one with `turned`."""
    other = _named(served, wanted)
    pair = (served.path, other) if wanted.turned else (other, served.path)
    found = diff(
        *pair,
        cp=wanted.cp,
        what=(wanted.what,) if wanted.what else WHATS,
        top=wanted.top,
        on_progress=lambda done, total: check_time(),
    ).as_dict()
    names = {"old": pair[0].name, "new": pair[1].name}
    for name, path in (("changes", pair[1]), ("come", pair[1]), ("gone", pair[0])):
        found[name] = with_ways(path, found[name])
    return found | names | {"books": [book.as_dict() for book in changes(*pair, top=wanted.top)]}


@makes("merge", OtherFile)
def _merge(served: ServedFile, wanted: OtherFile) -> MergeTask:
    """Returns the task of merging another file into the served one."""
    served.may_take_in()
    other = _named(served, wanted)
    return MergeTask(
        title=f"merge {other.name} into {served.path.name}",
        path=served.path,
        other=other,
        ram_bytes=served.ram_bytes,
    )


def _named(served: ServedFile, wanted: OtherFile) -> Path:
    found = served.others().get(wanted.other)
    if found is None:
        name = shortened(wanted.other, 80)
        raise InvalidParameterError(f"there is no graph file {name!r} beside {served.path.name}")
    return found


ROUTES = [
    get("/api/others", Nothing, _others),
    get("/api/diff", DiffWanted, _diff),
    post("/api/merge", OtherFile, lambda served, it: queue(served, "merge", it)),
]
