"""The writer's lock: an advisory lock on `FILE.lock`, which the kernel releases when its holder dies.

It is not on the graph file itself: closing any second descriptor of that file would drop SQLite's own locks.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..base.errors import InputFileError, StoreError, StoreLockedError
from ..base.system import BINARY, try_lock, unlock


def lock_of(path: Path) -> int | None:
    """Returns the descriptor of a locked file, created if it is missing; None if another process holds it.

    Raises:
      OSError: if the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
    if try_lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def release(lock: int) -> None:
    """Releases a lock of `lock_of`."""
    unlock(lock)  # explicit, because a forked child may share the descriptor
    os.close(lock)


def is_held(path: Path) -> bool:
    """Returns whether a process is writing a graph file."""
    try:
        descriptor = os.open(_sidecar(path), os.O_RDONLY)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)  # closing releases it
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that writes a graph file, and since when (ISO 8601, UTC); None where unknown."""

    pid: int | None
    since: str | None


def holder(path: Path) -> Holder | None:
    """Returns the holder of a graph file's write lock, None if no process writes it."""
    if not is_held(path):
        return None
    from ..base.outside import LockNote, declared

    try:
        with _sidecar(path).open("rb", buffering=0) as file:
            file.seek(1)  # Windows lets nobody read the locked byte
            note = declared(LockNote, file.read())
        return Holder(note.pid, note.since)
    except (OSError, InputFileError):
        return Holder(None, None)


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".lock")


class WriteLock:
    """The exclusive right to write one graph file, held from construction to `release`.

    Raises:
      StoreLockedError: if another process, or this one, is writing the file.
    """

    def __init__(self, path: Path) -> None:
        self._sidecar = _sidecar(path)
        self._descriptor = self._acquire(path)
        self._owner = os.getpid()

    def _acquire(self, path: Path) -> int:
        while True:
            try:
                descriptor = os.open(self._sidecar, os.O_RDWR | os.O_CREAT | BINARY, 0o644)
            except OSError as error:
                raise StoreError(f"{path}: cannot make {self._sidecar.name}: {error.strerror}") from None
            if not try_lock(descriptor):
                os.close(descriptor)
                found = holder(path)
                who = f"process {found.pid} since {found.since}" if found and found.pid else "another process"
                raise StoreLockedError(f"{path} is being written by {who}; wait for it, or read only")
            if self._is_current(descriptor):
                break
            os.close(descriptor)  # its last holder has just removed the lock file
        note = {"pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
        with suppress(OSError):  # only for messages: a full disk must not prevent writing
            os.ftruncate(descriptor, 0)
            os.write(descriptor, b" " + json.dumps(note).encode())
        return descriptor

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._sidecar.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Releases the lock; a second call does nothing."""
        if self._descriptor < 0:
            return
        stays = False
        if self._owner == os.getpid():
            try:
                if self._is_current(self._descriptor):  # else the folder was moved, and the file is another's
                    self._sidecar.unlink(missing_ok=True)
            except OSError:  # Windows removes no open file
                stays = True
            unlock(self._descriptor)  # explicit, because a forked child may share the descriptor
        os.close(self._descriptor)
        self._descriptor = -1
        if stays:
            with suppress(OSError):  # a lock file that stays does no harm: the next writer locks it
                self._sidecar.unlink()
