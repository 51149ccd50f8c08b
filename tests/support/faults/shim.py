"""Drives `shim.c`: calls that fail, a journal of what was written, and what a power failure leaves of it."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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


# ------------------------------------------------------------------ states that a power failure may leave
_HEAD = struct.Struct("<cIqQ")
SECTORS = (512, 4096)


@dataclass(frozen=True, slots=True)
class Entry:
    """One call: W write, T truncate, S sync, O and C open (C empties), R rename, U unlink; or M, a mark."""

    operation: str
    path: str
    offset: int
    data: bytes


def entries(journal: Path) -> Iterator[Entry]:
    """Yields what a journal holds; a last entry that was cut short is left out."""
    data = journal.read_bytes()
    at = 0
    while at + _HEAD.size <= len(data):
        operation, length, offset, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        end = at + length + size
        if end > len(data):
            return
        yield Entry(operation.decode(), data[at : at + length].decode(), offset, data[at + length : end])
        at = end


@dataclass(slots=True)
class _File:
    """A file as it is on the disk for sure, and what was done to it since."""

    kept: bytes = b""
    since: list[Entry] = field(default_factory=list)


class Disk:
    """What is known about some files after some calls, by the usual model of databases and file systems.

    - What a file's sync returned for is there. Of what was written since, any part may be: nothing, all, some
      writes without earlier ones, and of a write any sectors (512 or 4,096 bytes).
    - Names (made, renamed, removed) change in order. A sync of the folder keeps all of them, a sync of a new
      file keeps its own and so all before it. Any number of later ones may be lost.

    Args:
      given: the files before the first call, all on the disk.
    """

    def __init__(self, given: Mapping[str, bytes]) -> None:
        self._files = [_File(content) for content in given.values()]
        self._now = {name: i for i, name in enumerate(given)}  # names as programs see them
        self._names: list[dict[str, int]] = [dict(self._now)]  # after each change of a name
        self._sure = 0  # how many of these changes are on the disk
        self._made_at: dict[int, int] = {}
        self.marks: list[str] = []

    def follow(self, calls: Iterable[Entry]) -> None:
        for call in calls:
            self._follow(call)

    def _follow(self, call: Entry) -> None:
        if call.operation == "M":
            self.marks.append(call.data.decode())
        elif call.operation in "OC":
            self._open(call)
        elif call.operation == "R":
            self._rename(call.path, call.data.decode())
        elif call.operation == "U":
            if self._now.pop(call.path, None) is not None:
                self._names.append(dict(self._now))
        elif call.operation == "S":
            self._sync(call.path)
        elif call.path in self._now:
            self._files[self._now[call.path]].since.append(call)

    def _open(self, call: Entry) -> None:
        if call.path not in self._now:
            self._now[call.path] = len(self._files)
            self._files.append(_File())
            self._names.append(dict(self._now))
            self._made_at[self._now[call.path]] = len(self._names) - 1
        elif call.operation == "C":
            self._files[self._now[call.path]].since.append(Entry("T", call.path, 0, b""))

    def _rename(self, source: str, target: str) -> None:
        if source in self._now:
            self._now[target] = self._now.pop(source)
            self._names.append(dict(self._now))

    def _sync(self, path: str) -> None:
        number = self._now.get(path)
        if number is None:  # a folder
            self._sure = len(self._names) - 1
            return
        file = self._files[number]
        file.kept = _done(file.kept, file.since)
        file.since.clear()
        self._sure = max(self._sure, self._made_at.get(number, 0))

    def after_failure(self, rng: random.Random) -> dict[str, bytes]:
        """Returns files as a power failure at this moment may leave them."""
        names = self._names[
            rng.choice((self._sure, len(self._names) - 1, rng.randint(self._sure, len(self._names) - 1)))
        ]
        return {name: self._left(self._files[number], rng) for name, number in names.items()}

    def whole(self) -> dict[str, bytes]:
        return {name: _done(self._files[i].kept, self._files[i].since) for name, i in self._now.items()}

    @staticmethod
    def _left(file: _File, rng: random.Random) -> bytes:
        how = rng.randrange(5)
        if how == 0:
            return file.kept
        if how == 1:
            return _done(file.kept, file.since)
        if how == 2:  # a prefix, its last write torn
            return _done(file.kept, _torn(file.since[: rng.randint(0, len(file.since))], rng, last_only=True))
        some = [call for call in file.since if rng.random() < 0.7]
        if how == 4:
            rng.shuffle(some)
        return _done(file.kept, _torn(some, rng, last_only=False))


def _torn(calls: list[Entry], rng: random.Random, *, last_only: bool) -> Iterator[Entry]:
    """Yields calls, of some writes only some sectors."""
    for i, call in enumerate(calls):
        chosen = i == len(calls) - 1 if last_only else rng.random() < 0.2
        if call.operation != "W" or not chosen:
            yield call
            continue
        size = rng.choice(SECTORS)
        first = -call.offset % size  # sectors begin at multiples of their size in the file
        cuts = [0, *range(first, len(call.data), size)] if first else [*range(0, len(call.data), size)]
        for a, b in zip(cuts, [*cuts[1:], len(call.data)], strict=True):
            if rng.random() < 0.5:
                yield Entry("W", call.path, call.offset + a, call.data[a:b])


def _done(content: bytes, calls: Iterable[Entry]) -> bytes:
    out = bytearray(content)
    for call in calls:
        if call.operation == "W":
            out.extend(bytes(max(0, call.offset - len(out))))
            out[call.offset : call.offset + len(call.data)] = call.data
        else:
            out[call.offset :] = bytes(max(0, call.offset - len(out)))
    return bytes(out)
