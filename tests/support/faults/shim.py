"""Builds and drives `shim.c`: calls that fail, and a journal of what was written."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")

WRITE, SYNC, TRUNCATE, RENAME, UNLINK, OPEN = (1 << i for i in range(6))
ALL = 63
SHORT_WRITE = -1  # in place of an errno


def why_not() -> str:
    """Returns why the library cannot be used here, "" if it can."""
    if not sys.platform.startswith("linux"):
        return "preloading a library needs Linux"
    if shutil.which("cc") is None:
        return "no C compiler (cc)"
    return ""


def build(folder: Path) -> Path:
    library = folder / "shim.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the shim does not compile: {done.stderr}")
    return library


def environment(library: Path) -> dict[str, str]:
    return {**os.environ, "LD_PRELOAD": str(library)}


@dataclass(frozen=True, slots=True)
class Fault:
    """Which call fails, and how.

    Attributes:
      kinds: which kinds of calls count, a mask.
      at: which of them fails, from 1; 0 for none.
      error: an errno, or SHORT_WRITE.
      sticky: whether all later ones fail, too: a disk that stays full.
    """

    kinds: int
    at: int
    error: int
    sticky: bool = False


class Shim:
    """The library in this process, which was started with it."""

    def __init__(self, library: Path) -> None:
        if str(library) not in os.environ.get("LD_PRELOAD", ""):
            raise RuntimeError(f"this process was started without {library}")
        self._library = ctypes.CDLL(str(library))
        self._counts = mmap.mmap(-1, mmap.PAGESIZE)  # shared with children
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._counts))
        self._library.shim_share(ctypes.c_void_p(address))

    def watch(self, *words: str) -> None:
        """From now on, calls count whose path contains one of the words."""
        self._library.shim_watch(":".join(words).encode())

    def fail(self, fault: Fault) -> None:
        """Begins to count, and lets a call fail."""
        self._counts[:16] = bytes(16)
        self._library.shim_fail(
            ctypes.c_uint(fault.kinds), ctypes.c_long(fault.at), ctypes.c_int(fault.error), int(fault.sticky)
        )

    def journal(self, path: Path | None) -> None:
        """Appends what happens to watched files to a journal; None ends it."""
        if not self._library.shim_journal(str(path or "").encode()):
            raise OSError(f"cannot write {path}")

    def mark(self, text: str) -> None:
        self._library.shim_mark(text.encode())

    @property
    def calls(self) -> int:
        """How many calls were counted, by this process or its child."""
        return int.from_bytes(self._counts[:8], "little")

    @property
    def fired(self) -> int:
        """How many calls were made to fail, by this process or its child."""
        return int.from_bytes(self._counts[8:16], "little")
