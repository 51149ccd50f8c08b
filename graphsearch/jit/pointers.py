"""Raw pointers and the intrinsics of kernels, with twins in plain Python.

Inner kernels take pointers, outer ones take arrays and keep them alive. With NUMBA_DISABLE_JIT=1 a pointer is
an array slice, and every intrinsic is a Python function.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from .compiler import JIT_OFF
from .lazy import intrinsic

U = np.uint64
ZERO, ONE = U(0), U(1)
LOW32 = U(0xFFFFFFFF)

if JIT_OFF:
    np.seterr(over="ignore")  # 64-bit hashes wrap around, as in compiled code

    def ctz(x: Any) -> int:
        """Returns the index of the lowest set bit."""
        return (int(x) & -int(x)).bit_length() - 1

    def popc(x: Any) -> int:
        """Returns the number of set bits."""
        return int(x).bit_count()

    def ptr(array: Any, i: Any) -> Any:
        """Returns a pointer to `array[i]`; the caller keeps the array alive."""
        return array[int(i) :]

    def adv(p: Any, i: Any) -> Any:
        """Returns `p + i`."""
        return p[int(i) :]

    def as_u8(p: Any) -> Any:
        """Returns the pointer as one to bytes."""
        return p.view(np.uint8)

    def as_i16(p: Any) -> Any:
        """Returns the pointer as one to int16."""
        return p.view(np.int16)

    def as_i32(p: Any) -> Any:
        """Returns the pointer as one to int32."""
        return p.view(np.int32)

    def as_u16(p: Any) -> Any:
        """Returns the pointer as one to 16-bit words."""
        return p.view(np.uint16)

    def as_i64(p: Any) -> Any:
        """Returns the pointer as one to int64."""
        return p.view(np.int64)

    def as_u32(p: Any) -> Any:
        """Returns the pointer as one to 32-bit words."""
        return p.view(np.uint32)

    def as_f32(p: Any) -> Any:
        """Returns the pointer as one to float32."""
        return p.view(np.float32)

    def bytes_at(address: Any, size: Any) -> Any:
        """Returns a pointer to `size` bytes at an address; the caller keeps them alive."""
        return np.ctypeslib.as_array((ctypes.c_uint8 * int(size)).from_address(int(address)))

    def mulhi(a: Any, b: Any) -> Any:
        """Returns the upper 64 bits of a 128-bit product."""
        return U(int(a) * int(b) >> 64)

    def mum(a: Any, b: Any) -> Any:
        """Returns the XOR of both halves of a 128-bit product."""
        product = int(a) * int(b)
        return U((product >> 64) ^ (product & 0xFFFFFFFFFFFFFFFF))

    def add_products(sums: Any, values: Any, weights: Any, pairs: Any, places: Any) -> None:
        """Adds to 16 sums, int32, the products of pairs of int16 with their 16 pairs of weights.

        Pairs of zeros cost next to nothing.

        Args:
          sums: int32[16] in and out.
          values: int16[pairs + 1][2], zeros behind the last.
          weights: int16[pairs + 1][16][2], anything behind the last.
          pairs: a multiple of 8, less than 65536.
          places: uint16[pairs + 8], for nothing that outlives the call.
        """
        rows = weights[: 32 * int(pairs)].reshape(-1, 16, 2).astype(np.int32)
        sums[:16] += (rows * values[: 2 * int(pairs)].reshape(-1, 1, 2)).sum(axis=(0, 2), dtype=np.int32)

    def prefetch(p: Any, i: Any) -> None:
        """Asks the processor to load `p[i]`."""

    def call_bound(bound: Any) -> Any:
        """Returns the number that a kernel bound to its arguments returns, as int64; 0 if it returns none."""
        return bound.code(*bound.words) or 0

    def call_c(function: Any, arguments: tuple[Any, ...]) -> int:
        """Returns what the C function at an address returns, as int64; of a `size_t`, negative for an error.

        Args:
          function: int64, its address.
          arguments: a tuple of int64 (numbers, addresses) and pointers.
        """
        words = [a.ctypes.data if isinstance(a, np.ndarray) else int(a) for a in arguments]
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(words))
        return int(kind(int(function))(*words))

else:
    add_products = intrinsic("add_products")
    ctz = intrinsic("ctz")
    popc = intrinsic("popc")
    ptr = intrinsic("ptr")
    adv = intrinsic("adv")
    as_u8 = intrinsic("as_u8")
    as_i16 = intrinsic("as_i16")
    as_i32 = intrinsic("as_i32")
    as_i64 = intrinsic("as_i64")
    as_u16 = intrinsic("as_u16")
    as_u32 = intrinsic("as_u32")
    as_f32 = intrinsic("as_f32")
    bytes_at = intrinsic("bytes_at")
    mulhi = intrinsic("mulhi")
    mum = intrinsic("mum")
    prefetch = intrinsic("prefetch")
    call_bound = intrinsic("call_bound")
    call_c = intrinsic("call_c")
