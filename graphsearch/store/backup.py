"""Backup: a consistent copy of a graph file, even while a search writes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..base.answer import Answer
from ..base.errors import MissingStoreError, StoreError, StoreTargetError
from ..base.system import replace, sync_folder
from . import provenance
from .file import WriteLock, check_is_file, connect, open_reader, real_path, remove_side_files, sql_errors
from .rewrite import OnProgress, Progress

COPYING = "copying pages"  # stage
STEP_PAGES = 256  # copied between two checks for a signal: 4 MiB


@dataclass(frozen=True, slots=True)
class BackupReport(Answer):
    """The result of a backup."""

    path: str
    nodes: int
    bytes: int


def backup(
    path: str | os.PathLike[str],
    copy: str | os.PathLike[str],
    *,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> BackupReport:
    """Copies a snapshot of a graph file; other processes may read and write the file meanwhile.

    The copy gets its name when it is complete and synced to disk. Until then it is `COPY.part`.

    Args:
      force: replace an existing file.
      on_progress: called with pages.

    Raises:
      StoreLockedError: if a process is writing the file to be replaced.
      StoreError: if the file cannot be read, or the copy cannot be written.
    """
    source, target = real_path(path), real_path(copy)
    check_is_file(source, create=False)
    if source == target or (target.exists() and source.samefile(target)):
        raise StoreTargetError(f"{target} is the file itself; name another file for the copy")
    with new_file(target, force=force) as part, closing(open_reader(source)) as connection:
        with sql_errors(source, "read it"):
            # one snapshot from here on: without it, every commit of another process starts the copy again
            connection.execute("BEGIN")
            nodes = provenance.fact_number(connection, "nodes")

        def step(status: int, remaining: int, total: int) -> None:
            if on_progress:
                on_progress(Progress(COPYING, total - remaining, total))

        with sql_errors(part, f"copy {source} to it"), closing(connect(part)) as made:
            made.execute("PRAGMA journal_mode = OFF")  # an interrupted copy is discarded
            made.execute("PRAGMA synchronous = OFF")  # it is synced once, at the end
            connection.backup(made, pages=STEP_PAGES, progress=step)
    return BackupReport(str(target), nodes, target.stat().st_size)


@contextmanager
def new_file(target: Path, *, force: bool) -> Iterator[Path]:
    """Yields a temporary path for a new graph file, and renames the file to the target on success.

    Raises:
      StoreLockedError: if a process is writing or creating the target.
      StoreTargetError: if the target exists, and `force` is not given or it is no file.
      StoreError: if it cannot be written.
    """
    _check_target(target, force=force)
    lock = WriteLock(target)
    part = target.with_name(target.name + ".part")
    try:
        _remove(part)
        try:
            yield part
            _check_target(target, force=force)
            with part.open("r+b") as file:
                os.fsync(file.fileno())
            remove_side_files(target)  # the log of the replaced file must not meet the new one
            replace(part, target)
            sync_folder(target.parent)
        except BaseException:
            _remove(part)
            raise
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}") from None
    finally:
        lock.release()


def _check_target(target: Path, *, force: bool) -> None:
    if target.is_dir():
        raise StoreTargetError(f"{target} is a folder; name a file in it")
    if not target.parent.is_dir():
        raise MissingStoreError(f"{target.parent} does not exist; make this folder first")
    if target.exists() and not target.is_file():
        raise StoreTargetError(f"{target} is not a regular file; name another one")
    if target.exists() and not force:
        raise StoreTargetError(f"{target} exists already; name another file, or replace it with --force")


def _remove(part: Path) -> None:
    part.unlink(missing_ok=True)
    remove_side_files(part, lock=True)
