"""Numba implementations of the intrinsics that `pointers.py` names: importing this imports Numba."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from llvmlite import ir
from llvmlite.ir import IRBuilder, Value
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.types import Type
from numba.core.typing import Context, Signature
from numba.extending import intrinsic

from .machine_code import MOST_RESULTS

Values: TypeAlias = Sequence[Value]
Typed: TypeAlias = tuple[Signature, Callable[[BaseContext, IRBuilder, Signature, Values], Value]]

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def _pointer_as(target: Type, bits: int, *, floating: bool = False) -> Callable[[Context, Type], Typed]:
    @intrinsic  # type: ignore[untyped-decorator]
    def cast_pointer(typing_context: Context, p: Type) -> Typed:
        def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
            word = ir.FloatType() if floating else ir.IntType(bits)
            return builder.bitcast(args[0], word.as_pointer())

        return types.CPointer(target)(p), codegen

    return cast(Callable[[Context, Type], Typed], cast_pointer)


def _mulhi_ir(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
    wide = ir.IntType(128)
    product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
    return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))


def _mum_ir(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
    wide, word = ir.IntType(128), ir.IntType(64)
    product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
    high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
    return builder.xor(builder.trunc(product, word), high)


@intrinsic  # type: ignore[untyped-decorator]
def ctz(typing_context: Context, x: Type) -> Typed:
    """Returns the index of the lowest set bit."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def popc(typing_context: Context, x: Type) -> Typed:
    """Returns the number of set bits."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def ptr(typing_context: Context, array: types.Array, i: Type) -> Typed:
    """Returns a pointer to `array[i]`; the caller keeps the array alive."""
    signature = types.CPointer(array.dtype)(array, types.intp)

    def codegen(context: BaseContext, builder: IRBuilder, sig: Signature, args: Values) -> Value:
        data = context.make_array(sig.args[0])(context, builder, args[0]).data
        return builder.gep(data, [args[1]])

    return signature, codegen


@intrinsic  # type: ignore[untyped-decorator]
def zeros(typing_context: Context, kind: types.NumberClass, count: Type) -> Typed:
    """Returns a pointer to `count` zeros on the stack, until the kernel returns: not for a loop."""
    item = kind.instance_type

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        place = builder.alloca(context.get_data_type(item), size=args[1])
        place.align = 16
        size = builder.mul(args[1], _I64(context.get_abi_sizeof(context.get_data_type(item))))
        cgutils.memset(builder, place, size, 0)
        return place

    return types.CPointer(item)(kind, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def adv(typing_context: Context, p: Type, i: Type) -> Typed:
    """Returns `p + i`."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        return builder.gep(args[0], [args[1]])

    return p(p, types.intp), codegen


as_u8 = _pointer_as(types.uint8, 8)
as_i8 = _pointer_as(types.int8, 8)
as_i16 = _pointer_as(types.int16, 16)
as_i32 = _pointer_as(types.int32, 32)
as_i64 = _pointer_as(types.int64, 64)
as_u16 = _pointer_as(types.uint16, 16)
as_u32 = _pointer_as(types.uint32, 32)
as_f32 = _pointer_as(types.float32, 32, floating=True)


