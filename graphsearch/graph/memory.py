"""The machine's memory: the default budget of a graph, and reserved address space."""

from __future__ import annotations

import contextlib
import ctypes
import mmap

from ..base.errors import CapacityError, InvalidParameterError
from ..base.limits import byte_count
from ..base.machine import memory_bytes

RAM_SHARE = 0.8  # of the memory there is; a graph that needs more is saved, and its search stops
ADDRESSES_LEFT = 4  # 1 / ADDRESSES_LEFT of scarce address space is taken; kernels and libraries need the rest
MMAP_THRESHOLD = -3  # mallopt's number for it


def default_budget() -> int:
    """Returns the default memory of a graph, in bytes."""
    return int(RAM_SHARE * memory_bytes())


def budget_of(ram_bytes: int | str | None) -> int | None:
    """Returns the memory of a graph in bytes, from a number or a text such as `1GB`; None: the default.

    Raises:
      InvalidParameterError: if it is neither, or not above 0.
    """
    given = byte_count(ram_bytes) if isinstance(ram_bytes, str) else ram_bytes
    if given is not None and (type(given) is not int or given <= 0):
        raise InvalidParameterError(f"ram_bytes must be a number of bytes above 0, not {ram_bytes!r}")
    return given


def return_freed_memory() -> None:
    """Makes the C library, if it can, return freed arrays of a megabyte or more to the system at once.

    Otherwise it keeps up to 32 MB of each kind for each thread, which count against the budget.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 20)


def reserve(words: int) -> mmap.mmap:
    """Returns zeroed bytes for `words` 64-bit words whose pages are taken only when written to.

    Under a limit of address space (`ulimit -v`) it returns fewer, and leaves some free for libraries.

    Raises:
      CapacityError: if there is no address space for eight megabytes.
    """
    wanted = words
    while True:
        try:
            memory = _mapped(words)
        except (OSError, ValueError):
            if words < 1 << 20:
                raise CapacityError(
                    "no address space for the graph; allow the process more (see `ulimit -v`)"
                ) from None
            words //= 2
            continue
        if words < wanted:
            memory.close()
            memory = _mapped(words // ADDRESSES_LEFT)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        return memory


def give_back(memory: mmap.mmap, used: int) -> None:
    """Returns the pages after the first `used` bytes to the system; later writes map them again."""
    begin = -(-used // mmap.PAGESIZE) * mmap.PAGESIZE
    if begin < len(memory):
        memory.madvise(mmap.MADV_DONTNEED, begin, len(memory) - begin)


def _mapped(words: int) -> mmap.mmap:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return mmap.mmap(-1, 8 * words, flags=flags)
