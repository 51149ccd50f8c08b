"""Raw pointers and the intrinsics of kernels, and their equivalents in plain Python.

Inner kernels take pointers, outer ones take arrays and keep them alive. With NUMBA_DISABLE_JIT=1 a pointer is
an array slice, and every intrinsic is a Python function.
"""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from .cache import MOST_RESULTS
from .compiler import JIT_OFF, Bound, Intrinsic, inner
from .types import Pointer, float64, int16, int32, int64, uint8, uint64

U = uint64
ZERO, ONE = U(0), U(1)
LOW32 = U(0xFFFFFFFF)
# columns of `add_columns`, for sums of int16 and of int32; most pairs of `add_products`
COLUMNS, FEW_COLUMNS, MOST_PAIRS = 64, 8, 4096

T = TypeVar("T")
Integers = TypeVar(
    "Integers", np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.bool_
)

if JIT_OFF:
    np.seterr(over="ignore")  # 64-bit hashes wrap around, as in compiled code

    def _plain(value: object) -> Any:
        """Returns an argument untyped: here a pointer is the slice of an array."""
        return value

    def ctz(x: uint64) -> int64:
        """Returns the index of the lowest set bit."""
        return (int(x) & -int(x)).bit_length() - 1

    def popc(x: uint64) -> int64:
        """Returns the number of set bits."""
        return int(x).bit_count()

    @overload
    def ptr(array: NDArray[np.uint64], i: int64) -> Pointer[uint64]: ...

    @overload
    def ptr(array: NDArray[Integers], i: int64) -> Pointer[int64]: ...

    @overload
    def ptr(array: NDArray[np.float32 | np.float64], i: int64) -> Pointer[float64]: ...

    def ptr(array: NDArray[Any], i: int64) -> Any:
        """Returns a pointer to `array[i]`; the caller keeps the array alive."""
        return array[int(i) :]

    def zeros(kind: type[T], count: int64) -> Pointer[T]:
        """Returns a pointer to `count` zeros on the stack, until the kernel returns: not for a loop."""
        return cast(Pointer[T], np.zeros(int(count), _plain(kind)))

    def adv(p: Pointer[T], i: int64) -> Pointer[T]:
        """Returns `p + i`."""
        return cast(Pointer[T], _plain(p)[int(i) :])

    def view(kind: type[T], p: Pointer[Any]) -> Pointer[T]:
        """Returns a pointer to the same memory as items of another type."""
        return cast(Pointer[T], _plain(p).view(kind))

    def bytes_at(address: int64, size: int64) -> Pointer[uint8]:
        """Returns a pointer to `size` bytes at an address; the caller keeps them alive."""
        items = (ctypes.c_uint8 * int(size)).from_address(int(address))
        return cast(Pointer[uint8], np.ctypeslib.as_array(items))

    def mulhi(a: uint64, b: uint64) -> uint64:
        """Returns the upper 64 bits of a 128-bit product."""
        return U(int(a) * int(b) >> 64)

    def add_products(
        sums: Pointer[int32], values: Pointer[int16], weights: Pointer[int16], pairs: int64
    ) -> None:
        """Adds to 16 sums, int32, the products of pairs of int16 with their 16 pairs of weights.

        Pairs of zeros cost next to nothing.

        Args:
          sums: int32[16] in and out.
          values: int16[pairs + 1][2], zeros after the last pair.
          weights: int16[pairs + 1][16][2], any values after the last pair.
          pairs: a multiple of 8, at most MOST_PAIRS.
        """
        rows = _plain(weights)[: 32 * int(pairs)].reshape(-1, 16, 2).astype(np.int32)
        columns = _plain(values)[: 2 * int(pairs)].reshape(-1, 1, 2)
        _plain(sums)[:16] += (rows * columns).sum(axis=(0, 2), dtype=np.int32)

    def add_columns(
        rows: Pointer[Any],
        stride: int64,
        base: Pointer[T],
        listed: Pointer[int64],
        n: int64,
        m: int64,
        out: Pointer[T],
    ) -> None:
        """Writes some columns of `base` plus n rows minus m rows.

        Args:
          rows: of the same or a smaller type, `stride` items from one to the next.
          listed: int64[n + m], the indices of the n rows, then of the m rows.
          base, out: both int16[COLUMNS] or both int32[FEW_COLUMNS].
        """
        total = _plain(base)[: COLUMNS if _plain(base).itemsize == 2 else FEW_COLUMNS].copy()
        for i in range(n + m):
            row = _plain(rows)[int(listed[i]) * int(stride) :][: len(total)]
            total += row if i < n else -row.astype(total.dtype)
        _plain(out)[: len(total)] = total

    def dot(n: int64, a: Pointer[int16], b: Pointer[int16]) -> int32:
        """Returns the dot product of two int16[n] as int32; n: a multiple of 64."""
        return cast(int32, np.dot(_plain(a)[:n].astype(np.int32), _plain(b)[:n].astype(np.int32)))

    def prefetch(p: Pointer[T], i: int64) -> None:
        """Asks the processor to load `p[i]`."""

    _ONE_STEP = threading.Lock()

    def exchange(p: Pointer[T], i: int64, value: T) -> T:
        """Sets `p[i]` and returns its old value, atomically and with acquire ordering."""
        with _ONE_STEP:
            before, p[i] = p[i], value
            return before

    def fetch_add(p: Pointer[int64], i: int64, value: int64) -> int64:
        """Adds to `p[i]` and returns its old value, atomically and without ordering."""
        with _ONE_STEP:
            before = p[i]
            p[i] = before + value
            return before

    def compare_exchange(p: Pointer[T], i: int64, before: T, value: T) -> bool:
        """Sets `p[i]` atomically if it is `before`; returns whether it was. Orders as acquire and release."""
        with _ONE_STEP:
            if p[i] != before:
                return False
            p[i] = value
            return True

    def load_acquire(p: Pointer[T], i: int64) -> T:
        """Returns `p[i]` with acquire ordering: later reads see all earlier writes of its writer."""
        return p[i]

    def store_release(p: Pointer[T], i: int64, value: T) -> None:
        """Sets `p[i]` with release ordering: after all earlier writes."""
        with _ONE_STEP:
            p[i] = value

    def pause() -> None:
        """Tells the processor that a loop waits for another thread."""
        time.sleep(0)

    def call_bound(bound: Bound) -> int64:
        """Runs a kernel bound to its arguments; returns its result as int64, 0 if it has none."""
        return int(_plain(bound).code(*bound.words) or 0)

    def call_c(function: int64, arguments: tuple[int64 | Pointer[uint8], ...]) -> int64:
        """Calls the C function at an address; returns its result as int64; a `size_t` error is negative.

        Args:
          function: int64, its address.
          arguments: a tuple of int64 (numbers, addresses) and pointers.
        """
        words = [a.ctypes.data if isinstance(a, np.ndarray) else int(_plain(a)) for a in arguments]
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(words))
        return int(kind(int(function))(*words))

else:
    NAMES = """
    add_columns add_products adv bytes_at call_c compare_exchange ctz dot exchange fetch_add load_acquire
    mulhi pause popc prefetch ptr store_release view zeros
    """
    globals().update({name: Intrinsic(name) for name in NAMES.split()})

    @inner
    def call_bound(bound: Bound) -> int64:
        """Runs a kernel bound to its arguments; returns its first result as int64."""
        results = zeros(int64, MOST_RESULTS)
        call_c(bound.code, (bound.words, results))
        return results[0]


@inner
def mum(a: uint64, b: uint64) -> uint64:
    """Returns the XOR of both halves of a 128-bit product."""
    return a * b ^ mulhi(a, b)
