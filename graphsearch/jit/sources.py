"""What kernels are compiled from: digests of their sources, under which their code is cached.

The code of a kernel depends on this room, on the compiler, and on its module with the modules that it
imports: kernels, with what those import in turn, and others, for their constants.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

ROOM = Path(__file__).parent
PACKAGE = ROOM.parent
# an import of the project at the head of a module: its dots, its module, its names
IMPORT = re.compile(r"^from (\.+)([\w.]*) import ([^(\n]+|\([^)]*\))", re.MULTILINE)


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
    walk = os.walk(PACKAGE)
    kernels = (f"{folder}{os.sep}{name}" for folder, _, names in walk for name in names)
    return sorted(_reached(path for path in kernels if path.endswith("_kernel.py")) | {*_room()})


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
