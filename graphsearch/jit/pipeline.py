"""How Numba types and lowers kernels: options, code generators, and a shorter pipeline for inner functions.

Numba finishes every function it compiles: it optimises the function together with its callees and generates
machine code, again at each level of the call graph. A function inside a kernel needs none of it, since the
kernel's own module links its code in and optimises the whole. Importing this module fails with a release of
Numba that has moved the internals it uses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from llvmlite.binding import Linkage, Target
from numba.core import config
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.registry import cpu_target
from numba.core.typed_passes import NativeLowering

NEEDLESS = {  # passes for closures, `with`, literals, array expressions, and branches that LLVM prunes too
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

_WHOLE: dict[Any, Any] = {}  # inner functions linked with all their parts, for Numba's own callers

for _name in (
    "_optimize_functions",
    "_optimize_final_module",
    "_finalize_specific",
    "_raise_if_finalized",
    "_get_module_for_linking",
):
    getattr(JITCodeLibrary, _name)  # a release without them fails here


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
        return [_own_module(library) for library in found.values()]

    def _get_module_for_linking(self) -> Any:
        """Returns all parts linked into one module, for callers that Numba's own pipeline compiles."""
        if self not in _WHOLE:
            module, *others = self.parts()
            _WHOLE[self] = module.clone()
            for other in others:
                _WHOLE[self].link_in(other, preserve=True)
        return _WHOLE[self]


def _own_module(library: Any) -> Any:
    """Returns a library's module; that of an inner function without its callees."""
    if isinstance(library, InnerLibrary):
        return library._final_module
    return library._get_module_for_linking()


@register_pass(mutates_CFG=True, analysis_only=False)
class InnerLowering(NativeLowering):  # type: ignore[misc]
    """Lowers a function and registers it for callers, without making it executable."""

    _name = "graphsearch_inner_lowering"

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
    """Numba's nopython pipeline with `InnerLowering`."""

    def define_pipelines(self) -> list[Any]:
        """Returns the one pipeline: Numba's without the passes in NEEDLESS, and with `InnerLowering`."""
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes = [
            (InnerLowering if step is NativeLowering else step, text)
            for step, text in pipeline.passes
            if step.__name__ not in NEEDLESS
        ]
        pipeline._finalized = False
        pipeline.finalize()
        return [pipeline]


def dispatcher_inside(function: Callable[..., Any]) -> Any:
    """Returns Numba's dispatcher of a function that is typed and lowered alone, and optimised in its kernels.

    It has no wrapper for calls from Python or C, and no arrays of its own: `zeros` gives a kernel memory.
    """
    return numba.njit(
        nogil=True,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        _nrt=False,
        pipeline_class=InnerCompiler,
    )(function)


def offer_functions() -> None:
    """Registers the C functions that Numba brings, such as those of libm on Windows, for loaded code."""
    cpu_target.target_context.refresh()


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
