"""Folders of machine code: in the package, and in the user's cache.

    jit/ready/DIGEST/LEVEL/               came with a wheel for the platform, for levels of processors
    ~/.cache/graphsearch/kernels-DIGEST/  was compiled here, for this processor

The digest covers the compiler, and a file's name another of its kernel's sources (`sources.py`), so code that
does not fit is not found.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from . import machine_code
from .cache import CodeFolder, code_cache
from .machine_code import SUFFIX, MachineCode

READY = Path(__file__).with_name("ready")
# when building a wheel: levels to compile for, into the package, and another platform than this one
BUILDING, BUILDING_FOR = "GRAPHSEARCH_BUILD_LEVELS", "GRAPHSEARCH_BUILD_PLATFORM"
COMPILING = "compiling kernels for graphsearch, once; this can take a minute"

# levels of processors, best first, with LLVM's names of their features: those of the x86-64 psABI, and every
# 64-bit ARM
_V2 = frozenset({"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"})
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
LEVELS = {"x86-64-v3": _V3, "x86-64-v2": _V2, "generic": frozenset({"neon"})}


@dataclass(frozen=True, slots=True)
class LevelFolder:
    """A folder of code for one level of processors.

    Attributes:
      level: a key of `LEVELS`; empty: only this processor.
      platform: as `sysconfig.get_platform`; empty: this one.
    """

    folder: CodeFolder
    level: str
    platform: str = ""

    def file_name(self, label: str, kind: object = None) -> str:
        """Returns the file name for a kernel's kind of arguments, or for a mark if `kind` is None."""
        processor = self.level or machine_code.machine()
        if kind is None:
            return f"{label}-{processor}"
        return f"{label}-{hashlib.sha256(repr((processor, kind)).encode()).hexdigest()[:16]}{SUFFIX}"

    def read(self, label: str, kind: object) -> MachineCode | None:
        """Returns the code of a kernel for a kind of arguments, None if it is not there."""
        data = self.folder.read(self.file_name(label, kind))
        return None if data is None else MachineCode.from_bytes(data)

    def write(self, label: str, kind: object, code: MachineCode) -> None:
        """Writes the code of a kernel for a kind of arguments."""
        self.folder.write(self.file_name(label, kind), code.to_bytes())

    def has_mark(self, purpose: str) -> bool:
        """Returns whether all kernels of a purpose are in this folder."""
        return self.folder.read(self.file_name(purpose)) is not None

    def mark(self, purpose: str) -> None:
        """Records that all kernels of a purpose are in this folder."""
        self.folder.write(self.file_name(purpose), b"")


class LevelFolders:
    """The folders for one digest of sources; they are created and checked when needed.

    Attributes:
      digest: of the compiler; empty if nothing is compiled.
    """

    def __init__(self, digest: str) -> None:
        self.digest = digest

    @cached_property
    def writing(self) -> list[LevelFolder]:
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
                place.folder.path.mkdir(parents=True, exist_ok=True)
            return made
        cache = code_cache(f"kernels-{self.digest}")
        return [LevelFolder(cache, "")] if cache else []

    @property
    def inside(self) -> LevelFolder | None:
        """The user's folder, for functions inside kernels; None without one, and when building a wheel."""
        return None if BUILDING in os.environ else next(iter(self.writing), None)

    @cached_property
    def reading(self) -> list[LevelFolder]:
        """Folders to read code from, in this order."""
        if BUILDING in os.environ:
            return self.writing
        came = [self._ready(level, "") for level in LEVELS if runs_here(level)] if READY.is_dir() else []
        return [place for place in came if place.folder.path.is_dir()] + self.writing

    def _ready(self, level: str, platform: str) -> LevelFolder:
        where = READY / ready_name(self.digest, platform or sysconfig.get_platform())
        return LevelFolder(CodeFolder(where / level, b""), level, platform)


def ready_name(digest: str, platform: str) -> str:
    """Returns the name of the folder with a package's machine code for this Python on a platform."""
    what = digest, sys.implementation.cache_tag, platform, object.__basicsize__
    return f"{platform}-{hashlib.sha256(repr(what).encode()).hexdigest()[:16]}"


def runs_here(level: str) -> bool:
    """Returns whether this processor has all features of a level, and there is such a level."""
    features = machine_code.features()
    return level in LEVELS and all(features.get(name) for name in LEVELS[level])


_announced = False


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
