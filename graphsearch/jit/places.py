"""Folders of machine code, in the package and in the user's cache: safe reading and writing of their files.

    jit/ready/DIGEST/LEVEL/               came with a wheel for the platform, for levels of processors
    ~/.cache/graphsearch/kernels-DIGEST/  was compiled here, for this processor

The digest covers the compiler, and a file's name another of its kernel's sources (`sources.py`), so code that
does not fit is not found. Loaded code is executed, so only files that this user's program wrote are read:
each begins with an HMAC of its name and content, and only the user can read the key. Any other file counts
as missing, and its kernel is compiled again.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import stat
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..base.system import SAFELY, is_private, is_secret, replace, try_lock, user_folder, user_number
from . import machine_code
from .machine_code import SUFFIX

KEY, KEY_BYTES = "key", 32
SIGNATURE_BYTES = 32  # HMAC-SHA256
MOST_BYTES = 32 << 20  # of a file: the code of the largest kernel takes a third of a megabyte
LONGEST_WAIT_S = 120.0  # for a lock; a kernel takes half a minute at most
BETWEEN_TRIES_S = 0.02
ABSENT = {errno.ENOENT, errno.ENOTDIR}

READY = Path(__file__).with_name("ready")
# when building a wheel: levels to compile for, into the package, and another platform than this one
BUILDING, BUILDING_FOR = "GRAPHSEARCH_BUILD_LEVELS", "GRAPHSEARCH_BUILD_PLATFORM"
COMPILING = "compiling kernels for graphsearch, once; this can take a minute"

# levels of processors, best first, with LLVM's names of their features: those of the x86-64 psABI, and every
# 64-bit ARM
_V2 = frozenset({"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"})
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
LEVELS = {"x86-64-v3": _V3, "x86-64-v2": _V2, "generic": frozenset({"neon"})}

_NOTED: set[Path] = set()  # folders with a logged warning
_is_patient = True  # until a process has held a lock too long: it may be suspended, and hold many
_announced = False


@dataclass(frozen=True, slots=True)
class CodeFolder:
    """A folder of files written by this program, for one level of processors.

    Attributes:
      path: the folder; it need not exist.
      key: signs the files; empty for code that came with the package: its files may belong to anyone and are
        as safe as the modules beside them; their signature is only a checksum.
      level: a key of `LEVELS`; empty: only this processor.
      platform: as `sysconfig.get_platform`; empty: this one.
    """

    path: Path
    key: bytes
    level: str = ""
    platform: str = ""

    def file_name(self, label: str, kind: object = None) -> str:
        """Returns the file name for a kernel's kind of arguments, or for a mark if `kind` is None."""
        processor = self.level or machine_code.machine()
        if kind is None:
            return f"{label}-{processor}"
        return f"{label}-{hashlib.sha256(repr((processor, kind)).encode()).hexdigest()[:16]}{SUFFIX}"

    def read(self, name: str) -> bytes | None:
        """Returns the content that `write` wrote under this name, None if the file is missing or invalid."""
        try:
            data = read_regular(self.path / name, owned=bool(self.key))
        except OSError as error:
            if error.errno in ABSENT:
                return None
            data = b""
        content = data[SIGNATURE_BYTES:]
        if hmac.compare_digest(data[:SIGNATURE_BYTES], self._signature(name, content)):
            return content
        complain(self.path, f"{self.path / name} is not what was written there; it is compiled again")
        return None

    def write(self, name: str, content: bytes) -> None:
        """Writes a file if possible; without it the kernel is compiled again."""
        write_whole(self.path / name, self._signature(name, content) + content)
        if not self.key:  # part of the package, which all users read
            with suppress(OSError):
                (self.path / name).chmod(0o644)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Holds a lock between processes, where the system has such locks.

        The system releases the lock when the process ends; its empty file stays. A process waits once for
        LONGEST_WAIT_S, because the owner may be suspended; then both do the same work.
        """
        global _is_patient
        try:
            number = os.open(self.path / f"{name}.lock", os.O_RDWR | os.O_CREAT | SAFELY, 0o600)
        except OSError:
            yield
            return
        end = time.monotonic() + LONGEST_WAIT_S
        try:
            with suppress(OSError):  # a file system without locks
                while stat.S_ISREG(os.fstat(number).st_mode) and not try_lock(number) and _is_patient:
                    time.sleep(BETWEEN_TRIES_S)
                    _is_patient = time.monotonic() < end
            yield
        finally:
            os.close(number)

    def _signature(self, name: str, content: bytes) -> bytes:
        return hmac.digest(self.key, name.encode() + b"\0" + content, "sha256")


class LevelFolders:
    """The folders for one digest of sources; they are created and checked when needed.

    Attributes:
      digest: of the compiler; empty if nothing is compiled.
    """

    def __init__(self, digest: str) -> None:
        self.digest = digest

    @cached_property
    def writing(self) -> list[CodeFolder]:
        """Folders to write new code to: one, none, or those of a wheel being built.

        The code of the first one runs here.
        """
        if BUILDING in os.environ:
            levels = [level for level in os.environ[BUILDING].split() if runs_here(level)]
            if not levels:
                raise OSError(f"this processor runs no code for {os.environ[BUILDING] or 'no level'}")
            platforms = dict.fromkeys(["", os.environ.get(BUILDING_FOR, "")])
            made = [self._ready(level, platform) for platform in platforms for level in levels]
            for place in made:
                place.path.mkdir(parents=True, exist_ok=True)
            return made
        cache = code_cache(f"kernels-{self.digest}")
        return [cache] if cache else []

    @property
    def inside(self) -> CodeFolder | None:
        """The user's folder, for functions inside kernels; None without one, and when building a wheel."""
        return None if BUILDING in os.environ else next(iter(self.writing), None)

    @cached_property
    def reading(self) -> list[CodeFolder]:
        """Folders to read code from, in this order."""
        if BUILDING in os.environ:
            return self.writing
        came = [self._ready(level, "") for level in LEVELS if runs_here(level)] if READY.is_dir() else []
        return [place for place in came if place.path.is_dir()] + self.writing

    def _ready(self, level: str, platform: str) -> CodeFolder:
        where = READY / ready_name(self.digest, platform or sysconfig.get_platform())
        return CodeFolder(where / level, b"", level, platform)


