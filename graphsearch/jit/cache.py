"""The cache of machine code: what its files are named after, how they are read and written, and loaded.

    jit/ready/DIGEST/LEVEL/               came with a wheel for the platform, for levels of processors
    ~/.cache/graphsearch/kernels-DIGEST/  was compiled here, for this processor

The folder's digest covers the compiler and this room. A file's name has another, of its kernel's module and
of what that imports: kernels, with what those import in turn, and other modules, for their constants. So code
that does not fit is not found.

Loaded code is executed, so only files that no other user can write are read, and each begins with a digest of
its name and content. Any other file counts as missing, and its kernel is compiled again. Machine code loads
with `llvmlite` alone: importing Numba takes longer.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..base.system import SAFELY, is_private, locked, replace, user_folder, user_number

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
    version = [Path(spec.origin or "").with_name("_version.py").as_posix()] if spec else []
    return _digest([*version, *_room()])


@cache
def sources_digest(module: str) -> str:
    """Returns a hash of the sources of a module's kernels; this room's are left out.

    A module outside the package, as of a test, may use every kernel.
    """
    path = Path(sys.modules[module].__file__ or "")
    return _digest(
        _reached([path.as_posix()]) if path.is_relative_to(PACKAGE) else [path.as_posix(), *kernel_sources()]
    )


@cache
def all_digest() -> str:
    """Returns a hash of the sources of all kernels."""
    return _digest(kernel_sources())


def kernel_sources() -> list[str]:
    """Returns the paths, sorted, of all modules that kernels are compiled from."""
    kernels = (path.as_posix() for path in PACKAGE.rglob("*_kernel.py"))
    return sorted({*_reached(kernels), *_room()})


def _digest(paths: Iterable[str]) -> str:
    return _short(b"".join(map(_text, paths)))


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _room() -> list[str]:
    return sorted(path.as_posix() for path in ROOM.glob("*.py"))


def _reached(paths: Iterable[str]) -> list[str]:
    """Returns modules and what they import, through kernels, sorted; other modules give constants alone."""
    reached: set[str] = set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path not in reached:
            reached.add(path)
            if path.endswith("_kernel.py"):
                waiting += _imported(path)
    return sorted(reached)


@cache
def _text(path: str) -> bytes:
    return Path(path).read_bytes().replace(b"\r\n", b"\n")  # wheels for Windows have its line ends


@cache
def _imported(path: str) -> tuple[str, ...]:
    """Returns the paths of the modules that a module imports at its head."""
    found: list[str] = []
    for dots, module, names in IMPORT.findall(_text(path).partition(b"\n@")[0].decode()):
        base = path.rsplit("/", len(dots))[0] + f".{module}".rstrip(".").replace(".", "/")
        inside = [f"{base}/{name}" for name in re.findall(r"(\w+)(?: as \w+)?", names)]  # of a room
        modules = [base] if Path(f"{base}.py").is_file() else inside
        found += [f"{module}.py" for module in modules if Path(f"{module}.py").is_file()]
    return tuple(found)


# ------------------------------------------------------------------ machine code
ENTRY = "graphsearch_entry"
MOST_RESULTS = 8  # words that a kernel returns, at most
# of numbers, by type, for `struct`: each fills 8 bytes, on every platform
FORMATS: dict[Any, str] = {int: "q", float: "d", bool: "?7x", np.bool_: "?7x"}
FORMATS |= {
    np.dtype(name).type: f"{code}{8 - int(name[1])}x"
    for name, code in zip("i1 i2 i4 i8 u1 u2 u4 u8 f4 f8".split(), "bhiqBHIQfd", strict=True)
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
        triple = llvm.get_process_triple()
        target = llvm.Target.from_triple(triple).create_target_machine(jit=True)
        # as llvmlite decides it by `platform.machine`, which starts a process on Windows
        is_arm = triple.startswith(("aarch64", "arm64"))
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target, is_arm)
        if not all(map(llvm.address_of_symbol, self.outside)):  # the engine finds the process's
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
    return _short(repr((what, object.__basicsize__)).encode())


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
    """Returns whether this processor has all features of a level."""
    features = _llvm().get_host_cpu_features()
    return all(features.get(name) for name in LEVELS[level])


# ------------------------------------------------------------------ messages, on stderr by default
COMPILING = "compiling kernels for graphsearch, once; this can take a minute"

_SAID: set[object] = set()  # what this process has logged about: COMPILING, or a folder


def say_once(text: str, about: object = COMPILING) -> None:
    """Logs, once in a process, a line about something: by default that kernels are compiled."""
    if about not in _SAID:
        import logging  # costs every start of the program 20 ms

        _SAID.add(about)
        logging.getLogger("graphsearch").warning(text)


def announced() -> None:
    """Records that the user already knows of the compilation, for example from a progress bar."""
    _SAID.add(COMPILING)


# ------------------------------------------------------------------ one folder
DIGEST_BYTES = 32  # SHA-256
MOST_BYTES = 32 << 20  # of a file: the code of the largest kernel takes a third of a megabyte
SUFFIX = ".code"
LONGEST_WAIT_S = 120.0  # for a lock; a kernel takes half a minute at most


@dataclass(frozen=True, slots=True)
class CodeFolder:
    """A folder of files written by this program, for one level of processors.

    Attributes:
      path: the folder; it need not exist.
      level: a key of `LEVELS`, of a folder in the package, which is as safe as the modules beside it; empty:
        the user's own folder, with code for this processor alone.
      platform: as `sysconfig.get_platform`; empty: this one.
    """

    path: Path
    level: str = ""
    platform: str = ""

    def file_name(self, label: str, kind: object) -> str:
        """Returns the file name for a kernel's kind of arguments."""
        return f"{label}-{_short(repr((self.level or machine(), kind)).encode())}{SUFFIX}"

    def mark_name(self, purpose: str) -> str:
        """Returns the name of the file that records that the kernels of a purpose are compiled."""
        return f"{purpose}-{all_digest()}-{self.level or machine()}"

    def read(self, name: str) -> bytes | None:
        """Returns the content that `write` wrote under this name, None if the file is missing or invalid."""
        try:
            with os.fdopen(os.open(self.path / name, os.O_RDONLY | SAFELY), "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                is_sound = (
                    stat.S_ISREG(status.st_mode) if self.level else is_private(status, kind=stat.S_IFREG)
                )
                data = file.read(MOST_BYTES) if is_sound else b""
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            data = b""
        content = data[DIGEST_BYTES:]
        if data == _with_digest(name, content):
            return content
        found = f"{self.path / name} is not what was written there; it is compiled again"
        say_once(f"compiled kernels: {found}", self.path)
        return None

    def write(self, name: str, content: bytes) -> None:
        """Writes a file atomically if possible; without it the kernel is compiled again."""
        temporary = self.path / f"{name}.{os.getpid()}"
        with suppress(OSError):  # no space or permission, or Windows has the file in use
            try:
                temporary.touch(0o644)
                temporary.write_bytes(_with_digest(name, content))
                replace(temporary, self.path / name)
            finally:
                temporary.unlink(missing_ok=True)

    def alone(self, name: str, *, wait: bool = True) -> AbstractContextManager[bool]:
        """Holds a lock between processes, where the system has such locks; yields whether it does."""
        return locked(self.path / f"{name}.lock", LONGEST_WAIT_S if wait else 0)


