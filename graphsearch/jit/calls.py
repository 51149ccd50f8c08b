"""Calls of kernels from Python: arguments as 64-bit words in, results as 64-bit words out.

    number        its value
    array         the address of the object; the code reads where its data are, and its shape
    tuple         its items
    bundle        the address of its words

Each kind of arguments (types of numbers, dtypes and dimensions of arrays, classes of tuples) has code of its
own. The first call loads it from disk or compiles it.

`Inner`, `Kernel` and `intrinsic` stand in for Numba's objects: Numba itself is imported when a function is
compiled. The compiler reads the `_numba_type_` of a global that it does not know.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..base.errors import CompilerError
from ..base.system import has_low_priority
from . import machine_code
from .apart import apart
from .bundles import Bundle
from .machine_code import MOST_RESULTS, MachineCode
from .places import LevelFolders, announce
from .sources import label, sources_digest

NUMBA = "numba>=0.61,<0.69"  # the tested releases


def _compiler(name: str) -> Any:
    """Returns a module of this room that imports Numba.

    Raises:
      CompilerError: if Numba lacks what the module uses.
    """
    os.environ.setdefault("NUMBA_DISABLE_ERROR_MESSAGE_HIGHLIGHTING", "1")  # it tries and colours many
    try:
        return import_module(f".{name}", __package__)
    except (ImportError, AttributeError) as error:
        numba: Any = sys.modules.get("numba")
        if not hasattr(numba, "njit"):  # Numba itself cannot be loaded
            raise
        raise CompilerError(
            f"kernels cannot be compiled with Numba {numba.__version__} ({error}); install one of the tested"
            f" releases: pip install '{NUMBA}'"
        ) from None


class Inner:
    """A function that kernels call; Python runs its source, if that uses no pointers."""

    def __init__(self, function: Callable[..., Any], places: LevelFolders) -> None:
        """Keeps the function until it is needed.

        Args:
          places: folders of compiled code.
        """
        self._function, self._places = function, places
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__module__, self.__wrapped__ = function.__module__, function

    def __call__(self, *arguments: Any) -> Any:
        """Runs the function as plain Python."""
        return self._function(*arguments)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's object for the function."""
        return _compiler("pipeline").InnerDispatcher(self._function, self._places.inside)

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_


def intrinsic(name: str) -> Any:
    """Returns the stand-in for an intrinsic of `intrinsics.py`."""
    return _Intrinsic(name)


class _Intrinsic:
    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _numba_type_(self) -> Any:
        return _compiler("pipeline").type_of_intrinsic(getattr(_compiler("intrinsics"), self._name))


LAYOUT = 0x1 | 0x2 | 0x100  # numpy's flags of an array: C order, Fortran order, aligned
FORMATS: dict[Any, str] = {  # of numbers, by type, for `struct`: each fills 8 bytes
    int: "q",
    float: "d",
    bool: "?7x",
    np.bool_: "?7x",
    np.int8: "b7x",
    np.int16: "h6x",
    np.int32: "i4x",
    np.int64: "q",
    np.uint8: "B7x",
    np.uint16: "H6x",
    np.uint32: "I4x",
    np.uint64: "Q",
    np.float32: "f4x",
    np.float64: "d",
}
_LOCK = threading.RLock()


class Bound(NamedTuple):
    """A kernel and its arguments, for kernels that call it by address. The caller keeps those alive."""

    code: Any  # the address of its entry
    words: NDArray[np.int64]  # its arguments; numbers among them may be changed


class _Code:
    """Code for one kind of arguments."""

    def __init__(self, what: MachineCode, words: str) -> None:
        self._function = machine_code.load(what)
        self._words = struct.Struct(words)
        self._results = struct.Struct(what.results)
        self._room = ctypes.c_int64 * MOST_RESULTS
        self._is_tuple = what.is_tuple

    @property
    def address(self) -> int:
        """Address of the entry."""
        return ctypes.cast(self._function, ctypes.c_void_p).value or 0

    def packed(self, words: list[object]) -> bytes:
        """Returns the words in the entry's format."""
        return self._words.pack(*words)

    def __call__(self, words: list[object]) -> Any:
        """Runs the code and returns its result; the caller keeps the arguments alive."""
        out = self._room()
        if self._function(self.packed(words), out):
            raise MemoryError("a kernel has too little memory")
        results = self._results.unpack_from(out)
        return results if self._is_tuple else results[0] if results else None


