"""The cache of machine code: what its files are named after, how they are read and written, and loaded.

    jit/ready/DIGEST/LEVEL/               came with a wheel for the platform, for levels of processors
    ~/.cache/graphsearch/kernels-DIGEST/  was compiled here, for this processor

The folder's digest covers the compiler and this room. A file's name has another, of its kernel's module and
of what that imports: kernels, with what those import in turn, and other modules, for their constants. So code
that does not fit is not found.

Loaded code is executed, so only files that this user's program wrote are read: each begins with an HMAC of
its name and content, and only the user can read the key. Any other file counts as missing, and its kernel is
compiled again. Machine code loads with `llvmlite` alone: importing Numba takes longer.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import re
import stat
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.system import SAFELY, is_private, is_secret, replace, try_lock, user_folder, user_number

ROOM = Path(__file__).parent
PACKAGE = ROOM.parent
# an import of the project at the head of a module: its dots, its module, its names
IMPORT = re.compile(r"^from (\.+)([\w.]*) import ([^(\n]+|\([^)]*\))", re.MULTILINE)


# ------------------------------------------------------------------ sources
def label(function: Callable[..., object]) -> str:
    """Returns the name of a function with its module, for files."""
    return f"{function.__module__}.{function.__qualname__}".replace(".<locals>", "")


def compiler_digest() -> str:
    """Returns a hash of the compiler's version and of this room."""
    spec = find_spec("numba")  # found, not imported
    version = Path(spec.origin or "").with_name("_version.py").read_bytes() if spec else b""
    return _digest(version.replace(b"\r\n", b"\n"), _room())  # wheels for Windows have its line ends


@cache
def sources_digest(module: str) -> str:
    """Returns a hash of the sources of a module's kernels; this room's are left out.

    A module outside the package, as of a test, may use every kernel.
    """
    path = sys.modules[module].__file__ or ""
    if path.startswith(f"{PACKAGE}{os.sep}"):
        return _digest(b"", _reached([path]))
    return _digest(_text(path) if path else b"", kernel_sources())


@cache
def all_digest() -> str:
    """Returns a hash of the sources of all kernels."""
    return _digest(b"", kernel_sources())


def kernel_sources() -> list[str]:
    """Returns the paths, sorted, of all modules that kernels are compiled from."""
    kernels = map(str, PACKAGE.rglob("*_kernel.py"))
    return sorted(_reached(kernels) | {*_room()})


def _digest(begin: bytes, paths: Iterable[str]) -> str:
    digest = hashlib.sha256(begin)
    for path in sorted(paths, key=lambda path: path.replace(os.sep, "/")):  # the same order everywhere
        digest.update(_text(path))
    return digest.hexdigest()[:16]


def _room() -> list[str]:
    return [str(path) for path in ROOM.glob("*.py")]


def _reached(paths: Iterable[str]) -> set[str]:
    """Returns modules and what they import, through kernels; other modules give constants alone."""
    reached: set[str] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            if path.endswith("_kernel.py"):
                waiting += _imported(path)
    return reached


@cache
def _text(path: str) -> bytes:
    return Path(path).read_bytes()


@cache
def _imported(path: str) -> tuple[str, ...]:
    """Returns the paths of the modules that a module imports at its head."""
    found: list[str] = []
    for dots, module, names in IMPORT.findall(_text(path).partition(b"\n@")[0].decode()):
        base = path.rsplit(os.sep, len(dots))[0] + f".{module}".rstrip(".").replace(".", os.sep)
        inside = (f"{base}{os.sep}{name}" for name in re.findall(r"(\w+)(?: as \w+)?", names))  # of a room
        found += [f"{module}.py" for module in (base, *inside) if Path(f"{module}.py").is_file()]
    return tuple(found)


# ------------------------------------------------------------------ machine code
ENTRY = "graphsearch_entry"
MOST_RESULTS = 8  # words that a kernel returns, at most
FORMATS: dict[Any, str] = {  # of numbers, by type, for `struct`: each fills 8 bytes, on every platform
    int: "q",
    float: "d",
    bool: "?7x",
    np.bool_: "?7x",
    np.int8: "b7x",
    np.int16: "h6x",
    np.int32: "i4x",
    np.int64: "q",
    np.uint8: "B7x",
    np.uint16: "H6x",
    np.uint32: "I4x",
    np.uint64: "Q",
    np.float32: "f4x",
    np.float64: "d",
}
_LOADED: list[Any] = []  # engines live as long as the process


