"""How Numba types and lowers kernels: options, code generators, and a shorter pipeline for inner functions.

Numba finishes every function it compiles: it optimises the function together with its callees and generates
machine code, again at each level of the call graph. A function inside a kernel needs none of it, since the
kernel's own module links its code in and optimises the whole. Importing this module fails with a release of
Numba that has moved the internals it uses.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, ClassVar

from llvmlite.binding import Target
from numba.core import config, typing
from numba.core.codegen import JITCPUCodegen
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.cpu import CPUContext
from numba.core.registry import CPUDispatcher, CPUTarget, cpu_target
from numba.core.typed_passes import NativeLowering
from numba.core.types.misc import unliteral
from numba.cpython.builtins import do_minmax

from .libraries import InnerLibrary, KeptFunction, digest
from .places import LevelFolder

NEEDLESS = {  # passes for closures, `with`, literals, array expressions, and branches that LLVM prunes too
    "IRProcessing",
    "LiteralPropagationSubPipelinePass",
    "AnnotateTypes",
    "DeadBranchPrune",
    "DumpParforDiagnostics",
    "FindLiterallyCalls",
    "InlineClosureLikes",
    "InlineInlinables",
    "InlineOverloads",
    "LiteralUnroll",
    "MakeFunctionToJitFunction",
    "NoPythonSupportedFeatureValidation",
    "NopythonRewrites",
    "RewriteDynamicRaises",
    "RewriteSemanticConstants",
    "WithLifting",
}


class InnerLowering(NativeLowering):  # type: ignore[misc]
    """Lowers a function and registers it for callers, without making it executable."""

    def run_pass(self, state: Any) -> bool:
        """Lowers the function of a state; returns True, because this changes the state."""
        state.flags.no_compile = True
        state.func_id.unique_id = digest(state.func_id.func, state.args)  # in its symbol
        state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        super().run_pass(state)
        # any builtin method will do: callers find the code by its identity, nothing calls it
        entry: Any = [].append
        state.targetctx.insert_user_function(entry, state["cr"].fndesc, [state.library])
        state["cr"] = state["cr"]._replace(cfunc=entry)
        return True


class Passes:
    """Numba's nopython pipeline without the passes in NEEDLESS, and with `InnerLowering`.

    Numba's own manager analyses the lifetime of variables after each pass; those that are left here do so
    where they need it.
    """

    pipeline_name = "graphsearch"

    def __init__(self, state: Any) -> None:
        """Creates the passes."""
        steps = (step for step, _ in DefaultPassBuilder.define_nopython_pipeline(state).passes)
        self._steps = [
            (InnerLowering if step is NativeLowering else step)()
            for step in steps
            if step.__name__ not in NEEDLESS
        ]
        self.exec_times: dict[str, object] = {}

    def run(self, state: Any) -> None:
        """Compiles the function of a state."""
        for step in self._steps:
            step.run_pass(state)


class InnerCompiler(CompilerBase):  # type: ignore[misc]
    """A compiler that runs `Passes`."""

    _passes: ClassVar[list[Passes]] = []  # the same for all functions

    def define_pipelines(self) -> list[Passes]:
        """Returns the one pipeline."""
        if not self._passes:
            self._passes.append(Passes(self.state))
        return self._passes


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

    @cached_property
    def typing_context(self) -> InnerTyping:
        """How calls are typed."""
        return InnerTyping()

    @cached_property
    def target_context(self) -> InnerContext:
        """How calls are lowered."""
        return InnerContext()


class InnerDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A function that is typed and lowered alone, and optimised in its kernels.

    It has no wrapper for calls from Python or C, and no arrays of its own: `zeros` gives a kernel memory.
    """

    targetdescr = InnerTarget("cpu")

    def __init__(self, function: Callable[..., Any], place: LevelFolder | None) -> None:
        """Compiles nothing yet.

        Args:
          place: for the function's files; without one each process compiles it.
        """
        options = {
            "nopython": True,
            "nogil": True,
            "error_model": "numpy",
            "no_cpython_wrapper": True,
            "no_cfunc_wrapper": True,
            "_nrt": False,
        }
        super().__init__(function, targetoptions=options, pipeline_class=InnerCompiler)
        if place is not None:
            self._cache = KeptFunction(function, place)


@cache
def codegen_for(level: str) -> Any:
    """Returns the code generator for a level of processors; for an empty level, for this processor."""
    if not level:
        return cpu_target.target_context.codegen()
    before = config.CPU_NAME, config.CPU_FEATURES
    config.CPU_NAME, config.CPU_FEATURES = level, ""
    try:
        return JITCPUCodegen(f"graphsearch.{level}")
    finally:
        config.CPU_NAME, config.CPU_FEATURES = before


# LLVM's names of platforms whose code can be made on another one, with the same kind of processor
TRIPLES = {"win-amd64": "x86_64-pc-windows-msvc-elf"}


@cache
def machine_for(level: str, platform: str) -> Any:
    """Returns LLVM's target machine for a level of processors and a platform; without a platform, this one.

    Raises:
      KeyError: for a platform that is not in TRIPLES.
    """
    if not platform:
        return codegen_for(level)._tm
    return Target.from_triple(TRIPLES[platform]).create_target_machine(
        cpu=level, features="", opt=config.OPT, reloc="static", codemodel="jitdefault", jit=True
    )


def type_of_intrinsic(intrinsic: Any) -> Any:
    """Registers an intrinsic with Numba and returns its type."""
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(intrinsic)
