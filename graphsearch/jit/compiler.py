"""The compiler's settings: how kernels and the functions inside them are compiled, and where they are cached.

Rules that measurements forced (array arguments lost 2.5x to reference counting and index checks):
inner kernels take pointers, outer ones take arrays and keep them alive; every literal and shift count
that meets a `uint64` is a `uint64`, every index an `int64`; no fastmath (cached and fresh code differed);
no recursion (crashed from a warm cache); no explicit signatures; integer literals in calls are wrapped
(`int64(5)`), because each bare one compiles another variant.

With NUMBA_DISABLE_JIT=1 the same code runs as plain Python (`pointers.py`).
"""

from __future__ import annotations

import gc
import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event

from .pipeline import INNER_OPTIONS

JIT_OFF = bool(numba.config.DISABLE_JIT)

_F = TypeVar("_F", bound=Callable[..., Any])


PACKAGE = Path(__file__).parents[1]
CONSTANTS = (  # plain modules whose constants kernels compile in
    "alphabeta/layout.py",
    "evaluators/builtin/layout.py",
    "evaluators/kinds.py",
    "evaluators/lc0/layout.py",
    "evaluators/lines.py",
    "position/board.py",
    "position/scores.py",
    "position/tables.py",
    "position/values.py",
    "position/words.py",
    "record/bounds.py",
    "record/node.py",
    "record/node_layout.py",
    "record/transposition_layout.py",
    "search/layout.py",
    "search/params.py",
    "search/puct.py",
    "store/codec/layout.py",
    "store/index/layout.py",
)


def kernel_sources() -> list[Path]:
    """Returns every module that kernels are made of, of all folders, in a fixed order."""
    kernels = [*PACKAGE.glob("jit/*.py"), *PACKAGE.rglob("*_kernel.py")]
    return sorted([*kernels, *(PACKAGE / name for name in CONSTANTS)])


def _sources_digest() -> str:
    """Returns a hash of all kernel sources: Numba's cache does not notice edits in a callee's module."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in kernel_sources():
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder() -> Path | None:
    """Returns a writable folder for compiled code, or None if there is none."""
    base = os.environ.get("GRAPHSEARCH_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    own = Path(tempfile.gettempdir()) / f"graphsearch-{getattr(os, 'getuid', lambda: 0)()}"
    for parent in (Path(base), own):
        try:
            parent.expanduser().mkdir(mode=0o700, parents=True, exist_ok=True)
            if parent == own and not _is_private(own):
                continue
            folder = parent.expanduser() / "graphsearch" / f"kernels-{_sources_digest()}"
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):  # no right to make it, or no home
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None


def _is_private(folder: Path) -> bool:
    """Returns whether nobody else can put code there: compiled code is run when it is loaded."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


CACHE_FOLDER = None if JIT_OFF else _cache_folder()


class _RareCollections(event.Listener):  # type: ignore[misc]
    """Lets the garbage collector run rarely while kernels compile.

    A cold start of the first search takes some percent less CPU time, for 7 MB. Without any collection it
    takes as long and 200 MB more. Numba compiles in one thread at a time, callees within their caller.
    """

    THRESHOLDS = 30_000, 20, 50  # Python's own are 700, 10, 10

    def __init__(self) -> None:
        self._depth = 0
        self._before = gc.get_threshold()

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._before = gc.get_threshold()
            gc.set_threshold(*self.THRESHOLDS)
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            gc.set_threshold(*self._before)


event.register("numba:compile", _RareCollections())


def kernel(function: _F) -> _F:
    """Compiles a function, cached on disk under a name that changes with any kernel source."""
    if CACHE_FOLDER is None:
        return cast(_F, numba.njit(nogil=True, error_model="numpy")(function))
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(CACHE_FOLDER)
    try:
        return cast(_F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    finally:
        numba.config.CACHE_DIR = before


def inner(function: _F) -> _F:
    """Compiles a function that only kernels call.

    It is typed and lowered alone but optimised, once, inside the kernels that reach it; Numba on its own
    would optimise and translate it again at every level of the call graph (34 s cold instead of 15).
    """
    return cast(_F, numba.njit(nogil=True, error_model="numpy", **INNER_OPTIONS)(function))


def inlined(function: _F) -> _F:
    """Compiles as `inner` does a small function that is to stand in the code of every caller, for speed."""
    options = {**INNER_OPTIONS, "forceinline": True}
    return cast(_F, numba.njit(nogil=True, error_model="numpy", **options)(function))


_MARKED: set[str] = set()  # by this process


def _marker(purpose: str) -> Path | None:
    """Returns the file that says the kernels of a purpose are compiled, for this installation.

    Numba's cache goes by the path and time of a source file, so a new installation compiles anew.
    """
    if CACHE_FOLDER is None:
        return None
    times = [source.stat().st_mtime_ns for source in kernel_sources()]
    digest = hashlib.sha256(repr((str(PACKAGE), sys.version, times)).encode()).hexdigest()[:16]
    return CACHE_FOLDER / f"{purpose}-{digest}"


def is_compiled(purpose: str = "search") -> bool:
    """Returns whether an earlier process compiled the kernels of a purpose, so that this one starts warm."""
    if JIT_OFF:
        return True
    marker = _marker(purpose)
    return marker is not None and marker.exists()


def mark_compiled(purpose: str = "search") -> None:
    """Records that every kernel of a purpose is compiled; once is enough."""
    if JIT_OFF or purpose in _MARKED:
        return
    marker = _marker(purpose)
    if marker is not None:
        marker.touch()
        _MARKED.add(purpose)
