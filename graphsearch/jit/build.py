"""Compiles kernels to machine code with Numba; importing this module imports Numba.

    types      of arguments, and of bundles (`types.py`)
    functions  inside kernels: typed and lowered once in a process
    pipeline   how Numba types and lowers a function: options, and the passes that kernels need
    kernels    link the functions that they reach, and are optimised as a whole

Numba on its own finishes every function it compiles: it optimises the function together with its callees and
generates machine code, again at each level of the call graph. A function inside a kernel needs none of it,
since the kernel's own module links its code in.

Importing this module fails with a release of Numba that has moved the internals it uses.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numba
import numpy as np
from llvmlite import binding, ir
from llvmlite.binding import Linkage, Target, get_process_triple
from numba import types
from numba.core import config, typing
from numba.core.base import BaseContext
from numba.core.codegen import CodeLibrary, JITCodeLibrary
from numba.core.compiler import CompilerBase, CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.cpu import CPUContext
from numba.core.datamodel.models import PrimitiveModel
from numba.core.datamodel.registry import register_default
from numba.core.dispatcher import Dispatcher
from numba.core.imputils import lower_getattr_generic
from numba.core.ir_utils import build_definitions
from numba.core.registry import CPUDispatcher, CPUTarget, cpu_target
from numba.core.ssa import reconstruct_ssa
from numba.core.typed_passes import (
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.types import Type
from numba.core.types.misc import unliteral
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.untyped_passes import FixupArgs, GenericRewrites, TranslateByteCode
from numba.cpython.builtins import do_minmax
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

from .cache import ENTRY, FORMATS, MOST_RESULTS, MachineCode
from .types import Bundle

WORD, STATUS = ir.IntType(64), ir.IntType(32)


# ------------------------------------------------------------------ types
class BundleType(types.Type):  # type: ignore[misc]
    """The type of a bundle: its class, and the types of its fields by name."""

    def __init__(self, of: type, fields: dict[str, Type]) -> None:
        super().__init__(f"{of.__module__}.{of.__qualname__}")
        self.of, self.fields = of, fields
        self.places = {name: place for place, name in enumerate(fields)}


@register_default(BundleType)
class BundleModel(PrimitiveModel):  # type: ignore[misc]
    """A bundle is a pointer to its words."""

    def __init__(self, manager: Any, kind: BundleType) -> None:
        super().__init__(manager, kind, WORD.as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    key = BundleType

    def generic_resolve(self, kind: BundleType, name: str) -> Type | None:
        """Returns the type of a field."""
        return kind.fields.get(name)


@lower_getattr_generic(BundleType)  # type: ignore[untyped-decorator]
def _read(
    context: BaseContext, builder: ir.IRBuilder, kind: BundleType, words: ir.Value, name: str
) -> ir.Value:
    """Reads a field; words never change, so that LLVM may keep what it has read."""
    found = builder.load(builder.gep(words, [WORD(kind.places[name])]))
    found.set_metadata("invariant.load", builder.module.add_metadata([]))
    of = kind.fields[name]
    value = context.get_value_type(of)
    return builder.inttoptr(found, value) if isinstance(value, ir.PointerType) else found


def _type_of(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return numba.typeof(value).copy(readonly=False)
    if isinstance(value, Bundle):
        kinds = map(_type_of, value.items())
        items = [types.CPointer(kind.dtype) if isinstance(kind, types.Array) else kind for kind in kinds]
        return BundleType(type(value), dict(zip((*value.names_, *value.sizes_), items, strict=True)))
    return numba.typeof(value)


# ------------------------------------------------------------------ functions inside kernels
class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
    """Code that is linked into a kernel's, not run itself."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Leaves the code as it was lowered."""

    def finalize(self) -> None:
        """Does not link callees: linking them at every level would copy their code each time."""
        self._raise_if_finalized()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"  # may be inlined, dropped or duplicated
        self._finalized = True

    def parts(self) -> list[Any]:
        """Returns the modules of this function and of everything it calls, each once, for its kernel."""
        found: dict[int, Any] = {}
        waiting = [self]
        while waiting:
            library = waiting.pop()
            if id(library) not in found:
                found[id(library)] = library
                if isinstance(library, InnerLibrary):
                    waiting += library._linking_libraries
        return [library._get_module_for_linking() for library in found.values()]