class MachineCode(NamedTuple):
    """One kernel, compiled for one kind of arguments; pickled in files.

    Attributes:
      code: an object file with the function `ENTRY`: arguments and results as words (`compiler.py`).
      results: the format of the results, for `struct`.
      is_tuple: whether the result is a tuple of them; else it is the only one, or None without one.
      outside: functions that the code calls and does not contain.
    """

    code: bytes
    results: str
    is_tuple: bool
    outside: tuple[str, ...]

    def load(self) -> int:
        """Loads the code; returns the address of its entry: (words, results) -> int32 status, 0 if done."""
        llvm = _llvm()
        target = llvm.Target.from_triple(llvm.get_process_triple())
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target.create_target_machine(jit=True))
        if any(
            llvm.address_of_symbol(name) is None for name in self.outside
        ):  # the engine finds the process's
            from numba.core.registry import cpu_target  # it brings C functions, as of libm on Windows

            cpu_target.target_context.refresh()
        engine.add_object_file(llvm.ObjectFileRef.from_data(self.code))
        engine.finalize_object()
        _LOADED.append(engine)
        return int(engine.get_function_address(ENTRY))


@cache
def machine() -> str:
    """Returns a hash of the processor and of everything else that decides which machine code runs here."""
    llvm = _llvm()
    features = llvm.get_host_cpu_features().flatten()
    what = (llvm.get_process_triple(), llvm.get_host_cpu_name(), features, llvm.llvm_version_info)
    return hashlib.sha256(repr((what, object.__basicsize__)).encode()).hexdigest()[:16]


@cache
def _llvm() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


# levels of processors, best first, with LLVM's names of their features: those of the x86-64 psABI, and every
# 64-bit ARM
_V2 = frozenset({"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"})
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
LEVELS = {"x86-64-v3": _V3, "x86-64-v2": _V2, "generic": frozenset({"neon"})}


def runs_here(level: str) -> bool:
    """Returns whether this processor has all features of a level, and there is such a level."""
    return level in LEVELS and all(_features().get(name) for name in LEVELS[level])


def _features() -> dict[str, bool]:
    """Returns this processor's features, present and missing, by LLVM's names."""
    return dict(_llvm().get_host_cpu_features())


# ------------------------------------------------------------------ messages, on stderr by default
COMPILING = "compiling kernels for graphsearch, once; this can take a minute"

_SAID: set[object] = set()  # what this process has logged about: COMPILING, or a folder


def announce() -> None:
    """Logs, once in a process, that kernels are compiled."""
    _say_once(COMPILING, COMPILING)


def announced() -> None:
    """Records that the user already knows of the compilation, for example from a progress bar."""
    _SAID.add(COMPILING)


def _say_once(about: object, text: str) -> None:
    if about not in _SAID:
        import logging  # costs every start of the program 20 ms

        _SAID.add(about)
        logging.getLogger("graphsearch").warning(text)


def _complain(folder: Path, text: str) -> None:
    _say_once(folder, f"compiled kernels: {text}")


# ------------------------------------------------------------------ one folder
KEY, KEY_BYTES = "key", 32
SIGNATURE_BYTES = 32  # HMAC-SHA256
MOST_BYTES = 32 << 20  # of a file: the code of the largest kernel takes a third of a megabyte
SUFFIX = ".code"
LONGEST_WAIT_S = 120.0  # for a lock; a kernel takes half a minute at most
BETWEEN_TRIES_S = 0.02

_is_patient = True  # until a process has held a lock too long: it may be suspended, and hold many


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
        processor = self.level or machine()
        if kind is None:
            return f"{label}-{processor}"
        return f"{label}-{hashlib.sha256(repr((processor, kind)).encode()).hexdigest()[:16]}{SUFFIX}"

    def read(self, name: str) -> bytes | None:
        """Returns the content that `write` wrote under this name, None if the file is missing or invalid."""
        try:
            data = _read_regular(self.path / name, owned=bool(self.key))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            data = b""
        content = data[SIGNATURE_BYTES:]
        if hmac.compare_digest(data[:SIGNATURE_BYTES], self._signature(name, content)):
            return content
        _complain(self.path, f"{self.path / name} is not what was written there; it is compiled again")
        return None

    def write(self, name: str, content: bytes) -> None:
        """Writes a file if possible; without it the kernel is compiled again."""
        _write_whole(self.path / name, self._signature(name, content) + content)
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


