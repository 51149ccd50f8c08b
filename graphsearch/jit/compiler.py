"""Kernels as Python calls them, and how they and the functions inside them are declared.

Arguments go in as 64-bit words, and results come out as 64-bit words:

    number        its value
    array         the address of the object; the code reads where its data are, and its shape
    bundle        the address of its words

Each kind of arguments (types of numbers, dtypes and dimensions of arrays, classes of bundles) has code of its
own. The first call loads it from disk or compiles it. `Inner`, `Kernel` and `Intrinsic` stand in for Numba's
objects: Numba itself is imported when a function is compiled. The compiler reads the `_numba_type_` of a
global that it does not know.

Rules that measurements forced (array arguments lost 2.5x to reference counting and index checks):
inner kernels take pointers, outer ones take arrays and keep them alive; every literal and shift count
that meets a `uint64` is a `uint64`, every index an `int64`; no fastmath (cached and fresh code differed);
no recursion (crashed from a warm cache); no explicit signatures.

With NUMBA_DISABLE_JIT=1 the same code runs as plain Python (`pointers.py`).
"""

from __future__ import annotations

import ctypes
import os
import pickle
import struct
import sys
import threading
from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
from importlib import import_module
from typing import Any, TypeVar, cast

import numpy as np

from ..base.errors import CompilerError
from ..base.system import has_low_priority
from .cache import (
    COMPILING,
    FORMATS,
    MOST_RESULTS,
    SUFFIX,
    LevelFolders,
    MachineCode,
    compiler_digest,
    label,
    say_once,
    sources_digest,
)
from .types import Bundle, Items, apart, int64

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}

_F = TypeVar("_F", bound=Callable[..., Any])
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

    __wrapped__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any]) -> None:
        """Keeps the function until it is needed."""
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Runs the function as plain Python."""
        return self.__wrapped__(*arguments)

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's object for the function."""
        return _compiler("build").InnerDispatcher(self.__wrapped__)

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_


class Intrinsic:
    """The stand-in for an intrinsic of `intrinsics.py`."""

    def __init__(self, name: str) -> None:
        """Keeps the name until it is needed."""
        self._name = name

    @cached_property
    def _numba_type_(self) -> Any:
        return _compiler("build").type_of_intrinsic(getattr(_compiler("intrinsics"), self._name))


LAYOUT = 0x1 | 0x2 | 0x100  # numpy's flags of an array: C order, Fortran order, aligned
CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)  # releases the GIL
ROOM = ctypes.c_int64 * MOST_RESULTS
_LOCK = threading.RLock()


class Bound(Bundle):
    """A kernel with its arguments, which it keeps alive.

    Kernels call it by address (`call_bound`); Python calls it many times: each takes 1 us, not 10.
    """

    code: int64  # the address of its entry
    words: Items[int64]  # its arguments; numbers among them may be changed between two calls
    words_size: int64

    def __init__(self, arguments: tuple[object, ...] = (), **items: Any) -> None:
        """Makes the bundle; `arguments`: kept alive with it."""
        super().__init__(**items)
        self._arguments = arguments

    @cached_property
    def _call(self) -> Callable[[], int]:
        return partial(CALL(self.code), self.words.ctypes.data, ROOM())

    def run(self) -> None:
        """Runs the kernel, without the GIL, and drops its result.

        Raises:
          MemoryError: if the kernel cannot allocate memory.
        """
        if JIT_OFF:
            cast(Any, self).code(*self.words)
        elif self._call():
            raise MemoryError("a kernel has too little memory")


class _Code:
    """Code for one kind of arguments, loaded, with the formats of its words."""

    def __init__(self, what: MachineCode, words: str) -> None:
        self.address = what.load()
        self.function = CALL(self.address)
        self.words, self.results = struct.Struct(words), struct.Struct(what.results)
        self.is_tuple = what.is_tuple


