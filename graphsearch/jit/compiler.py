"""The compiler's settings: how kernels and the functions inside them are compiled, and from which sources.

Rules that measurements forced (array arguments lost 2.5x to reference counting and index checks):
inner kernels take pointers, outer ones take arrays and keep them alive; every literal and shift count
that meets a `uint64` is a `uint64`, every index an `int64`; no fastmath (cached and fresh code differed);
no recursion (crashed from a warm cache); no explicit signatures.

With NUMBA_DISABLE_JIT=1 the same code runs as plain Python (`pointers.py`).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar, cast

from .calls import Bound, Inner, Kernel
from .machine_code import CALL, MOST_RESULTS, SUFFIX
from .places import LevelFolders
from .sources import all_digest, compiler_digest

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT", "0") not in {"", "0"}

_F = TypeVar("_F", bound=Callable[..., Any])


PLACES = LevelFolders("" if JIT_OFF else compiler_digest())


def kernel(function: _F) -> _F:
    """Compiles a function that Python calls, once for each kind of arguments; the code is cached on disk."""
    return function if JIT_OFF else cast(_F, Kernel(function, PLACES))


def bind(kernel: Any, *arguments: Any) -> Bound:
    """Returns a kernel with its arguments, for `call_bound`; the caller keeps them alive."""
    return Bound(kernel, cast(Any, list(arguments))) if JIT_OFF else kernel.bind(*arguments)


class Call:
    """A kernel with its arguments, which it keeps alive, for many calls from Python: each takes 1 us, not 10.

    Attributes:
      bound: the kernel and its words; numbers among them may be changed between two calls.
    """

    def __init__(self, kernel: Any, *arguments: Any) -> None:
        """Binds a kernel to arguments."""
        self._arguments = arguments
        self.bound = bind(kernel, *arguments)
        if not JIT_OFF:
            self._code = CALL(self.bound.code)
            self._words = self.bound.words.ctypes.data
            self._results = (ctypes.c_int64 * MOST_RESULTS)()

    def __call__(self) -> None:
        """Runs the kernel, without the GIL, and drops its result.

        Raises:
          MemoryError: if the kernel cannot allocate memory.
        """
        if JIT_OFF:
            self.bound.code(*self.bound.words)
        elif self._code(self._words, self._results):
            raise MemoryError("a kernel has too little memory")


def inner(function: _F) -> _F:
    """Compiles a function that only kernels call.

    It is typed and lowered alone but optimised, once, inside the kernels that reach it; Numba on its own
    would optimise it and generate code again at every level of the call graph (34 s cold instead of 15).
    """
    return function if JIT_OFF else cast(_F, Inner(function, PLACES))


_MARKED: set[str] = set()  # by this process


def count_compiled() -> int:
    """Returns the number of kernels in this user's cache, each for one kind of arguments; 0 without one."""
    return sum(1 for place in PLACES.writing for _ in place.folder.path.glob(f"*{SUFFIX}"))


def is_compiled(purpose: str = "search") -> bool:
    """Returns whether the kernels of a purpose are compiled, so that this process starts warm."""
    return JIT_OFF or any(place.has_mark(_mark(purpose)) for place in PLACES.reading)


def is_kept() -> bool:
    """Returns whether what this process compiles is kept for others."""
    return bool(PLACES.writing)


def mark_compiled(purpose: str = "search") -> None:
    """Records that every kernel of a purpose is compiled; once is enough."""
    if not (JIT_OFF or purpose in _MARKED or is_compiled(purpose)):
        for place in PLACES.writing:
            place.mark(_mark(purpose))
    _MARKED.add(purpose)


def _mark(purpose: str) -> str:
    return f"{purpose}-{all_digest()}"


@contextmanager
def alone(purpose: str) -> Iterator[None]:
    """Holds a lock, so that one process of this user at a time compiles the kernels of a purpose."""
    with ExitStack() as stack:
        for place in () if JIT_OFF else PLACES.writing[:1]:
            stack.enter_context(place.folder.alone(purpose))
        yield
