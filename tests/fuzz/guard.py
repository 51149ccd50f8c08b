"""Arrays that end, or begin, at a page nobody may touch: a kernel that goes beyond crashes at once."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAGE = mmap.PAGESIZE
PROT_NONE = 0

_libc = ctypes.CDLL(None, use_errno=True)


def guarded(size: int, dtype: Any, *, low: bool) -> NDArray[Any]:
    """Returns an array of zeros between two forbidden pages.

    Args:
      low: whether it begins right after the first of them; else it ends right before the second.
    """
    kind = np.dtype(dtype)
    wanted = size * kind.itemsize
    pages = max(1, -(-wanted // PAGE))
    memory = mmap.mmap(-1, (pages + 2) * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (0, pages + 1):
        if _libc.mprotect(ctypes.c_void_p(start + page * PAGE), ctypes.c_size_t(PAGE), PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = PAGE if low else (pages + 1) * PAGE - wanted
    return np.frombuffer(memory, kind, size, offset)


def guarded_copy(values: Any, dtype: Any, *, low: bool) -> NDArray[Any]:
    """Returns a copy of an array, or of bytes, between two forbidden pages."""
    given = (
        np.frombuffer(values, dtype) if isinstance(values, bytes | bytearray) else np.asarray(values, dtype)
    )
    out = guarded(given.size, dtype, low=low)
    out[:] = given.reshape(-1)
    return out