class Kernel(Inner):
    """A function called from Python or by another kernel."""

    def __init__(self, function: Callable[..., Any], places: LevelFolders) -> None:
        """Keeps the function until it is called.

        Args:
          places: folders of compiled code.
        """
        super().__init__(function)
        self._label, self._places = label(function), places
        self._codes: dict[tuple[object, ...], _Code] = {}

    def __call__(self, *arguments: object) -> Any:
        """Runs the code for these arguments, without the GIL.

        Raises:
          MemoryError: if the kernel cannot allocate memory.
        """
        code, words = self._prepared(arguments)
        out = ROOM()
        if code.function(words, out):
            raise MemoryError("a kernel has too little memory")
        results = code.results.unpack_from(out)
        return results if code.is_tuple else results[0] if results else None

    def bind(self, *arguments: object) -> Bound:
        """Returns the code for these arguments, bound to them."""
        code, packed = self._prepared(arguments)
        words = apart(len(arguments), np.int64)
        words[:] = np.frombuffer(packed, np.int64)
        return Bound(arguments, code=code.address, words=words)

    def _prepared(self, arguments: tuple[object, ...]) -> tuple[_Code, bytes]:
        """Returns the code for arguments, and their words in its format."""
        kind, words = zip(*map(_kind_and_word, arguments), strict=True) if arguments else ((), ())
        code = self._codes.get(kind) or self._code(arguments, kind)
        return code, code.words.pack(*words)

    def _code(self, arguments: tuple[object, ...], kind: tuple[object, ...]) -> _Code:
        with _LOCK:  # only one of two threads compiles
            if kind not in self._codes:
                words = "".join(FORMATS.get(part, "Q") for part in kind)  # other words are addresses
                self._codes[kind] = _Code(self._found(arguments, kind), words)
            return self._codes[kind]

    def _found(self, arguments: tuple[object, ...], kind: tuple[object, ...]) -> MachineCode:
        """Returns the code from a file, or compiles and writes it."""
        kind = (*kind, sources_digest(self.__module__))
        if found := self._read(kind):
            return found
        say_once(COMPILING)
        build: Callable[..., list[MachineCode]] = _compiler("build").build
        own, places = self._places.own, self._places.writing
        name = own.file_name(self._label, kind)
        # of a process of low priority others might wait for hours for its lock
        with own.alone(f"{name}.later" if has_low_priority() else name):
            if found := self._read(kind):  # another process may have compiled it meanwhile
                return found
            codes = build(self.dispatcher, arguments, [(place.level, place.platform) for place in places])
            for place, code in zip(places, codes, strict=True):
                place.write(place.file_name(self._label, kind), pickle.dumps(code))
            return codes[0]

    def _read(self, kind: tuple[object, ...]) -> MachineCode | None:
        for place in self._places.reading:
            if (data := place.read(place.file_name(self._label, kind))) is not None:
                found: MachineCode = pickle.loads(data)  # noqa: S301 - signed
                return found
        return None


def _kind_and_word(value: Any) -> tuple[object, Any]:
    """Returns an argument's compile-time type and its word, which is of its format or an address."""
    of = type(value)
    if of is np.ndarray or isinstance(value, np.ndarray):
        return (value.dtype, value.ndim, value.flags.num & LAYOUT), id(value)
    if isinstance(value, Bundle):
        return of, value.address_
    if of in FORMATS:
        return "uint64" if of is int and value >> 63 > 0 else of, value
    raise TypeError(f"a kernel takes numbers, arrays and bundles of them, not {of.__name__}")


PLACES = LevelFolders("" if JIT_OFF else compiler_digest())


def kernel(function: _F) -> _F:
    """Compiles a function that Python calls, once for each kind of arguments; the code is cached on disk."""
    return function if JIT_OFF else cast(_F, Kernel(function, PLACES))


def bind(kernel: Any, *arguments: Any) -> Bound:
    """Returns a kernel with its arguments."""
    if JIT_OFF:
        return Bound(code=kernel, words=list(arguments))
    bound: Bound = kernel.bind(*arguments)
    return bound


def inner(function: _F) -> _F:
    """Compiles a function that only kernels call.

    It is typed and lowered alone but optimised, once, inside the kernels that reach it; Numba on its own
    would optimise it and generate code again at every level of the call graph (34 s cold instead of 15).
    """
    return function if JIT_OFF else cast(_F, Inner(function))


def count_compiled() -> int:
    """Returns the number of kernels in this user's cache, each for one kind of arguments; 0 without one."""
    return sum(1 for _ in PLACES.own.path.glob(f"*{SUFFIX}"))


def is_compiled(purpose: str = "search") -> bool:
    """Returns whether the kernels of a purpose are compiled, so that this process starts warm."""
    return JIT_OFF or any(place.read(place.mark_name(purpose)) is not None for place in PLACES.reading)


def mark_compiled(purpose: str = "search") -> None:
    """Records that every kernel of a purpose is compiled."""
    if not is_compiled(purpose):
        for place in PLACES.writing:
            place.write(place.mark_name(purpose), b"")