def _read_regular(path: Path, *, owned: bool) -> bytes:
    """Returns the content of a regular file of no more than MOST_BYTES, the user's own if `owned`.

    Raises:
      OSError: if it is none, or cannot be opened.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | SAFELY), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        is_sound = is_private(status, kind=stat.S_IFREG) if owned else stat.S_ISREG(status.st_mode)
        if not is_sound or status.st_size > MOST_BYTES:
            raise OSError(errno.EINVAL, "not a file of this user's cache", str(path))
        return file.read(MOST_BYTES)


def _write_whole(path: Path, data: bytes) -> None:
    """Writes a file atomically; nothing without space or permission, or if Windows has it in use."""
    with suppress(OSError):
        number, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(data)
            replace(temporary, path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)


# ------------------------------------------------------------------ the user's folder
def cache_folder(name: str) -> Path | None:
    """Returns a writable folder for this program's caches, created if necessary; None if there is none."""
    return next(_candidates(name), None)


def code_cache(name: str) -> CodeFolder | None:
    """Returns the user's folder of compiled code: the first that only the user can write; None if none is."""
    for folder in _candidates(name):
        if not is_private(folder.lstat(), kind=stat.S_IFDIR):
            _complain(folder, f"{folder} is not used: it must belong to you, and nobody else may write there")
        elif key := _key(folder):
            return CodeFolder(folder, key)
        else:
            _complain(folder, f"{folder} is not used: no key can be made there")
    return None


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


def _key(folder: Path) -> bytes:
    """Returns the key of a folder; one process makes an absent or invalid one anew; empty if it cannot."""
    if key := _read_key(folder / KEY):
        return key
    with CodeFolder(folder, b"").alone(KEY):
        if not _read_key(folder / KEY):
            _write_whole(folder / KEY, os.urandom(KEY_BYTES))
    return _read_key(folder / KEY)


def _read_key(path: Path) -> bytes:
    with suppress(OSError):
        key = _read_regular(path, owned=True)
        if len(key) == KEY_BYTES and is_secret(path.lstat()):
            return key
    return b""


# ------------------------------------------------------------------ all folders
READY = Path(__file__).with_name("ready")
# when building a wheel: levels to compile for, into the package, and another platform than this one, whose
# code FOLDER gets alone, while the user's cache gets that of this one
BUILDING, BUILDING_FOR = "GRAPHSEARCH_BUILD_LEVELS", "GRAPHSEARCH_BUILD_PLATFORM"
FOLDER = "GRAPHSEARCH_BUILD_FOLDER"


class LevelFolders:
    """The folders for one digest of the compiler; they are created and checked when needed."""

    def __init__(self, digest: str) -> None:
        self._digest = digest

    @cached_property
    def writing(self) -> list[CodeFolder]:
        """Folders to write new code to: one, none, or those of a wheel; the first one's code runs here."""
        if BUILDING in os.environ:
            levels = [level for level in os.environ[BUILDING].split() if runs_here(level)]
            if not levels:
                raise OSError(f"this processor runs no code for {os.environ[BUILDING] or 'no level'}")
            platforms = dict.fromkeys(["", os.environ.get(BUILDING_FOR, "")])
            made = [self._ready(level, platform) for platform in platforms for level in levels]
        else:
            cache = code_cache(f"kernels-{self._digest}")
            best = next(filter(runs_here, LEVELS), "") if FOLDER in os.environ else ""
            made = [cache] if cache else []
            made += [self._ready(best, os.environ[BUILDING_FOR])] if cache and best else []
        for place in made:
            place.path.mkdir(parents=True, exist_ok=True)
        return made

    @cached_property
    def reading(self) -> list[CodeFolder]:
        """Folders to read code from, in this order."""
        if BUILDING in os.environ:
            return self.writing
        came = [self._ready(level, "") for level in LEVELS if runs_here(level)] if READY.is_dir() else []
        own = [place for place in self.writing if not place.platform]
        return [place for place in came if place.path.is_dir()] + own

    def _ready(self, level: str, platform: str) -> CodeFolder:
        root = Path(os.environ.get(FOLDER, READY)) if platform else READY
        where = root / ready_name(self._digest, platform or sysconfig.get_platform())
        return CodeFolder(where / level, b"", level, platform)


def ready_name(digest: str, platform: str) -> str:
    """Returns the name of the folder with a package's machine code for this Python on a platform."""
    what = digest, sys.implementation.cache_tag, platform, object.__basicsize__
    return f"{platform}-{hashlib.sha256(repr(what).encode()).hexdigest()[:16]}"
