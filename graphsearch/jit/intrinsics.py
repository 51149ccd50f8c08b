"""Numba implementations of the intrinsics that `pointers.py` names: importing this imports Numba."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

from llvmlite import ir
from llvmlite.ir import IRBuilder, Value
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.types import Type
from numba.core.typing import Context, Signature
from numba.extending import intrinsic

from .pointers import COLUMNS, FEW_COLUMNS, MOST_PAIRS

_I8, _I32, _I64, _I128 = map(ir.IntType, (8, 32, 64, 128))


class Code(NamedTuple):
    """Where the code of a call is emitted: Numba's context, LLVM's builder, the types of the arguments."""

    context: BaseContext
    builder: IRBuilder
    kinds: tuple[Any, ...]


def emitting(signature: Callable[..., Signature]) -> Callable[[Callable[..., Value | None]], Any]:
    """Makes an intrinsic of a function that emits its code and returns its value, None for `void`.

    Args:
      signature: returns the signature for arguments of some types.
    """

    def made(emit: Callable[..., Value | None]) -> Any:
        def typed(typing_context: Context, *kinds: Type) -> Any:
            def codegen(context: BaseContext, builder: IRBuilder, found: Signature, values: Any) -> Value:
                value = emit(Code(context, builder, found.args), *values)
                return context.get_dummy_value() if value is None else value

            return signature(*kinds), codegen

        typed.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined] # the numbers of arguments
        return intrinsic(typed)

    return made


@emitting(lambda x: types.int64(types.uint64))
def ctz(code: Code, x: Value) -> Value:
    """Returns the index of the lowest set bit."""
    return code.builder.cttz(x, ir.Constant(ir.IntType(1), 1))


@emitting(lambda x: types.int64(types.uint64))
def popc(code: Code, x: Value) -> Value:
    """Returns the number of set bits."""
    return code.builder.ctpop(x)


@emitting(lambda array, i: types.CPointer(array.dtype)(array, types.intp))
def ptr(code: Code, array: Value, i: Value) -> Value:
    """Returns a pointer to `array[i]`; the caller keeps the array alive."""
    found = code.context.make_array(code.kinds[0])(code.context, code.builder, array)
    return code.builder.gep(found.data, [i])


@emitting(lambda kind, count: types.CPointer(kind.instance_type)(kind, types.int64))
def zeros(code: Code, kind: Value, count: Value) -> Value:
    """Returns a pointer to `count` zeros on the stack, until the kernel returns: not for a loop."""
    item = code.context.get_data_type(code.kinds[0].instance_type)
    place = code.builder.alloca(item, size=count)
    place.align = 16
    cgutils.memset(code.builder, place, code.builder.mul(count, _I64(code.context.get_abi_sizeof(item))), 0)
    return place


@emitting(lambda kind, p: types.CPointer(kind.instance_type)(kind, p))
def view(code: Code, kind: Value, p: Value) -> Value:
    """Returns a pointer to the same memory as items of another type."""
    return code.builder.bitcast(p, code.context.get_data_type(code.kinds[0].instance_type).as_pointer())


@emitting(lambda p, i: p(p, types.intp))
def adv(code: Code, p: Value, i: Value) -> Value:
    """Returns `p + i`."""
    return code.builder.gep(p, [i])


@emitting(lambda address, size: types.CPointer(types.uint8)(types.int64, types.int64))
def bytes_at(code: Code, address: Value, size: Value) -> Value:
    """Returns a pointer to `size` bytes at an address; the caller keeps them alive."""
    return code.builder.inttoptr(address, _I8.as_pointer())


@emitting(lambda a, b: types.uint64(types.uint64, types.uint64))
def mulhi(code: Code, a: Value, b: Value) -> Value:
    """Returns the upper 64 bits of a 128-bit product."""
    product = code.builder.mul(code.builder.zext(a, _I128), code.builder.zext(b, _I128))
    return code.builder.trunc(code.builder.lshr(product, _I128(64)), _I64)


@emitting(lambda p, i: types.void(p, types.intp))
def prefetch(code: Code, p: Value, i: Value) -> None:
    """Asks the processor to load `p[i]`."""
    byte = _I8.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
    load = code.builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
    address = code.builder.bitcast(code.builder.gep(p, [i]), byte)
    code.builder.call(load, [address, _I32(0), _I32(3), _I32(1)])


# ------------------------------------------------------------------ words that threads share
def _changes(p: types.CPointer, i: Type, value: Type) -> Signature:
    return p.dtype(p, types.intp, p.dtype)


@emitting(_changes)
def exchange(code: Code, p: Value, i: Value, value: Value) -> Value:
    """Sets `p[i]` and returns its old value, atomically and with acquire ordering."""
    return code.builder.atomic_rmw("xchg", code.builder.gep(p, [i]), value, "acquire")


@emitting(_changes)
def fetch_add(code: Code, p: Value, i: Value, value: Value) -> Value:
    """Adds to `p[i]` and returns its old value, atomically and without ordering."""
    return code.builder.atomic_rmw("add", code.builder.gep(p, [i]), value, "monotonic")


@emitting(lambda p, i, before, value: types.boolean(p, types.intp, p.dtype, p.dtype))
def compare_exchange(code: Code, p: Value, i: Value, before: Value, value: Value) -> Value:
    """Sets `p[i]` atomically if it is `before`; returns whether it was. Orders as acquire and release."""
    found = code.builder.cmpxchg(code.builder.gep(p, [i]), before, value, "acq_rel", "acquire")
    return code.builder.extract_value(found, 1)


@emitting(lambda p, i: p.dtype(p, types.intp))
def load_acquire(code: Code, p: Value, i: Value) -> Value:
    """Returns `p[i]` with acquire ordering: later reads see all earlier writes of its writer."""
    return code.builder.load_atomic(code.builder.gep(p, [i]), "acquire", align=8)


@emitting(lambda p, i, value: types.void(p, types.intp, p.dtype))
def store_release(code: Code, p: Value, i: Value, value: Value) -> None:
    """Sets `p[i]` with release ordering: after all earlier writes."""
    code.builder.store_atomic(value, code.builder.gep(p, [i]), "release", align=8)


@emitting(lambda: types.void())
def pause(code: Code) -> None:
    """Tells the processor that a loop waits for another thread; those of ARM ignore such a hint."""
    if platform.machine().lower() in {"x86_64", "amd64"}:
        kind = ir.FunctionType(ir.VoidType(), [])
        code.builder.call(code.builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), [])


ADD_ALL = "llvm.vector.reduce.add.v16i32"
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


def _sum_pairs(builder: IRBuilder, a: Value, b: Value) -> Value:
    """Returns the sums of the products of adjacent pairs of two vectors of int16, like x86's `pmaddwd`.

    LLVM emits a single instruction if the processor has one, else several; `vpdpwssd` also adds.
    """
    wide = _vector(32, 2 * SUMS)
    products = builder.mul(builder.sext(a, wide), builder.sext(b, wide))
    even, odd = (ir.Constant(_vector(32, SUMS), [*range(part, 2 * SUMS, 2)]) for part in range(2))
    return builder.add(
        builder.shuffle_vector(products, products, even), builder.shuffle_vector(products, products, odd)
    )


def _sum(builder: IRBuilder, count: Value, at_once: int, term: Callable[[Value], Value]) -> Value:
    """Returns the sum of the terms 0 to `count`, rounded up to a multiple of `at_once`, as SUMS numbers."""
    nothing = ir.Constant(_vector(32, SUMS), [0] * SUMS)
    parts = [cgutils.alloca_once_value(builder, nothing) for _ in range(at_once)]
    with cgutils.for_range_slice(builder, _I64(0), count, _I64(at_once), intp=_I64) as (first, _):
        for i, part in enumerate(parts):
            builder.store(builder.add(builder.load(part), term(builder.add(first, _I64(i)))), part)
    return reduce(builder.add, map(builder.load, parts))


@emitting(lambda sums, values, weights, pairs: types.void(sums, values, weights, types.int64))
def add_products(code: Code, sums: Value, values: Value, weights: Value, pairs: Value) -> None:
    """Adds to 16 sums, int32, the products of pairs of int16 with their 16 pairs of weights."""
    builder, lines = code.builder, _vector(16, 2 * SUMS)
    inputs, rows = builder.bitcast(values, _I32.as_pointer()), builder.bitcast(weights, lines.as_pointer())
    places = cgutils.alloca_once(builder, ir.IntType(16), MOST_PAIRS + LISTED)
    listed = _list_pairs(builder, inputs, pairs, places)

    def term(i: Value) -> Value:
        at = builder.zext(builder.load(builder.gep(places, [i]), align=2), _I64)
        pair = _splat(builder, builder.load(builder.gep(inputs, [at]), align=4), SUMS)
        row = builder.load(builder.gep(rows, [at]), align=4)
        return _sum_pairs(builder, builder.bitcast(pair, lines), row)

    out = builder.bitcast(sums, _vector(32, SUMS).as_pointer())
    total = builder.add(builder.load(out, align=4), _sum(builder, listed, AT_ONCE, term))
    builder.store(total, out, align=4)


@emitting(lambda n, a, b: types.int32(types.int64, a, b))
def dot(code: Code, n: Value, a: Value, b: Value) -> Value:
    """Returns the dot product of two int16[n] as int32; n: a multiple of 64."""
    builder = code.builder
    lines = [builder.bitcast(p, _vector(16, 2 * SUMS).as_pointer()) for p in (a, b)]

    def term(i: Value) -> Value:
        return _sum_pairs(builder, *(builder.load(builder.gep(p, [i]), align=2) for p in lines))

    total = _sum(builder, builder.udiv(n, _I64(2 * SUMS)), 2, term)
    add = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_I32, [total.type]), ADD_ALL)
    return builder.call(add, [total])


@emitting(lambda *kinds: types.void(*kinds))
def add_columns(
    code: Code, rows: Value, stride: Value, base: Value, listed: Value, n: Value, m: Value, out: Value
) -> None:
    """Writes columns of `base` plus n rows minus m rows; keeps the sums in registers."""
    builder, item = code.builder, code.kinds[2].dtype.bitwidth
    count = COLUMNS if item == 16 else FEW_COLUMNS
    kind, given = (_vector(bits, count) for bits in (item, code.kinds[0].dtype.bitwidth))
    total = cgutils.alloca_once(builder, kind)
    builder.store(builder.load(builder.bitcast(base, kind.as_pointer()), align=1), total)
    for change, begin, end in ((builder.add, _I64(0), n), (builder.sub, n, builder.add(n, m))):
        with cgutils.for_range_slice(builder, begin, end, _I64(1), intp=_I64) as (i, _):
            row = builder.mul(builder.load(builder.gep(listed, [i])), stride)
            value = builder.load(builder.bitcast(builder.gep(rows, [row]), given.as_pointer()), align=1)
            builder.store(change(builder.load(total), builder.sext(value, kind)), total)
    builder.store(builder.load(total), builder.bitcast(out, kind.as_pointer()), align=1)


@emitting(lambda function, arguments: types.int64(types.int64, arguments))
def call_c(code: Code, function: Value, arguments: Value) -> Value:
    """Calls the C function at an address; returns its result as int64; a `size_t` error is negative.

    Args:
      function: int64, its address.
      arguments: a tuple of int64 (numbers, addresses) and pointers.
    """
    values = [code.builder.extract_value(arguments, i) for i in range(len(code.kinds[1]))]
    kind = ir.FunctionType(_I64, [value.type for value in values])
    return code.builder.call(code.builder.inttoptr(function, kind.as_pointer()), values)
