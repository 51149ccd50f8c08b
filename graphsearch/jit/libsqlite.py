"""libsqlite3, the copy that Python's `sqlite3` uses, for kernels: they fetch rows without the GIL.

Another copy in the same process would undo SQLite's locks on the file. So the functions come from the library
of the module `_sqlite3` itself, or not at all.
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
_READ_ONLY, _URI, _NO_MUTEX = 0x1, 0x40, 0x8000  # flags of `sqlite3_open_v2`


class Libsqlite:
    """The functions of libsqlite3 that kernels call.

    Attributes:
      bind, step, blob, size, reset: addresses of `sqlite3_bind_int64`, `sqlite3_step`, `sqlite3_column_blob`,
        `sqlite3_column_bytes`, `sqlite3_reset`.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        """Finds the functions in a loaded library.

        Raises:
          AttributeError: if it lacks one.
        """
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        library.sqlite3_libversion.restype = ctypes.c_char_p
        prepare, column = library.sqlite3_prepare_v2, library.sqlite3_column_int64
        prepare.argtypes = [pointer, ctypes.c_char_p, ctypes.c_int, pointer, pointer]
        column.argtypes, column.restype = [pointer, ctypes.c_int], number
        for name in ("step", "reset", "finalize", "close_v2"):
            getattr(library, f"sqlite3_{name}").argtypes = [pointer]
        self.bind, self.step, self.blob, self.size, self.reset = (
            ctypes.cast(getattr(library, f"sqlite3_{name}"), pointer).value or 0
            for name in ("bind_int64", "step", "column_blob", "column_bytes", "reset")
        )
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
        text = sql.encode()
        failed = self._c.sqlite3_prepare_v2(self._handle, text, len(text), ctypes.byref(statement), None)
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
