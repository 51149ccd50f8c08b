"""libzstd, as the `zstandard` package ships it, for kernels: they call it without the GIL.

A kernel gets the functions as addresses, all from one loaded library. Symbols resolved by name could come
from another zstd in the process, and cached kernels could only be loaded after the library.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any

import zstandard

from ..base.errors import CompilerError

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


class Libzstd:
    """The functions of libzstd that decompress.

    Attributes:
      decompress: address of `ZSTD_decompress_usingDDict`.
      frame_size: address of `ZSTD_findFrameCompressedSize`.
    """

    def __init__(self, address_of: Callable[[str], int]) -> None:
        """Keeps the functions of one library; `address_of` returns their addresses by name."""
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self.decompress = address_of("ZSTD_decompress_usingDDict")
        self.frame_size = address_of("ZSTD_findFrameCompressedSize")
        self._create_context = ctypes.CFUNCTYPE(pointer)(address_of("ZSTD_createDCtx"))
        self._free_context = ctypes.CFUNCTYPE(size, pointer)(address_of("ZSTD_freeDCtx"))
        create = ctypes.CFUNCTYPE(pointer, ctypes.c_char_p, size)
        self._create_dictionary = create(address_of("ZSTD_createDDict"))
        self._free_dictionary = ctypes.CFUNCTYPE(size, pointer)(address_of("ZSTD_freeDDict"))

    def new_context(self) -> Owned:
        """Returns a decompression context for one thread.

        Threads that share one get false reports of corruption.
        """
        address = self._create_context()
        if not address:
            raise MemoryError("libzstd has no memory for a decompression context")
        return Owned(address, self._free_context)

    def load_dictionary(self, data: bytes) -> Owned | None:
        """Returns a dictionary ready for decompression, or None if the bytes are not one."""
        if len(data) < 8 or data[:4] != DICTIONARY_MAGIC:
            return None
        address = self._create_dictionary(data, len(data))
        return Owned(address, self._free_dictionary) if address else None


@cache
def libzstd() -> Libzstd:
    """Returns the library that the `zstandard` package brings.

    Windows and macOS hide its symbols; there `cffi` finds them.

    Raises:
      CompilerError: if kernels cannot call it.
    """
    specs = (PathFinder.find_spec(f"zstandard.{name}", list(zstandard.__path__)) for name in MODULES)
    found = load(spec.origin for spec in specs if spec and spec.origin) or load_by_cffi()
    if found is None:
        raise CompilerError(
            f"kernels cannot call libzstd inside zstandard {zstandard.__version__}; install a wheel of it, or"
            " cffi: pip install --force-reinstall zstandard cffi"
        )
    return found


def load(paths: Iterable[str]) -> Libzstd | None:
    """Returns the first of some shared libraries that has all required functions of libzstd, or None."""
    for path in paths:
        with suppress(OSError, AttributeError):  # no library, or a symbol is missing
            library = ctypes.CDLL(path)
            return Libzstd(lambda name: _address(getattr(library, name)))  # noqa: B023 # called at once
    return None


def load_by_cffi() -> Libzstd | None:
    """Returns the library inside `zstandard`'s extension for `cffi`, None without `cffi`."""
    try:
        module = import_module("zstandard._cffi")
    except ImportError:
        return None
    ffi, lib = module.ffi, module.lib
    return Libzstd(lambda name: int(ffi.cast("intptr_t", ffi.addressof(lib, name))))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
