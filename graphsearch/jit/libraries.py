"""libsqlite3 and libzstd for kernels, which call them by address and without the GIL.

Each set of functions comes from one loaded library: symbols resolved by name could come from another copy in
the process, and cached kernels could only be loaded after the library. Another copy of SQLite would also undo
its locks on the file. So its functions come from the library of the module `_sqlite3` itself, or not at all.
"""

from __future__ import annotations

import ctypes
import sqlite3
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import Any

import zstandard

from ..base.errors import CompilerError
from ..base.system import loaded_library
from .compiler import JIT_OFF


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


# ------------------------------------------------------------------ libsqlite3, Python's own
ROW = 100  # what `sqlite3_step` returns for a row
_READ_ONLY, _URI, _NO_MUTEX = 0x1, 0x40, 0x8000  # flags of `sqlite3_open_v2`


class Libsqlite:
    """The functions of libsqlite3 that kernels call.

    Attributes:
      addresses: of `sqlite3_bind_int64`, `sqlite3_step`, `sqlite3_column_blob`, `sqlite3_column_bytes` and
        `sqlite3_reset`.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        """Finds the functions in a loaded library.

        Raises:
          AttributeError: if it lacks one.
        """
        pointer = ctypes.c_void_p
        library.sqlite3_libversion.restype = ctypes.c_char_p
        library.sqlite3_prepare_v2.argtypes = [pointer, ctypes.c_char_p, ctypes.c_int, pointer, pointer]
        library.sqlite3_column_int64.argtypes = [pointer, ctypes.c_int]
        library.sqlite3_column_int64.restype = ctypes.c_int64
        for name in ("step", "reset", "finalize", "close_v2"):
            getattr(library, f"sqlite3_{name}").argtypes = [pointer]
        names = "bind_int64", "step", "column_blob", "column_bytes", "reset"
        self.addresses = [_address(getattr(library, f"sqlite3_{name}")) for name in names]
        self.library = library


@cache
def libsqlite() -> Libsqlite | None:
    """Returns the library that Python has loaded, or None if kernels cannot call it.

    They cannot with NUMBA_DISABLE_JIT, and where Python's own module contains SQLite and hides its symbols.
    """
    if JIT_OFF:
        return None
    with suppress(ImportError, OSError, AttributeError):  # no library, or a symbol is missing
        module = import_module("_sqlite3")
        if sqlite3.Connection is not module.Connection:  # another package has replaced `sqlite3`
            return None
        # the module's own library finds those that it links to, but not on Windows
        library = loaded_library("sqlite3.dll") or ctypes.CDLL(module.__file__)
        found = Libsqlite(library)
        if library.sqlite3_libversion().decode() == sqlite3.sqlite_version:
            return found
    return None


class ReadConnection:
    """A read-only connection whose statements kernels step through; for one thread at a time."""

    def __init__(self, library: Libsqlite, uri: str) -> None:
        """Opens a database.

        Args:
          library: of Python's own `sqlite3`.
          uri: of the file.

        Raises:
          sqlite3.OperationalError: if it cannot be opened.
        """
        self._c = library.library
        self._statements: list[int] = []
        handle = ctypes.c_void_p()
        flags = _READ_ONLY | _URI | _NO_MUTEX
        failed = self._c.sqlite3_open_v2(uri.encode(), ctypes.byref(handle), flags, None)
        self._handle = handle.value
        if failed:
            self.close()
            raise sqlite3.OperationalError("unable to open database file")

    def prepare(self, sql: str) -> int:
        """Returns the address of a statement.

        Raises:
          sqlite3.OperationalError: if SQLite rejects it.
        """
        statement = ctypes.c_void_p()
        failed = self._c.sqlite3_prepare_v2(self._handle, sql.encode(), -1, ctypes.byref(statement), None)
        if failed or not statement.value:
            raise sqlite3.OperationalError(f"SQLite does not take: {sql}")
        self._statements.append(statement.value)
        return statement.value

    def run(self, statement: int) -> int | None:
        """Steps once through a statement; returns the first number of its row, None without a row."""
        row = self._c.sqlite3_step(statement) == ROW
        number = int(self._c.sqlite3_column_int64(statement, 0)) if row else None
        self._c.sqlite3_reset(statement)
        return number

    def close(self) -> None:
        """Frees all statements and closes the connection. A second call does nothing."""
        while self._statements:
            self._c.sqlite3_finalize(self._statements.pop())
        if self._handle:
            self._c.sqlite3_close_v2(self._handle)
            self._handle = None


# ------------------------------------------------------------------ libzstd, inside the `zstandard` package
DICTIONARY_MAGIC = (0xEC30A437).to_bytes(4, "little")  # RFC 8878, section 5; others are plain content


class Owned:
    """An object of libzstd, freed together with this one.

    Attributes:
      address: of the object.
    """

    def __init__(self, address: int, free: Callable[[], object]) -> None:
        self.address = address
        # not at exit: another thread may still use it then
        weakref.finalize(self, free).atexit = False


class Libzstd:
    """The functions of libzstd that decompress.

    Attributes:
      decompress: address of `ZSTD_decompress_usingDDict`.
      frame_size: address of `ZSTD_findFrameCompressedSize`.
    """

    def __init__(self, module: Any) -> None:
        """Finds the functions in a module that `cffi` made."""
        self._ffi, self._c = module.ffi, module.lib
        self.decompress = self._address("ZSTD_decompress_usingDDict")
        self.frame_size = self._address("ZSTD_findFrameCompressedSize")

    def new_context(self) -> Owned:
        """Returns a decompression context for one thread.

        Threads that share one get false reports of corruption.
        """
        context = self._c.ZSTD_createDCtx()
        if not context:
            raise MemoryError("libzstd has no memory for a decompression context")
        return self._owned(context, self._c.ZSTD_freeDCtx)

    def load_dictionary(self, data: bytes) -> Owned | None:
        """Returns a dictionary ready for decompression, or None if the bytes are not one."""
        if len(data) < 8 or data[:4] != DICTIONARY_MAGIC:
            return None
        dictionary = self._c.ZSTD_createDDict(data, len(data))
        return self._owned(dictionary, self._c.ZSTD_freeDDict) if dictionary else None

    def _address(self, name: str) -> int:
        return int(self._ffi.cast("intptr_t", self._ffi.addressof(self._c, name)))

    def _owned(self, pointer: Any, free: Callable[[Any], object]) -> Owned:
        return Owned(int(self._ffi.cast("intptr_t", pointer)), partial(free, pointer))


@cache
def libzstd() -> Libzstd:
    """Returns the library that the `zstandard` package brings; `cffi` finds its functions on every system.

    Raises:
      CompilerError: if kernels cannot call it.
    """
    try:
        return Libzstd(import_module("zstandard._cffi"))
    except ImportError as error:
        raise CompilerError(
            f"kernels cannot call libzstd inside zstandard {zstandard.__version__} ({error}); install a wheel"
            " of it, and cffi: pip install --force-reinstall zstandard cffi"
        ) from None
