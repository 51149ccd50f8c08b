"""The cache of compiled kernels: whatever lies there, a kernel computes what it should.

An input is a file of the cache, what takes its place (a byte each), and the content.
"""

from __future__ import annotations

import os
import random
from functools import cache
from pathlib import Path
from typing import Any

from graphsearch.jit.cache import KEY
from graphsearch.jit.calls import Kernel
from graphsearch.jit.machine_code import MachineCode
from graphsearch.jit.places import LevelFolders

from .mutators import mutated

VARIABLE = "GRAPHSEARCH_CACHE_DIR"
KINDS = FILE, LINK, PIPE, FOLDER, OPEN = range(5)  # what takes the place of a file
CODE, LOCK, MARK, SECRET = range(4)  # the files


def add(x: float, y: float) -> float:
    """The kernel."""
    return x + y


@cache
def sound() -> MachineCode:
    """Returns the kernel's code; compiled in the parent, not in its children."""
    from graphsearch.jit.objects import build

    (code,) = build(Kernel(add, LevelFolders("")).dispatcher, (1.0, 2.0), [("", "")])
    assert isinstance(code, MachineCode)
    return code


def warm() -> None:
    """Compiles the kernel."""
    sound()


def seeds(_: Path) -> list[bytes]:
    """Returns each kind of oddity; the first is none."""
    content = sound().to_bytes()
    return [bytes([CODE, kind]) + content for kind in KINDS]


def mutate(given: list[bytes], rng: random.Random) -> bytes:
    """Returns any oddity of any file."""
    kind = rng.choice((FILE, FILE, *KINDS))
    return bytes([rng.choice((CODE, LOCK, MARK, SECRET)), kind]) + mutated(given[0][2:], rng)


def exercise(data: bytes, folder: Path) -> bool:
    """Calls the kernel with an odd cache; returns whether what lay there was used.

    Raises:
      AssertionError: if it computes anything else, or takes for code what nobody signed.
    """
    os.environ[VARIABLE] = str(folder)  # of this child
    assert _compiled_for() == [add]
    (place,) = LevelFolders("fuzz").writing
    place.mark("search")
    (code,) = place.folder.path.glob("*.code")
    files = code, Path(f"{code}.lock"), place.folder.path / place.file_name("search"), code.with_name(KEY)
    which, kind, content = data[0] % len(files), data[1] % len(KINDS), data[2:]
    before = files[which].read_bytes()
    _put(files[which], kind, content, before)
    compiled = _compiled_for()
    if which == MARK and kind != OPEN:
        assert place.has_mark("search") == (files[which].read_bytes() == before if kind == FILE else False)
    if which == CODE:
        assert compiled
    return not compiled


def _compiled_for() -> list[Any]:
    """Calls the kernel as a new process does; returns what it had to compile."""
    compiled: list[Any] = []

    def build(*_: Any) -> list[MachineCode]:
        compiled.append(add)
        return [sound()]

    kernel = Kernel(add, LevelFolders("fuzz"))
    setattr(kernel, "_built", build)  # noqa: B010
    assert kernel(1.0, 2.0) == 3.0
    return compiled


def _put(target: Path, kind: int, content: bytes, before: bytes) -> None:
    """Puts something in the place of a file."""
    if kind == FILE:
        target.write_bytes(content)
        return
    if kind == OPEN:
        target.chmod(0o666)
        return
    target.unlink()
    if kind == LINK:
        elsewhere = target.with_name("elsewhere")
        elsewhere.write_bytes(before)
        target.symlink_to("/dev/zero" if len(content) % 2 else elsewhere)
    elif kind == PIPE:
        os.mkfifo(target)
    else:
        target.mkdir()