def _with_digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + content).digest() + content


def cache_folder(name: str) -> Path | None:
    """Returns a folder that only the user can write, created if necessary; None if there is none.

    It is in the user's cache folder, else in the temporary folder.
    """
    given = os.environ.get("GRAPHSEARCH_CACHE_DIR")
    own = Path(given, "graphsearch") if given else user_folder("cache")
    for parent in (own, Path(tempfile.gettempdir(), f"graphsearch-{user_number()}")):
        try:
            home = parent.expanduser()
            folder = home / name
            for place in (home.parent, home, folder):
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_own = all(is_private(one, kind=stat.S_IFDIR) for one in (home.stat(), folder.lstat()))
        except (OSError, RuntimeError):  # no permission, or no home folder
            continue
        if not is_own:
            say_once(f"{folder} is not used: it must belong to you, and nobody else may write there", folder)
        elif os.access(folder, os.W_OK):
            return folder
    return None


# ------------------------------------------------------------------ all folders
READY = Path(__file__).with_name("ready")
# when building a wheel: levels of processors and a platform to compile for, beside this one, and the folder
# for that code instead of the package's
BUILDING, BUILDING_FOR = "GRAPHSEARCH_BUILD_LEVELS", "GRAPHSEARCH_BUILD_PLATFORM"
FOLDER = "GRAPHSEARCH_BUILD_FOLDER"


class LevelFolders:
    """The folders for one digest of the compiler; they are created and checked when needed."""

    def __init__(self, digest: str) -> None:
        self._digest = digest

    @cached_property
    def own(self) -> CodeFolder:
        """The user's folder; one in which nothing can be written if there is none."""
        return CodeFolder(cache_folder(f"kernels-{self._digest}") or Path(os.devnull))

    @cached_property
    def writing(self) -> list[CodeFolder]:
        """Folders to write new code to: the user's, and those of a wheel."""
        wanted, platform = os.environ.get(BUILDING, "").split(), os.environ.get(BUILDING_FOR, "")
        root = Path(os.environ.get(FOLDER, READY), ready_name(self._digest, platform))
        made = [CodeFolder(root / level, level, platform) for level in LEVELS if level in wanted]
        for place in made:
            place.path.mkdir(parents=True, exist_ok=True)
        return [self.own, *made]

    @cached_property
    def reading(self) -> list[CodeFolder]:
        """Folders to read code from, in this order."""
        came = [CodeFolder(READY / ready_name(self._digest) / level, level) for level in LEVELS]
        return [*(place for place in came if place.path.is_dir() and runs_here(place.level)), self.own]


def ready_name(digest: str, platform: str = "") -> str:
    """Returns the name of the folder with a package's machine code for this Python on a platform."""
    platform = platform or sysconfig.get_platform()
    what = digest, sys.implementation.cache_tag, platform, object.__basicsize__
    return f"{platform}-{_short(repr(what).encode())}"
