"""The served file beside others: what changed between them, and a task that merges another one into it.

A page may name only graph files of the same folder, or files that were named when serving.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...book.changes import changes
from ...errors import GraphSearchError, InvalidParameterError
from ...query.diff import WHATS, diff
from ..house import House
from ..jobs.tasks import MergeTask
from .asking import get, number, post

SECONDS = 30.0  # that a page waits
MOST_ROWS = 500
Given = Mapping[str, Any]


def _others(house: House, given: Given) -> dict[str, Any]:
    """Returns the files that the served one may be compared with."""
    return {"files": list(house.others())}


def _diff(house: House, given: Given) -> dict[str, Any]:
    """Returns how the served file differs from an older one, or a newer one with `turned`."""
    other, end = _named(house, given), time.monotonic() + SECONDS

    def look_at_clock(done: int, total: int) -> None:
        if time.monotonic() > end:
            raise GraphSearchError(
                f"the files are too large to compare in {SECONDS:.0f} seconds; use `graphsearch query diff`"
            )

    pair = (house.path, other) if given.get("turned") else (other, house.path)
    top = number(given, "top", 50, least=1, most=MOST_ROWS)
    found = diff(
        *pair,
        cp=number(given, "cp", 20, least=1),
        what=(str(given["what"]),) if given.get("what") else WHATS,
        top=top,
        on_progress=look_at_clock,
    ).as_dict()
    names = {"old": pair[0].name, "new": pair[1].name}
    return found | names | {"books": [book.as_dict() for book in changes(*pair, top=top)]}


def _merge(house: House, given: Given) -> dict[str, Any]:
    """Queues merging another file into the served one."""
    house.may_take_in()
    other = _named(house, given)
    task = MergeTask(
        title=f"merge {other.name} into {house.path.name}",
        path=house.path,
        other=other,
        ram_bytes=house.ram_bytes,
    )
    return house.desk.add(task).as_dict()


def _named(house: House, given: Given) -> Path:
    name = str(given.get("other") or "")
    found = house.others().get(name)
    if found is None:
        raise InvalidParameterError(f"there is no graph file {name[:80]!r} beside {house.path.name}")
    return found


ROUTES = [
    get("/api/others", _others),
    get("/api/diff", _diff),
    post("/api/merge", _merge),
]
