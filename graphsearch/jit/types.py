"""Types in the signatures of kernels, for readers and mypy, and the bundles and arrays that kernels get.

Numba reads no annotation.

    records: NDArray[np.uint64]     memory that Python owns
    records: Pointer[uint64]        the same memory inside a kernel: no length, no check of an index
    rec: int64                      an index, a slot or a count
    key: uint64                     a bitboard, a hash or a packed word

At run time the names of numbers are NumPy's, and `int64(x)` casts. To mypy signed and small integers are
`int`, and `uint64` is a class of its own: Numba makes a float64 of a uint64 and an int64, so the two must
not meet.
"""

from __future__ import annotations

from functools import cached_property
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Self,
    SupportsIndex,
    SupportsInt,
    TypeAlias,
    TypeVar,
    overload,
)

import numpy as np
from numpy.typing import DTypeLike, NDArray

T = TypeVar("T")


class Pointer(Generic[T]):
    """The address of items of one dtype. Without the compiler it is a slice of an array (`pointers.py`)."""

    if TYPE_CHECKING:

        def __getitem__(self, i: SupportsIndex) -> T: ...

        def __setitem__(self, i: SupportsIndex, value: T) -> None: ...


if TYPE_CHECKING:

    class Items(Pointer[T], np.ndarray[Any, np.dtype[Any]]):
        """The items of a field of a bundle: an array in Python, a pointer in a kernel."""

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
        def __lt__(self, other: uint64) -> bool: ...

        __or__ = __xor__ = __lshift__ = __rshift__ = __add__ = __sub__ = __and__
        __mul__ = __mod__ = __floordiv__ = __and__
        __le__ = __gt__ = __ge__ = __lt__

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


# ------------------------------------------------------------------ memory of kernels
LINE = 128  # bytes: processors fetch cache lines of 64 in pairs


def apart(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """Returns `count` zeros that share no cache line with other memory.

    Threads each write their own: NumPy's small arrays lie side by side, and writing to a shared cache line
    costs as much as a lock.

    >>> apart(3, np.int64).tolist(), apart(3, np.int64).ctypes.data % LINE
    ([0, 0, 0], 0)
    """
    size = count * np.dtype(dtype).itemsize
    room = np.zeros(size + 2 * LINE, np.uint8)
    begin = -room.ctypes.data % LINE
    return room[begin : begin + size].view(dtype)


SIZE = "_size"  # ends the name of the number of an array's items


class Bundle:
    """The arrays and numbers that kernels pass on together, as one pointer: the base of bundles.

        class Table(Bundle):
            keys: Items[uint64]    a NumPy array in Python, a pointer in a kernel
            keys_size: int64       its number of items; every field NAME_size of an array NAME is filled in
            mask: int64            a number, which kernels only read

    A kernel gets the address of a bundle's words: the addresses of its arrays, its numbers, and the addresses
    of the words of bundles in it. An instance is never changed, and neither are the lengths of its arrays: so
    compiled code reads each word at most once in a function. A bundle that kernels pass on field by field
    took a third of the time in which they are compiled.
    """

    names_: ClassVar[tuple[str, ...]]  # of the fields that a caller gives
    sizes_: ClassVar[tuple[str, ...]]  # of those that are filled in

    def __init_subclass__(cls) -> None:
        fields = cls.__annotations__
        if not fields:  # a subclass with methods of its own and the same fields
            return
        arrays = {f"{name}{SIZE}" for name in fields}
        cls.names_ = tuple(name for name in fields if name not in arrays)
        cls.sizes_ = tuple(name for name in fields if name in arrays)

    def __init__(self, **items: Any) -> None:
        """Makes a bundle of its items, each by its name."""
        if items.keys() != set(self.names_):
            raise TypeError(f"{type(self).__name__} has the fields {', '.join(self.names_)}")
        self.__dict__.update(items)
        self.__dict__.update({name: len(items[name.removesuffix(SIZE)]) for name in self.sizes_})

    def replace(self, **items: Any) -> Self:
        """Returns a bundle with other items of these names."""
        return type(self)(**{name: getattr(self, name) for name in self.names_} | items)

    def arrays(self) -> list[NDArray[Any]]:
        """Returns the arrays in their order."""
        return [item for item in self.items() if isinstance(item, np.ndarray)]

    def items(self) -> list[Any]:
        """Returns the items in their order, the numbers of arrays' items last."""
        return [getattr(self, name) for name in (*self.names_, *self.sizes_)]

    @cached_property
    def words_(self) -> NDArray[np.uint64]:
        """The words that kernels read."""
        return np.array([_word(item) for item in self.items()], np.uint64)

    @cached_property
    def address_(self) -> int:
        """The address of `words_`."""
        return int(self.words_.ctypes.data)


def _word(item: Any) -> int:
    if isinstance(item, np.ndarray):
        if not item.flags.c_contiguous:
            raise TypeError("a bundle's arrays must be contiguous")
        return int(item.ctypes.data)
    return item.address_ if isinstance(item, Bundle) else int(item) % (1 << 64)
