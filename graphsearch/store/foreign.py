"""A write-ahead log of another file beside a graph file: SQLite would put its pages in place of ours."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ..errors import StoreError
from .connection import connect
from .lock import is_held


def check_log(path: Path, *, is_ours: bool) -> None:
    """Raises StoreError if the log beside a file is that of another file, as far as the first run shows it.

    That happens when a copy is put in the place of a file whose last process was killed.

    Args:
      path: the file.
      is_ours: whether the caller holds its lock; else nothing is checked while somebody holds it.
    """
    log = path.with_name(path.name + "-wal")
    if not log.exists() or not log.stat().st_size or (not is_ours and is_held(path)):
        return
    alone = _first_run(path, "mode=ro&immutable=1")  # as if there were no log
    if alone is not None and _first_run(path, "mode=ro") not in (alone, _UNREADABLE):
        raise StoreError(
            f"{log} is the write-ahead log of another file, such as one that {path.name} has replaced;"
            f" move it and {path.name}-shm elsewhere, then continue"
        )


_UNREADABLE = ("unreadable",)


def _first_run(path: Path, query: str) -> tuple[object, ...] | None:
    """Returns what never changes of the first run of a file; None if it has none yet."""
    try:
        with closing(connect(path, query)) as connection:
            row = connection.execute(
                "SELECT id, started, position, limits FROM run ORDER BY id LIMIT 1"
            ).fetchone()
    except sqlite3.Error:
        return None if "immutable" in query else _UNREADABLE  # whoever opens it will say what is wrong
    return None if row is None else tuple(row)
