"""Folders of compiled code: their owners and rights, and safe reading and writing of their files.

Loaded code is executed, so the cache reads only files that this user's program wrote: each file begins with
an HMAC of its name and content, and only the user can read the key. Any other file counts as missing, and its
kernel is compiled again.
"""

from __future__ import annotations

import errno
import hmac
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ..base.system import SAFELY, is_private, is_secret, replace, try_lock, user_folder, user_number

KEY, KEY_BYTES = "key", 32
SIGNATURE_BYTES = 32  # HMAC-SHA256
MOST_BYTES = 32 << 20  # of a file: the code of the largest kernel takes a third of a megabyte
LONGEST_WAIT_S = 120.0  # for a lock; a kernel takes half a minute at most
BETWEEN_TRIES_S = 0.02
ABSENT = {errno.ENOENT, errno.ENOTDIR}

_NOTED: set[Path] = set()  # folders with a logged warning
_is_patient = True  # until a process has held a lock too long: it may be suspended, and hold many


@dataclass(frozen=True, slots=True)
class CodeFolder:
    """A folder of files written by this program.

    Attributes:
      path: the folder; it need not exist.
      key: signs the files; empty for code that came with the package: its files may belong to anyone and are
        as safe as the modules beside them; their signature is only a checksum.
    """

    path: Path
    key: bytes

    def read(self, name: str) -> bytes | None:
        """Returns the content that `write` wrote under this name, None if the file is missing or invalid."""
        try:
            data = read_regular(self.path / name, owned=bool(self.key))
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in ABSENT:
                self.note(name)
            return None
        content = data[SIGNATURE_BYTES:]
        if hmac.compare_digest(data[:SIGNATURE_BYTES], self._signature(name, content)):
            return content
        self.note(name)
        return None

    def write(self, name: str, content: bytes) -> None:
        """Writes a file if possible; without it the kernel is compiled again."""
        write_whole(self.path / name, self._signature(name, content) + content)
        if not self.key:  # part of the package, which all users read
            with suppress(OSError):
                (self.path / name).chmod(0o644)

    def note(self, name: str) -> None:
        """Logs, once for the folder, that a file is invalid."""
        complain(self.path, f"{self.path / name} is not what was written there; it is compiled again")

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Holds a lock between processes, where the system has such locks.

        The system releases the lock when the process ends; its empty file stays. A process waits once for
        LONGEST_WAIT_S, because the owner may be suspended; then both do the same work.
        """
        number = self._open_lock(f"{name}.lock")
        try:
            yield
        finally:
            if number is not None:
                os.close(number)

    def _open_lock(self, name: str) -> int | None:
        """Takes a lock; returns its file descriptor, None if its file cannot be opened."""
        try:
            number = os.open(self.path / name, os.O_RDWR | os.O_CREAT | SAFELY, 0o600)
        except OSError:
            return None
        global _is_patient
        end = time.monotonic() + LONGEST_WAIT_S
        with suppress(OSError):  # a file system without locks
            while stat.S_ISREG(os.fstat(number).st_mode) and not try_lock(number) and _is_patient:
                time.sleep(BETWEEN_TRIES_S)
                _is_patient = time.monotonic() < end
        return number

    def _signature(self, name: str, content: bytes) -> bytes:
        return hmac.digest(self.key, name.encode() + b"\0" + content, "sha256")


def cache_folder(name: str) -> Path | None:
    """Returns a writable folder for this program's caches, created if necessary; None if there is none."""
    return next(_candidates(name), None)


def code_cache(name: str) -> CodeFolder | None:
    """Returns the user's folder of compiled code: the first that only the user can write; None if none is."""
    for folder in _candidates(name):
        if not is_private(folder.lstat(), kind=stat.S_IFDIR):
            complain(folder, f"{folder} is not used: it must belong to you, and nobody else may write there")
        elif key := _key(folder):
            return CodeFolder(folder, key)
        else:
            complain(folder, f"{folder} is not used: no key can be made there")
    return None


def complain(folder: Path, text: str) -> None:
    """Logs once that a folder is unusable, on the log `graphsearch` (by default stderr)."""
    if folder not in _NOTED:
        import logging  # costs every start of the program 20 ms

        _NOTED.add(folder)
        logging.getLogger("graphsearch").warning("compiled kernels: %s", text)


def _candidates(name: str) -> Iterator[Path]:
    """Yields writable folders: in the user's cache folder, then in the temporary folder."""
    given = os.environ.get("GRAPHSEARCH_CACHE_DIR")
    own = Path(tempfile.gettempdir()) / f"graphsearch-{user_number()}"
    for parent in (Path(given, "graphsearch") if given else user_folder("cache"), own / "graphsearch"):
        try:
            folder = parent.expanduser() / name
            folder.parent.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if parent.parent == own and not is_private(own.lstat(), kind=stat.S_IFDIR):
                continue
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
        except (OSError, RuntimeError):  # no permission, or no home folder
            continue
        if os.access(folder, os.W_OK):
            yield folder


def read_regular(path: Path, *, owned: bool) -> bytes:
    """Returns the content of a regular file of no more than MOST_BYTES.

    Args:
      owned: whether it must belong to the user.

    Raises:
      OSError: if it is not such a file, or cannot be opened.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | SAFELY), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        is_sound = is_private(status, kind=stat.S_IFREG) if owned else stat.S_ISREG(status.st_mode)
        if not is_sound or status.st_size > MOST_BYTES:
            raise OSError(errno.EINVAL, "not a file of this user's cache", str(path))
        return file.read(MOST_BYTES)


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file atomically, if possible.

    It writes nothing without space or permission, if a folder has this name, or if Windows has it in use.
    """
    with suppress(OSError):
        number, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
            replace(temporary, path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)


def _key(folder: Path) -> bytes:
    """Returns the key of a folder, created if necessary; empty if that fails."""
    path = folder / KEY
    for _ in range(2):
        with suppress(OSError):
            key = read_regular(path, owned=True)
            if len(key) == KEY_BYTES and is_secret(path.lstat()):
                return key
        _make_key(path)
    return b""


def _make_key(path: Path) -> None:
    """Replaces an invalid key by a new one; if two processes do so, the first one's key stays."""
    with suppress(OSError):
        path.unlink()
    with suppress(OSError):
        number, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(number, "wb") as file:
            file.write(os.urandom(KEY_BYTES))
        try:
            os.link(temporary, path)  # unlike a rename it replaces nothing
        except FileExistsError:
            pass
        except OSError:  # a file system without such links
            replace(temporary, path)
        Path(temporary).unlink(missing_ok=True)