class Kernel(Inner):
    """A function called from Python or by another kernel."""

    def __init__(self, function: Callable[..., Any], places: LevelFolders) -> None:
        """Keeps the function until it is called."""
        super().__init__(function, places)
        self._label = label(function)
        self._codes: dict[tuple[object, ...], _Code] = {}

    def __call__(self, *arguments: object) -> Any:
        """Runs the code for these arguments, without the GIL.

        Raises:
          MemoryError: if the kernel cannot allocate memory.
        """
        code, words = self._prepared(arguments)
        return code(words)

    def bind(self, *arguments: object) -> Bound:
        """Returns the code for these arguments, bound to them."""
        code, words = self._prepared(arguments)
        bound = Bound(code.address, apart(len(words), np.int64))
        bound.words[:] = np.frombuffer(code.packed(words), np.int64)
        return bound

    def _prepared(self, arguments: tuple[object, ...]) -> tuple[_Code, list[object]]:
        kind: list[object] = []
        words: list[object] = []
        _flatten(arguments, kind, words)
        key = tuple(kind)
        return self._codes.get(key) or self._code(arguments, key), words

    def _code(self, arguments: tuple[object, ...], key: tuple[object, ...]) -> _Code:
        with _LOCK:  # only one of two threads compiles
            if key not in self._codes:
                words = "".join(_format(part) for part in key)
                self._codes[key] = _Code(self._found(arguments, key), words)
            return self._codes[key]

    def _found(self, arguments: tuple[object, ...], key: tuple[object, ...]) -> MachineCode:
        key = (*key, sources_digest(self.__module__))
        found = self._read(key)
        if found is not None:
            return found
        announce()
        places = self._places.writing
        if not places:
            return self._built(arguments, [("", "")])[0]
        name = places[0].file_name(self._label, key)
        # of a process of low priority others might wait for hours for its lock
        with places[0].folder.alone(f"{name}.later" if has_low_priority() else name):
            found = self._read(key)  # another process may have compiled it meanwhile
            return found or self._kept(arguments, key)

    def _read(self, key: tuple[object, ...]) -> MachineCode | None:
        found = (place.read(self._label, key) for place in self._places.reading)
        return next(filter(None, found), None)

    def _kept(self, arguments: tuple[object, ...], key: tuple[object, ...]) -> MachineCode:
        """Compiles code for each place and writes it there; returns that of the first place."""
        places = self._places.writing
        codes = self._built(arguments, [(place.level, place.platform) for place in places])
        for place, code in zip(places, codes, strict=True):
            place.write(self._label, key, code)
        return codes[0]

    def _built(self, arguments: tuple[object, ...], machines: list[tuple[str, str]]) -> list[MachineCode]:
        built: list[MachineCode] = _compiler("objects").build(self.dispatcher, arguments, machines)
        return built


def _format(part: object) -> str:
    """Returns the format of a word, by its compiled type; a tuple and its length have none."""
    if isinstance(part, type):
        return "Q" if issubclass(part, Bundle) else FORMATS.get(part, "")
    return "" if isinstance(part, int) else "Q"  # of an array, or of an int that takes 64 bits


def _flatten(values: tuple[Any, ...], kind: list[object], words: list[object]) -> None:
    """Appends the words of values to `words`, and their compile-time types to `kind`."""
    for value in values:
        of = type(value)
        if of is np.ndarray or isinstance(value, np.ndarray):
            kind.append((value.dtype, value.ndim, value.flags.num & LAYOUT))
            words.append(id(value))
        elif isinstance(value, Bundle):
            kind.append(of)
            words.append(value.address_)
        elif of in FORMATS:
            kind.append("uint64" if of is int and value >> 63 > 0 else of)
            words.append(value)
        elif isinstance(value, tuple):
            kind += (of, len(value))
            _flatten(value, kind, words)
        else:
            raise TypeError(f"a kernel takes numbers, arrays and tuples of them, not {of.__name__}")