# ------------------------------------------------------------------ the pipeline
class InnerLowering(NativeLowering):  # type: ignore[misc]
    """Lowers a function and registers it for callers, without making it executable."""

    def run_pass(self, state: Any) -> bool:
        """Lowers the function of a state; returns True, because this changes the state."""
        state.flags.no_compile = True
        state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        super().run_pass(state)
        # any builtin method will do: callers find the code by its identity, nothing calls it
        entry: Any = [].append
        state.targetctx.insert_user_function(entry, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=entry)
        return True


class InnerCompiler(CompilerBase):  # type: ignore[misc]
    """A compiler that is its one pipeline: the passes of Numba's that kernels need, in its order.

    The others are for closures, `with`, literals, array expressions, and branches that LLVM prunes too.
    Numba analyses the lifetime of variables five times, to delete them; here nothing needs to be deleted.
    """

    pipeline_name = "graphsearch"
    exec_times: ClassVar[dict[str, object]] = {}

    def define_pipelines(self) -> list[InnerCompiler]:
        """Returns the one pipeline."""
        return [self]

    def run(self, state: Any) -> None:
        """Compiles the function of a state."""
        for step in TranslateByteCode(), FixupArgs(), GenericRewrites():
            step.run_pass(state)
        state.func_ir = reconstruct_ssa(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        NopythonTypeInference().run_pass(state)
        state.func_ir = PreLowerStripPhis()._strip_phi_nodes(state.func_ir)
        for step in InnerLowering(), NoPythonBackend():
            step.run_pass(state)


def _comparison(function: Any) -> Any:
    """Returns how `max` or `min` compares, None for another function; Numba compiles each with all passes."""
    compare: dict[Any, Any] = {max: operator.gt, min: operator.lt}
    return compare.get(getattr(function, "typing_key", None))


class InnerTyping(typing.Context):  # type: ignore[misc]
    """Numba's typing of calls, which remembers results: for `+` alone Numba tries 30 implementations."""

    def __init__(self) -> None:
        self.__dict__.update(vars(cpu_target.typing_context))  # the same registered functions
        self._found: dict[Any, Any] = {}

    def resolve_function_type(self, function: Any, arguments: Any, keywords: Any) -> Any:
        """Returns the signature of a call, for which a literal is any number of its type."""
        if keywords or isinstance(function, str):
            return super().resolve_function_type(function, arguments, keywords)
        arguments = tuple(map(unliteral, arguments))
        if _comparison(function):
            return typing.signature(self.unify_types(*arguments), *arguments)
        call = function, arguments
        if call not in self._found:
            self._found[call] = super().resolve_function_type(*call, keywords)
        return self._found[call]


class InnerContext(CPUContext):  # type: ignore[misc]
    """Numba's lowering of calls, which remembers results."""

    # LLVM parses a module to tell the size of a type
    get_abi_sizeof = staticmethod(cache(cpu_target.target_context.get_abi_sizeof))

    def __init__(self) -> None:
        self.__dict__.update(vars(cpu_target.target_context))  # the same registered functions
        self._found: dict[Any, Any] = {}

    def get_function(self, function: Any, signature: Any, _firstcall: bool = True) -> Any:
        """Returns the implementation of a function for a signature."""
        if comparison := _comparison(function):
            return lambda builder, args, loc: do_minmax(self, builder, signature.args, args, comparison)
        call = function, signature
        if call not in self._found:
            self._found[call] = super().get_function(*call, _firstcall)
        return self._found[call]


class InnerTarget(CPUTarget):  # type: ignore[misc]
    """Numba's target with these two."""

    typing_context, target_context = InnerTyping(), InnerContext()


class InnerDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A function that is typed and lowered alone, and optimised in its kernels; it allocates no arrays."""

    targetdescr = InnerTarget("cpu")

    def __init__(self, function: Callable[..., Any]) -> None:
        """Compiles nothing yet."""
        on = "nopython", "nogil", "no_cpython_wrapper", "no_cfunc_wrapper"
        options = {**dict.fromkeys(on, True), "error_model": "numpy", "_nrt": False}
        super().__init__(function, targetoptions=options, pipeline_class=InnerCompiler)

    def compile(self, kinds: tuple[Type, ...]) -> None:
        """Types and lowers the function for arguments of these types, once; Numba also times it."""
        if kinds not in self.overloads:
            with self._compiling_counter:
                self.add_overload(self._compiler.compile(kinds, None))


# LLVM's names of platforms whose code can be made on another one, with the same kind of processor
TRIPLES = {"win-amd64": "x86_64-pc-windows-msvc-elf"}


@cache
def machine_for(level: str, platform: str) -> Any:
    """Returns LLVM's target machine for a level and a platform of TRIPLES; this one's for empty names."""
    if not level:
        return cpu_target.target_context.codegen()._tm
    return Target.from_triple(TRIPLES[platform] if platform else get_process_triple()).create_target_machine(
        cpu=level,
        features="",
        opt=config.OPT,
        reloc="static" if level.startswith("x86") else "default",
        codemodel="jitdefault",
        jit=True,
    )


def type_of_intrinsic(intrinsic: Any) -> Any:
    """Registers an intrinsic with Numba and returns its type."""
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(intrinsic)


# ------------------------------------------------------------------ kernels
# offsets in NumPy's PyArrayObject, after Python's object header: data, int32 dimensions, shape, strides
DATA, SHAPE, STRIDES = (object.__basicsize__ + offset for offset in (0, 16, 24))


@global_compiler_lock  # type: ignore[untyped-decorator]
def build(
    dispatcher: Dispatcher, arguments: tuple[object, ...], machines: list[tuple[str, str]]
) -> list[MachineCode]:
    """Returns the machine code of a kernel for arguments of these kinds.

    Args:
      machines: for `machine_for`, each with code of its own. The functions inside the kernel are typed and
        lowered once, for all.
    """
    kinds = tuple(_type_of(value) for value in arguments)
    dispatcher.compile(kinds)
    compiled = dispatcher.overloads[kinds]
    return [_built(compiled, kinds, machine_for(level, platform)) for level, platform in machines]


def _built(compiled: CompileResult, kinds: tuple[Type, ...], machine: binding.TargetMachine) -> MachineCode:
    """Returns the code of a compiled kernel for a machine."""
    returned = compiled.signature.return_type
    is_tuple = isinstance(returned, types.BaseTuple)
    results = list(returned) if is_tuple else [] if returned == types.none else [returned]
    assert len(results) <= MOST_RESULTS
    library = cpu_target.target_context.codegen().create_library(ENTRY)
    library.add_ir_module(_entry(library, compiled, kinds, results))
    module = library._final_module
    for part in compiled.library.parts():
        module.link_in(part, preserve=True)
    for symbol in (*module.functions, *module.global_variables):
        if not symbol.is_declaration and symbol.name != ENTRY:
            symbol.linkage = "internal"  # nothing outside uses it, so LLVM optimises it better or drops it
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    _optimise(module, machine)
    return MachineCode(
        machine.emit_object(module),
        "".join(FORMATS[as_dtype(part).type] for part in results),
        is_tuple,
        tuple(
            sorted(f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm."))
        ),
    )


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
    places = (builder.gep(function.args[0], [WORD(i)]) for i in range(len(kinds)))
    values = [_argument(context, builder, *pair) for pair in zip(kinds, places, strict=True)]
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


def _argument(context: BaseContext, builder: ir.IRBuilder, kind: Type, place: ir.Value) -> ir.Value:
    """Returns the value of an argument from its word."""
    if isinstance(kind, types.Array):
        return _array(context, builder, kind, builder.load(place))
    model = context.data_model_manager[kind]
    data = builder.bitcast(place, model.get_data_type().as_pointer())
    return model.from_data(builder, builder.load(data))


def _array(context: BaseContext, builder: ir.IRBuilder, kind: types.Array, address: ir.Value) -> ir.Value:
    """Returns the NumPy array at an address, without an owner: there is nothing to free."""
    array = context.make_array(kind)(context, builder)
    sizes = ir.ArrayType(WORD, kind.ndim).as_pointer()
    data, shape, strides = (
        builder.load(builder.inttoptr(builder.add(address, WORD(offset)), of.as_pointer()))
        for offset, of in ((DATA, array.data.type), (SHAPE, sizes), (STRIDES, sizes))
    )
    populate_array(
        array,
        data=data,
        shape=builder.load(shape),
        strides=builder.load(strides),
        itemsize=context.get_abi_sizeof(context.get_data_type(kind.dtype)),
        meminfo=None,
    )
    return array._getvalue()
