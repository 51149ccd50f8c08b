"""Stand-ins for Numba's objects: Numba itself is imported when a function is compiled.

The compiler asks a global's `_numba_type_` when it meets one that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any


class Inner:
    """A function that only kernels call."""

    def __init__(self, function: Callable[..., Any], **options: bool) -> None:
        """Keeps the function until a kernel needs it.

        Args:
          options: of `numba.njit`.
        """
        self._function = function
        self._options = options
        self.__doc__, self.__name__ = function.__doc__, function.__name__
        self.__module__, self.__wrapped__ = function.__module__, function

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's object for the function."""
        from .pipeline import dispatcher_inside

        return dispatcher_inside(self._function, **self._options)

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_


def intrinsic(name: str) -> Any:
    """Returns the stand-in of an intrinsic of `intrinsics.py`."""
    return _Intrinsic(name)


class _Intrinsic:
    """Stand-in of an intrinsic."""

    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _numba_type_(self) -> Any:
        from . import intrinsics, pipeline

        return pipeline.type_of_intrinsic(getattr(intrinsics, self._name))
