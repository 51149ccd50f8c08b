"""libsqlite3 for kernels, which call it by address and without the GIL.

All functions come from one loaded library: symbols resolved by name could come from another copy in the
process, and cached kernels could only be loaded after the library. Another copy of SQLite would also undo its
locks on the file. So its functions come from the library of the module `_sqlite3` itself, or not at all.
"""

from __future__ import annotations

import ctypes
import sqlite3
from contextlib import suppress
from functools import cache
from importlib import import_module

from ..base.system import loaded_library
from .compiler import JIT_OFF

ROW = 100  # what `sqlite3_step` returns for a row
_FLAGS = 0x1 | 0x40 | 0x8000  # of `sqlite3_open_v2`: read-only; a URI; no mutex


@cache
def libsqlite() -> ctypes.CDLL | None:
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
        library.sqlite3_libversion.restype = ctypes.c_char_p
        library.sqlite3_column_int64.restype = ctypes.c_int64
        if library.sqlite3_libversion().decode() == sqlite3.sqlite_version and sqlite_addresses(library):
            return library
    return None


def sqlite_addresses(library: ctypes.CDLL) -> list[int]:
    """Returns the addresses of the functions of libsqlite3 that kernels call.

    They are `sqlite3_bind_int64`, `sqlite3_step`, `sqlite3_column_blob`, `sqlite3_column_bytes` and
    `sqlite3_reset`.

    Raises:
      AttributeError: if it lacks one.
    """
    names = "bind_int64", "step", "column_blob", "column_bytes", "reset"
    functions = (getattr(library, f"sqlite3_{name}") for name in names)
    return [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]


class ReadConnection:
    """A read-only connection whose statements kernels step through; for one thread at a time."""

    def __init__(self, library: ctypes.CDLL, uri: str) -> None:
        """Opens a database.

        Args:
          library: of Python's own `sqlite3`.
          uri: of the file.

        Raises:
          sqlite3.OperationalError: if it cannot be opened.
        """
        self._c, self._handle = library, ctypes.c_void_p()
        self._statements: list[ctypes.c_void_p] = []
        if self._c.sqlite3_open_v2(uri.encode(), ctypes.byref(self._handle), _FLAGS, None):
            self.close()
            raise sqlite3.OperationalError("unable to open database file")

    def prepare(self, sql: str) -> ctypes.c_void_p:
        """Returns the address of a statement.

        Raises:
          sqlite3.OperationalError: if SQLite rejects it; the connection is closed then.
        """
        statement = ctypes.c_void_p()
        failed = self._c.sqlite3_prepare_v2(self._handle, sql.encode(), -1, ctypes.byref(statement), None)
        if failed or not statement:
            self.close()
            raise sqlite3.OperationalError(f"SQLite does not take: {sql}")
        self._statements.append(statement)
        return statement

    def run(self, statement: ctypes.c_void_p) -> int | None:
        """Steps once through a statement; returns the first number of its row, None without a row."""
        row = self._c.sqlite3_step(statement) == ROW
        number = int(self._c.sqlite3_column_int64(statement, 0)) if row else None
        self._c.sqlite3_reset(statement)
        return number

    def close(self) -> None:
        """Frees all statements and closes the connection. A second call does nothing."""
        while self._statements:
            self._c.sqlite3_finalize(self._statements.pop())
        self._c.sqlite3_close_v2(self._handle)
        self._handle = ctypes.c_void_p()