@intrinsic  # type: ignore[untyped-decorator]
def bytes_at(typing_context: Context, address: Type, size: Type) -> Typed:
    """Returns a pointer to `size` bytes at an address; the caller keeps them alive."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.CPointer(types.uint8)(types.int64, types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def mulhi(typing_context: Context, a: Type, b: Type) -> Typed:
    """Returns the upper 64 bits of a 128-bit product."""
    return types.uint64(types.uint64, types.uint64), _mulhi_ir


@intrinsic  # type: ignore[untyped-decorator]
def mum(typing_context: Context, a: Type, b: Type) -> Typed:
    """Returns the XOR of both halves of a 128-bit product."""
    return types.uint64(types.uint64, types.uint64), _mum_ir


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Context, p: Type, i: Type) -> Typed:
    """Asks the processor to load `p[i]`."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        byte = ir.IntType(8).as_pointer()
        address = builder.bitcast(builder.gep(args[0], [args[1]]), byte)
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        load = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
        builder.call(load, [address, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(p, types.intp), codegen


# ------------------------------------------------------------------ words that threads share
def _item(p: Type) -> Type:
    return cast(Type, cast(types.CPointer, p).dtype)


def _word_at(builder: IRBuilder, args: Values) -> Value:
    return builder.gep(args[0], [args[1]])


@intrinsic  # type: ignore[untyped-decorator]
def exchange(typing_context: Context, p: Type, i: Type, value: Type) -> Typed:
    """Sets `p[i]` and returns its old value, atomically and with acquire ordering."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        return builder.atomic_rmw("xchg", _word_at(builder, args), args[2], "acquire")

    return _item(p)(p, types.intp, _item(p)), codegen


@intrinsic  # type: ignore[untyped-decorator]
def fetch_add(typing_context: Context, p: Type, i: Type, value: Type) -> Typed:
    """Adds to `p[i]` and returns its old value, atomically and without ordering."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        return builder.atomic_rmw("add", _word_at(builder, args), args[2], "monotonic")

    return _item(p)(p, types.intp, _item(p)), codegen


@intrinsic  # type: ignore[untyped-decorator]
def compare_exchange(typing_context: Context, p: Type, i: Type, before: Type, value: Type) -> Typed:
    """Sets `p[i]` atomically if it is `before`; returns whether it was. Orders as acquire and release."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        place = _word_at(builder, args)
        found = builder.cmpxchg(place, args[2], args[3], "acq_rel", "acquire")
        return builder.extract_value(found, 1)

    return types.boolean(p, types.intp, _item(p), _item(p)), codegen


@intrinsic  # type: ignore[untyped-decorator]
def load_acquire(typing_context: Context, p: Type, i: Type) -> Typed:
    """Returns `p[i]` with acquire ordering: later reads see all earlier writes of its writer."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        return builder.load_atomic(_word_at(builder, args), "acquire", align=8)

    return _item(p)(p, types.intp), codegen


@intrinsic  # type: ignore[untyped-decorator]
def store_release(typing_context: Context, p: Type, i: Type, value: Type) -> Typed:
    """Sets `p[i]` with release ordering: after all earlier writes."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        builder.store_atomic(args[2], _word_at(builder, args), "release", align=8)
        return context.get_dummy_value()

    return types.void(p, types.intp, _item(p)), codegen


@intrinsic  # type: ignore[untyped-decorator]
def pause(typing_context: Context) -> Typed:
    """Tells the processor that a loop waits for another thread."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        machine, number = platform.machine().lower(), ir.IntType(32)
        if machine in {"x86_64", "amd64"}:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), [])
        elif machine in {"aarch64", "arm64"}:
            kind = ir.FunctionType(ir.VoidType(), [number])
            builder.call(builder.module.declare_intrinsic("llvm.aarch64.hint", (), kind), [number(1)])
        return context.get_dummy_value()

    return types.void(), codegen


SUMS, AT_ONCE, LISTED = 16, 4, 8  # of `add_products`: sums, pairs that are multiplied, pairs that are listed


def _vector(bits: int, count: int) -> ir.VectorType:
    return ir.VectorType(ir.IntType(bits), count)


def _splat(builder: IRBuilder, value: Value, count: int) -> Value:
    one = builder.insert_element(ir.Constant(ir.VectorType(value.type, count), ir.Undefined), value, _I32(0))
    return builder.shuffle_vector(one, one, ir.Constant(_vector(32, count), [0] * count))


def _list_pairs(builder: IRBuilder, pairs: Value, count: Value, out: Value) -> Value:
    """Lists the indices of the nonzero pairs, then AT_ONCE times `count` as padding; returns their number."""
    places = [[i for i in range(LISTED) if mask >> i & 1] for mask in range(1 << LISTED)]
    row = ir.ArrayType(ir.IntType(16), LISTED)
    rows = [ir.Constant(row, [*found, *[0] * (LISTED - len(found))]) for found in places]
    table = cgutils.global_constant(builder, "places", ir.Constant(ir.ArrayType(row, 1 << LISTED), rows))
    found = cgutils.alloca_once_value(builder, _I64(0))
    step, nothing = _vector(16, LISTED), ir.Constant(_vector(32, LISTED), [0] * LISTED)
    with cgutils.for_range_slice(builder, _I64(0), count, _I64(LISTED), intp=_I64) as (first, _):
        block = builder.bitcast(builder.gep(pairs, [first]), _vector(32, LISTED).as_pointer())
        present = builder.icmp_unsigned("!=", builder.load(block, align=4), nothing)
        mask = builder.zext(builder.bitcast(present, ir.IntType(LISTED)), _I64)
        entry = builder.bitcast(builder.gep(table, [_I64(0), mask]), step.as_pointer())
        base = _splat(builder, builder.trunc(first, ir.IntType(16)), LISTED)
        listed = builder.load(found)
        place = builder.bitcast(builder.gep(out, [listed]), step.as_pointer())
        builder.store(builder.add(builder.load(entry, align=2), base), place, align=2)
        builder.store(builder.add(listed, builder.ctpop(mask)), found)
    listed = builder.load(found)
    place = builder.bitcast(builder.gep(out, [listed]), _vector(16, AT_ONCE).as_pointer())
    builder.store(_splat(builder, builder.trunc(count, ir.IntType(16)), AT_ONCE), place, align=2)
    return listed