def ready_name(digest: str, platform: str) -> str:
    """Returns the name of the folder with a package's machine code for this Python on a platform."""
    what = digest, sys.implementation.cache_tag, platform, object.__basicsize__
    return f"{platform}-{hashlib.sha256(repr(what).encode()).hexdigest()[:16]}"


def runs_here(level: str) -> bool:
    """Returns whether this processor has all features of a level, and there is such a level."""
    features = machine_code.features()
    return level in LEVELS and all(features.get(name) for name in LEVELS[level])


def announce() -> None:
    """Logs, once in a process, that kernels are compiled, on the log `graphsearch` (by default stderr)."""
    global _announced
    if not _announced:
        import logging  # costs every start of the program 20 ms

        _announced = True
        logging.getLogger("graphsearch").warning(COMPILING)


def announced() -> None:
    """Records that the user already knows of the compilation, for example from a progress bar."""
    global _announced
    _announced = True


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
    """Returns the key of a folder; one process makes an absent or invalid one anew; empty if it cannot."""
    if key := _read_key(folder / KEY):
        return key
    with CodeFolder(folder, b"").alone(KEY):
        if not _read_key(folder / KEY):
            write_whole(folder / KEY, os.urandom(KEY_BYTES))
    return _read_key(folder / KEY)


def _read_key(path: Path) -> bytes:
    with suppress(OSError):
        key = read_regular(path, owned=True)
        if len(key) == KEY_BYTES and is_secret(path.lstat()):
            return key
    return b""
