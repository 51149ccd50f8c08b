"""libzstd, as the `zstandard` package ships it, for kernels: they call it without the GIL.

A kernel gets the functions as addresses, all from one loaded library. Symbols resolved by name could come
from another zstd in the process, and cached kernels could only be loaded after the library.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from typing import Any

import zstandard

from .compiler import JIT_OFF

MODULES = ("_cffi", "backend_c")  # of `zstandard`: wheels export the symbols from the first one only
DICTIONARY_MAGIC = bytes.fromhex(
    "37a430ec"
)  # RFC 8878, section 5; libzstd treats anything else as plain content


class Owned:
    """An object of libzstd, freed together with this one.

    Attributes:
      address: of the object.
    """

    def __init__(self, address: int, free: Callable[[int], Any]) -> None:
        self.address = address
        # not at exit: another thread may still use it then
        weakref.finalize(self, free, address).atexit = False


@dataclass(frozen=True, slots=True)
class Libzstd:
    """The functions of libzstd that decompress.

    Attributes:
      decompress: address of `ZSTD_decompress_usingDDict`.
      frame_size: address of `ZSTD_findFrameCompressedSize`.
    """

    decompress: int
    frame_size: int
    _library: ctypes.CDLL

    def new_context(self) -> Owned:
        """Returns a decompression context for one thread.

        Threads that share one get false reports of corruption.
        """
        address = self._library.ZSTD_createDCtx()
        if not address:
            raise MemoryError("libzstd has no memory for a decompression context")
        return Owned(address, self._library.ZSTD_freeDCtx)

    def load_dictionary(self, data: bytes) -> Owned | None:
        """Returns a dictionary ready for decompression, or None if the bytes are not one."""
        if len(data) < 8 or data[:4] != DICTIONARY_MAGIC:
            return None
        address = self._library.ZSTD_createDDict(data, len(data))
        return Owned(address, self._library.ZSTD_freeDDict) if address else None


@cache
def libzstd() -> Libzstd | None:
    """Returns the library that the `zstandard` package brings, or None if kernels cannot call it.

    Kernels cannot call it with NUMBA_DISABLE_JIT, and where the package hides the symbols, as on Windows.
    """
    if JIT_OFF:
        return None
    specs = (PathFinder.find_spec(f"zstandard.{name}", list(zstandard.__path__)) for name in MODULES)
    return load(spec.origin for spec in specs if spec and spec.origin)


def load(paths: Iterable[str]) -> Libzstd | None:
    """Returns the first of some shared libraries that has all required functions of libzstd, or None."""
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for path in paths:
        try:
            library = ctypes.CDLL(path)
            library.ZSTD_createDCtx.restype = pointer
            library.ZSTD_freeDCtx.argtypes = [pointer]
            library.ZSTD_createDDict.restype = pointer
            library.ZSTD_createDDict.argtypes = [ctypes.c_char_p, size]
            library.ZSTD_freeDDict.argtypes = [pointer]
            addresses = [
                ctypes.cast(function, pointer).value
                for function in (library.ZSTD_decompress_usingDDict, library.ZSTD_findFrameCompressedSize)
            ]
        except (OSError, AttributeError):  # no library, or a symbol is missing
            continue
        decompress, frame_size = addresses
        if decompress and frame_size:
            return Libzstd(decompress, frame_size, library)
    return None
