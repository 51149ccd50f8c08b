"""Compiles kernels to machine code with Numba; importing this module imports Numba.

A kernel's code has one entry with the same signature for all kernels: it reads the arguments as words
(`calls.py`), finds the data of arrays in NumPy's objects, and writes the results as words.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core.base import BaseContext
from numba.core.codegen import CodeLibrary, CPUCodegen
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target
from numba.core.types import Type
from numba.np.numpy_support import from_dtype

from .bundle_types import BundleType
from .bundles import Bundle
from .libraries import InnerLibrary
from .machine_code import ENTRY, MOST_RESULTS, MachineCode
from .pipeline import codegen_for, machine_for

WORD, BYTE, STATUS = ir.IntType(64), ir.IntType(8), ir.IntType(32)
# offsets in NumPy's PyArrayObject, after Python's object header: data, int32 dimensions, shape, strides
DATA, SHAPE, STRIDES = (object.__basicsize__ + offset for offset in (0, 16, 24))
RESULTS = {
    types.boolean: "?7x",
    types.float32: "f4x",
    types.float64: "d",
    types.uint64: "Q",
    types.int64: "q",
}


@global_compiler_lock  # type: ignore[untyped-decorator]
def build(
    dispatcher: Dispatcher, arguments: tuple[object, ...], machines: list[tuple[str, str]]
) -> list[MachineCode]:
    """Returns the machine code of a kernel for arguments of these kinds.

    Args:
      machines: levels of processors (`places.LEVELS`) and platforms, each with code of its own; an empty
        level is this processor, an empty platform this one. The functions inside the kernel are typed and
        lowered once, for all.
    """
    kinds = tuple(_type_of(value) for value in arguments)
    dispatcher.compile(kinds)
    compiled = dispatcher.overloads[kinds]
    return [
        _built(compiled, kinds, codegen_for(level), machine_for(level, platform))
        for level, platform in machines
    ]


def _built(
    compiled: CompileResult, kinds: tuple[Type, ...], codegen: CPUCodegen, machine: binding.TargetMachine
) -> MachineCode:
    """Returns the code of a compiled kernel for a machine; `codegen`: the code generator of its level."""
    returned = compiled.signature.return_type
    results = _numbers(returned)
    assert len(results) <= MOST_RESULTS
    library = codegen.create_library(ENTRY)
    library.add_ir_module(_entry(library, compiled, kinds, results))
    module = _linked(library, compiled.library)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    _optimise(module, machine)
    return MachineCode(
        machine.emit_object(module),
        "".join(RESULTS[part] for part in results),
        isinstance(returned, types.BaseTuple),
        tuple(
            sorted(f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm."))
        ),
    )


def _numbers(returned: Type) -> list[Type]:
    """Returns the types of the numbers in a result: None, one number, or a tuple of them."""
    if isinstance(returned, types.BaseTuple):
        return list(returned)
    return [] if returned == types.none else [returned]


def _type_of(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        flags = value.flags
        order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        return types.Array(from_dtype(value.dtype), value.ndim, order, aligned=flags.aligned)
    if isinstance(value, Bundle):
        kinds = map(_type_of, value.items())
        items = [types.CPointer(kind.dtype) if isinstance(kind, types.Array) else kind for kind in kinds]
        return BundleType(type(value), dict(zip((*value.names_, *value.sizes_), items, strict=True)))
    if isinstance(value, tuple):
        named = type(value) if hasattr(value, "_fields") else None
        items = [_type_of(item) for item in value]
        return types.BaseTuple.from_types(items, named)
    return numba.typeof(value)


def _linked(library: CodeLibrary, callee: InnerLibrary) -> binding.ModuleRef:
    """Returns the module of an entry linked with everything it calls."""
    module = library._final_module
    for part in callee.parts():
        module.link_in(part, preserve=True)
    for function in module.functions:
        if not function.is_declaration and function.name != ENTRY:
            function.linkage = "internal"  # nothing outside calls it, so LLVM optimises it better
    return module


def _optimise(module: binding.ModuleRef, machine: binding.TargetMachine) -> None:
    """Runs LLVM's passes once.

    Numba's own way runs cheap ones before, to remove counts of references, which kernels hardly have. That
    takes as long (.9 s of CPU for `learn_line`), and its code is 4 % larger. Level 3, as Numba, takes 10 %
    longer for code of the same speed; level 1 makes alpha-beta 40 % slower.
    """
    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization, options.slp_vectorization = True, False  # as Numba
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    module.verify()


def _entry(
    library: CodeLibrary, compiled: CompileResult, kinds: tuple[Type, ...], results: list[Type]
) -> ir.Module:
    """Returns the module of an entry, a function (words, results) -> int32 status."""
    context = cpu_target.target_context
    module = library.create_ir_module(ENTRY)
    kind = ir.FunctionType(STATUS, [WORD.as_pointer(), WORD.as_pointer()])
    function = ir.Function(module, kind, ENTRY)
    builder = ir.IRBuilder(function.append_basic_block())
    words = _Words(context, builder, function.args[0])
    values = [words.take(kind) for kind in kinds]
    callee = context.declare_function(module, compiled.fndesc)
    returned = compiled.signature.return_type
    status, value = context.call_conv.call_function(builder, callee, returned, kinds, values)
    for i, part in enumerate(results):
        single = builder.extract_value(value, i) if isinstance(returned, types.BaseTuple) else value
        data = context.data_model_manager[part].as_data(builder, single)
        place = builder.gep(function.args[1], [WORD(i)])
        builder.store(data, builder.bitcast(place, data.type.as_pointer()))
    builder.ret(status.code)
    return module


class _Words:
    """The arguments of an entry, read one after the other."""

    def __init__(self, context: BaseContext, builder: ir.IRBuilder, words: ir.Value) -> None:
        self._context, self._builder, self._words = context, builder, words
        self._next = 0

    def take(self, kind: Type) -> ir.Value:
        """Returns the value of the next argument of a type."""
        if isinstance(kind, types.BaseTuple):
            return self._context.make_tuple(self._builder, kind, [self.take(item) for item in kind])
        place = self._builder.gep(self._words, [WORD(self._next)])
        self._next += 1
        if isinstance(kind, types.Array):
            return self._array(kind, self._builder.load(place))
        if isinstance(kind, BundleType):
            return self._builder.inttoptr(self._builder.load(place), WORD.as_pointer())
        model = self._context.data_model_manager[kind]
        data = self._builder.bitcast(place, model.get_data_type().as_pointer())
        return model.from_data(self._builder, self._builder.load(data))

    def _array(self, kind: types.Array, address: ir.Value) -> ir.Value:
        """Returns the NumPy array at an address, without an owner: there is nothing to free."""
        builder = self._builder
        start = builder.inttoptr(address, BYTE.as_pointer())
        array = self._context.make_array(kind)(self._context, builder)
        element = array.data.type
        array.data = builder.inttoptr(self._word(start, DATA), element)
        shape, strides = (
            builder.inttoptr(self._word(start, at), WORD.as_pointer()) for at in (SHAPE, STRIDES)
        )
        sizes = [builder.load(builder.gep(shape, [WORD(i)])) for i in range(kind.ndim)]
        steps = [builder.load(builder.gep(strides, [WORD(i)])) for i in range(kind.ndim)]
        items = WORD(1)
        for size in sizes:
            items = builder.mul(items, size)
        array.nitems = items
        array.itemsize = WORD(self._context.get_abi_sizeof(self._context.get_data_type(kind.dtype)))
        array.meminfo = ir.Constant(array.meminfo.type, None)
        array.parent = ir.Constant(array.parent.type, None)
        array.shape = ir.Constant(array.shape.type, ir.Undefined)
        for i, (size, step) in enumerate(zip(sizes, steps, strict=True)):
            array.shape = builder.insert_value(array.shape, size, i)
            array.strides = builder.insert_value(array.strides, step, i)
        return array._getvalue()

    def _word(self, start: ir.Value, offset: int) -> ir.Value:
        place = self._builder.gep(start, [WORD(offset)])
        return self._builder.load(self._builder.bitcast(place, WORD.as_pointer()))
