"""The machine's memory: how much a graph may take, and address space that takes pages when written to."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os

from ..base.errors import CapacityError, InvalidParameterError

RAM_SHARE = 0.8  # of the machine's memory; a graph that needs more stops, saved
ADDRESSES_LEFT = 4  # of what is there, one part in so many is taken: kernels and libraries come later
MMAP_THRESHOLD = -3  # mallopt's number for it


def default_budget() -> int:
    """Returns the bytes that a graph may take where nobody says how many."""
    return int(RAM_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def check_budget(ram_bytes: int | None) -> None:
    """Refuses a graph without memory; raises InvalidParameterError."""
    if ram_bytes is not None and ram_bytes <= 0:
        raise InvalidParameterError(f"a graph cannot live in {ram_bytes} bytes of memory")


def return_freed_memory() -> None:
    """Has freed arrays of a megabyte and more given back to the system at once, where the C library can.

    It would keep up to 32 MB of each kind for later, for each thread; a budget counts them.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 20)


def reserve(words: int) -> mmap.mmap:
    """Returns zeroed bytes for `words` 64-bit words whose pages are taken only when written to.

    Where the process may not have so many addresses (`ulimit -v`), fewer: some stay free for libraries.

    Raises:
      CapacityError: if there is no room for eight megabytes.
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
    """Gives the pages behind the first `used` bytes back to the system, until they are written to again."""
    begin = -(-used // mmap.PAGESIZE) * mmap.PAGESIZE
    if begin < len(memory):
        memory.madvise(mmap.MADV_DONTNEED, begin, len(memory) - begin)


def _mapped(words: int) -> mmap.mmap:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
    return mmap.mmap(-1, 8 * words, flags=flags)
