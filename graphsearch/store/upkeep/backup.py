"""Backup: a consistent copy of a graph file, also while a search writes it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...base.errors import MissingStoreError, StoreError
from ..connection import connect
from ..file import check_is_file, open_reader, real_path, sql_errors
from ..lock import WriteLock
from ..tables import provenance
from .rewrite import Progress

STEP_PAGES = 256  # copied between two looks at a signal: 4 MiB


@dataclass(frozen=True, slots=True)
class BackupReport:
    """What a backup wrote."""

    path: str
    nodes: int
    bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Returns the report as JSON takes it."""
        return asdict(self)


def backup(
    path: str | os.PathLike[str],
    copy: str | os.PathLike[str],
    *,
    force: bool = False,
    progress: Progress | None = None,
) -> BackupReport:
    """Copies a graph file as it is at this moment; others may read and write it meanwhile.

    The copy gets its name when it is whole and on the disk. Until then it is `COPY.part`.

    Args:
      force: replace a file that is there.
      progress: called with pages done and pages in all.

    Raises:
      StoreLockedError: if a process is writing the file that is to be replaced.
      StoreError: if the file cannot be read, or the copy not be written.
    """
    source, target = real_path(path), real_path(copy)
    check_is_file(source, create=False)
    if source == target or (target.exists() and source.samefile(target)):
        raise StoreError(f"{target} is the file itself; name another file for the copy")
    with new_file(target, force=force) as part, closing(open_reader(source)) as connection:
        with sql_errors(source, "read it"):
            # one snapshot from here on: without it, every commit of another process starts the copy again
            connection.execute("BEGIN")
            nodes = provenance.node_count(connection)
        copy_state(connection, source, part, progress)
    return BackupReport(str(target), nodes, target.stat().st_size)


def copy_state(
    connection: sqlite3.Connection, source: Path, part: Path, progress: Progress | None = None
) -> None:
    """Writes what a connection to a file sees to a new file."""

    def step(status: int, remaining: int, total: int) -> None:
        if progress:
            progress(total - remaining, total)

    with sql_errors(part, f"copy {source} to it"), closing(connect(part)) as copy:
        copy.execute("PRAGMA journal_mode = OFF")  # a copy that is cut short is thrown away
        copy.execute("PRAGMA synchronous = OFF")  # it is written out once, at the end
        connection.backup(copy, pages=STEP_PAGES, progress=step)


@contextmanager
def new_file(target: Path, *, force: bool) -> Iterator[Path]:
    """Yields the name under which to write a new graph file; it is put in its place when all went well.

    Raises:
      StoreLockedError: if a process is writing the target, or making it.
      StoreError: if the target is there and `force` is not given, or it cannot be put there.
    """
    _check_target(target, force=force)
    lock = WriteLock(target)
    part = target.with_name(target.name + ".part")
    try:
        _remove(part)
        try:
            yield part
            _put_in_place(part, target, force=force)
        except BaseException:
            _remove(part)
            raise
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}") from None
    finally:
        lock.release()


def _check_target(target: Path, *, force: bool) -> None:
    if target.is_dir():
        raise StoreError(f"{target} is a folder; name a file in it")
    if not target.parent.is_dir():
        raise MissingStoreError(f"{target.parent} does not exist; make this folder first")
    if target.exists() and not target.is_file():
        raise StoreError(f"{target} is not a regular file; name another one")
    if target.exists() and not force:
        raise StoreError(f"{target} exists already; name another file, or replace it with --force")


def _put_in_place(part: Path, target: Path, *, force: bool) -> None:
    """Gives a finished file its name; at no moment is there half a file of that name."""
    _check_target(target, force=force)
    _sync(part)
    for end in ("-wal", "-shm"):  # the log of the file that is replaced must not meet the new one
        target.with_name(target.name + end).unlink(missing_ok=True)
    part.replace(target)
    if os.name != "nt":  # pragma: no branch
        _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(part: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal", ".lock"):
        part.with_name(part.name + end).unlink(missing_ok=True)
