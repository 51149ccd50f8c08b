"""The cores and the memory that this process may use: those of the machine, or fewer in a container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

GROUPS = Path("/proc/self/cgroup")  # lines `number:controllers:path`; of version 2 `0::path`
LIMITS = Path("/sys/fs/cgroup")


def cores() -> int:
    """Returns the number of cores that this process may use, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    mask = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(mask, _quota() or mask))


@cache
def memory_bytes() -> int:
    """Returns the bytes of memory that this process may use."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    folders = _folders("memory")
    texts = [_text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes") for folder in folders]
    return min([physical, *(int(text) for text in texts if text.isdecimal() and int(text))])


@cache
def _quota() -> int:
    """Returns the number of cores whose time a container gets, rounded up; 0: no limit."""
    counts = []
    for folder in _folders("cpu"):
        versions = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
        quota, _, period = (_text(folder / "cpu.max") or " ".join(versions)).partition(" ")
        if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
            counts.append(-(-int(quota) // int(period)))
    return min(counts, default=0)


def _text(path: Path) -> str:
    """Returns the content of the file of a limit, empty if there is none."""
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _folders(controller: str) -> Iterator[Path]:
    """Yields the folders of this process's control groups, innermost first.

    In a container the innermost ones may be invisible, but then the top folder is that of the container.
    """
    for line in _text(GROUPS).splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if path and (not controllers or controller in controllers.split(",")):
            top = LIMITS / controller if controllers else LIMITS
            group = Path(path.lstrip("/"))
            yield from (top / part for part in (group, *group.parents))