def _pair_products(builder: IRBuilder, pair: Value, weights: Value) -> Value:
    """Returns the sum of both products of a pair of int16 with each pair of weights, like x86's `pmaddwd`.

    LLVM emits a single instruction if the processor has one, else several.
    """
    pairs = builder.bitcast(_splat(builder, pair, SUMS), weights.type)
    wide = _vector(32, 2 * SUMS)
    products = builder.mul(builder.sext(pairs, wide), builder.sext(weights, wide))
    even, odd = (ir.Constant(_vector(32, SUMS), [*range(part, 2 * SUMS, 2)]) for part in range(2))
    return builder.add(
        builder.shuffle_vector(products, products, even), builder.shuffle_vector(products, products, odd)
    )


@intrinsic  # type: ignore[untyped-decorator]
def add_products(
    typing_context: Context, sums: Type, values: Type, weights: Type, pairs: Type, places: Type
) -> Typed:
    """Adds to 16 sums, int32, the products of pairs of int16 with their 16 pairs of weights."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        out = builder.bitcast(args[0], _vector(32, SUMS).as_pointer())
        inputs = builder.bitcast(args[1], _I32.as_pointer())
        rows = builder.bitcast(args[2], _vector(16, 2 * SUMS).as_pointer())
        listed = _list_pairs(builder, inputs, args[3], args[4])
        nothing = ir.Constant(_vector(32, SUMS), [0] * SUMS)
        parts = [cgutils.alloca_once_value(builder, nothing) for _ in range(AT_ONCE)]
        with cgutils.for_range_slice(builder, _I64(0), listed, _I64(AT_ONCE), intp=_I64) as (first, _):
            for i, part in enumerate(parts):
                place = builder.load(builder.gep(args[4], [builder.add(first, _I64(i))]), align=2)
                at = builder.zext(place, _I64)
                pair = builder.load(builder.gep(inputs, [at]), align=4)
                row = builder.load(builder.gep(rows, [at]), align=4)
                builder.store(builder.add(builder.load(part), _pair_products(builder, pair, row)), part)
        total = builder.load(out, align=4)
        for part in parts:
            total = builder.add(total, builder.load(part))
        builder.store(total, out, align=4)
        return context.get_dummy_value()

    return types.void(sums, values, weights, types.int64, places), codegen


@intrinsic  # type: ignore[untyped-decorator]
def call_c(typing_context: Context, function: Type, arguments: types.BaseTuple) -> Typed:
    """Calls the C function at an address; returns its result as int64; a `size_t` error is negative.

    Args:
      function: int64, its address.
      arguments: a tuple of int64 (numbers, addresses) and pointers.
    """

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        address, packed = args
        values = [builder.extract_value(packed, i) for i in range(len(arguments))]
        kind = ir.FunctionType(ir.IntType(64), [value.type for value in values])
        return builder.call(builder.inttoptr(address, kind.as_pointer()), values)

    return types.int64(types.int64, arguments), codegen


@intrinsic  # type: ignore[untyped-decorator]
def call_bound(typing_context: Context, bound: types.NamedTuple) -> Typed:
    """Returns the first result word of the kernel that a `Bound` holds with its arguments."""

    def codegen(context: BaseContext, builder: IRBuilder, signature: Signature, args: Values) -> Value:
        word = ir.IntType(64)
        kind = ir.FunctionType(ir.IntType(32), [word.as_pointer(), word.as_pointer()])
        results = cgutils.alloca_once(builder, ir.ArrayType(word, MOST_RESULTS), zfill=True)
        code = builder.inttoptr(builder.extract_value(args[0], 0), kind.as_pointer())
        array = context.make_array(bound.types[1])(context, builder, builder.extract_value(args[0], 1))
        builder.call(code, [array.data, builder.bitcast(results, word.as_pointer())])
        return builder.load(builder.bitcast(results, word.as_pointer()))

    return types.int64(bound), codegen
