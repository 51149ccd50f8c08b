"""Types in the signatures of kernels, for readers and mypy. Numba reads no annotation.

    records: NDArray[np.uint64]     memory that Python owns
    records: Pointer[uint64]        the same memory inside a kernel: no length, no check of an index
    rec: int64                      an index, a slot or a count
    key: uint64                     a bitboard, a hash or a packed word

At run time the names of numbers are NumPy's, and `int64(x)` casts. To mypy signed and small integers are
`int`, and `uint64` is a class of its own: Numba makes a float64 of a uint64 and an int64, so the two must
not meet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, SupportsInt, TypeAlias, TypeVar, overload

T = TypeVar("T")


class Pointer(Generic[T]):
    """The address of items of one dtype. Without the compiler it is a slice of an array (`pointers.py`)."""

    if TYPE_CHECKING:

        def __getitem__(self, i: SupportsIndex) -> T: ...

        def __setitem__(self, i: SupportsIndex, value: T) -> None: ...


if TYPE_CHECKING:
    import numpy as np

    class Items(Pointer[T], np.ndarray[Any, np.dtype[Any]]):
        """The items of a field of a bundle (`bundles.py`): an array in Python, a pointer in a kernel."""

        @overload  # type: ignore[override]
        def __getitem__(self, i: np.ndarray[Any, Any]) -> Any: ...
        @overload
        def __getitem__(self, i: SupportsIndex) -> T: ...
        @overload
        def __getitem__(self, i: Any) -> Any: ...
        def __getitem__(self, i: Any) -> Any: ...
        def __setitem__(self, i: Any, value: Any) -> None: ...

    int8: TypeAlias = int
    int16: TypeAlias = int
    int32: TypeAlias = int
    int64: TypeAlias = int
    uint8: TypeAlias = int
    uint16: TypeAlias = int
    uint32: TypeAlias = int
    float32: TypeAlias = float
    float64: TypeAlias = float

    class uint64:  # noqa: N801
        """An unsigned word of 64 bits."""

        def __init__(self, value: SupportsInt) -> None: ...
        def __int__(self) -> int: ...
        def __index__(self) -> int: ...
        def __bool__(self) -> bool: ...
        def __invert__(self) -> uint64: ...
        def __and__(self, other: uint64) -> uint64: ...
        def __or__(self, other: uint64) -> uint64: ...
        def __xor__(self, other: uint64) -> uint64: ...
        def __lshift__(self, other: uint64) -> uint64: ...
        def __rshift__(self, other: uint64) -> uint64: ...
        def __add__(self, other: uint64) -> uint64: ...
        def __sub__(self, other: uint64) -> uint64: ...
        def __mul__(self, other: uint64) -> uint64: ...
        def __mod__(self, other: uint64) -> uint64: ...
        def __floordiv__(self, other: uint64) -> uint64: ...
        def __lt__(self, other: uint64) -> bool: ...
        def __le__(self, other: uint64) -> bool: ...
        def __gt__(self, other: uint64) -> bool: ...
        def __ge__(self, other: uint64) -> bool: ...

else:
    Items = Pointer

    from numpy import (  # noqa: F401
        float32,
        float64,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
    )
