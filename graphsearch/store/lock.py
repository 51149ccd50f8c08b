"""The writer's lock: an advisory lock on `FILE.lock`, which the kernel releases when its holder dies.

It is not on the graph file itself: closing any second descriptor of that file would drop SQLite's own locks.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..base.errors import InputFileError, StoreError, StoreLockedError

if sys.platform == "win32":  # pragma: no cover
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)  # a byte past the text, so that others can read the text
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 30, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # explicit, because a forked child may share the descriptor


def lock_of(path: Path) -> int | None:
    """Returns the descriptor of a locked file, created if it is missing; None if another process holds it.

    Raises:
      OSError: if the file cannot be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if _try_lock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def unlock(lock: int) -> None:
    """Releases a lock of `lock_of`."""
    _unlock(lock)
    os.close(lock)


def is_held(path: Path) -> bool:
    """Returns whether a process is writing a graph file."""
    try:
        descriptor = os.open(_sidecar(path), os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor)  # closing releases it
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
        note = declared(LockNote, _sidecar(path).read_bytes())
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
                descriptor = os.open(self._sidecar, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise StoreError(f"{path}: cannot make {self._sidecar.name}: {error.strerror}") from None
            if not _try_lock(descriptor):
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
            os.write(descriptor, json.dumps(note).encode())
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
        if self._owner == os.getpid():
            with suppress(OSError):  # a lock file that stays does no harm: the next writer locks it
                if self._is_current(self._descriptor):  # else the folder was moved, and the file is another's
                    self._sidecar.unlink(missing_ok=True)
            _unlock(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = -1
