"""Raw pointers and the intrinsics of kernels, with twins in plain Python.

Inner kernels take pointers, outer ones take arrays and keep them alive. With NUMBA_DISABLE_JIT=1 a pointer is
an array slice, and every intrinsic is a Python function.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from .compiler import JIT_OFF

U = np.uint64
ZERO, ONE = U(0), U(1)
LOW32 = U(0xFFFFFFFF)


def _pointer_as(target: Any, bits: int, *, floating: bool = False) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def cast_pointer(typing_context: Any, p: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir

            word = ir.FloatType() if floating else ir.IntType(bits)
            return builder.bitcast(args[0], word.as_pointer())

        return types.CPointer(target)(p), codegen

    return cast_pointer


def _mulhi_ir(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir

    wide = ir.IntType(128)
    product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
    return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))


def _mum_ir(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir

    wide, word = ir.IntType(128), ir.IntType(64)
    product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
    high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
    return builder.xor(builder.trunc(product, word), high)


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

    def prefetch(p: Any, i: Any) -> None:
        """Asks the processor to load `p[i]`."""

else:

    @intrinsic  # type: ignore[untyped-decorator]
    def ctz(typing_context: Any, x: Any) -> Any:
        """Returns the index of the lowest set bit."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir

            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.uint64), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def popc(typing_context: Any, x: Any) -> Any:
        """Returns the number of set bits."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.ctpop(args[0])

        return types.int64(types.uint64), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def ptr(typing_context: Any, array: Any, i: Any) -> Any:
        """Returns a pointer to `array[i]`; the caller keeps the array alive."""
        signature = types.CPointer(array.dtype)(array, types.intp)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            data = context.make_array(sig.args[0])(context, builder, args[0]).data
            return builder.gep(data, [args[1]])

        return signature, codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def adv(typing_context: Any, p: Any, i: Any) -> Any:
        """Returns `p + i`."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.gep(args[0], [args[1]])

        return p(p, types.intp), codegen

    as_u8 = _pointer_as(types.uint8, 8)
    as_i64 = _pointer_as(types.int64, 64)
    as_u16 = _pointer_as(types.uint16, 16)
    as_u32 = _pointer_as(types.uint32, 32)
    as_f32 = _pointer_as(types.float32, 32, floating=True)

    @intrinsic  # type: ignore[untyped-decorator]
    def bytes_at(typing_context: Any, address: Any, size: Any) -> Any:
        """Returns a pointer to `size` bytes at an address; the caller keeps them alive."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir

            return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

        return types.CPointer(types.uint8)(types.int64, types.int64), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def mulhi(typing_context: Any, a: Any, b: Any) -> Any:
        """Returns the upper 64 bits of a 128-bit product."""
        return types.uint64(types.uint64, types.uint64), _mulhi_ir

    @intrinsic  # type: ignore[untyped-decorator]
    def mum(typing_context: Any, a: Any, b: Any) -> Any:
        """Returns the XOR of both halves of a 128-bit product."""
        return types.uint64(types.uint64, types.uint64), _mum_ir

    @intrinsic  # type: ignore[untyped-decorator]
    def prefetch(typing_context: Any, p: Any, i: Any) -> Any:
        """Asks the processor to load `p[i]`."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir

            byte = ir.IntType(8).as_pointer()
            address = builder.bitcast(builder.gep(args[0], [args[1]]), byte)
            i32 = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
            load = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
            builder.call(load, [address, i32(0), i32(3), i32(1)])
            return context.get_dummy_value()

        return types.void(p, types.intp), codegen
