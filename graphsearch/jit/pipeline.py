"""A compiler pipeline for functions that only kernels call: it lowers them, and leaves the rest to the
kernel.

Numba finishes every function it compiles: it optimises the function with all it calls and translates that to
machine code, at each level of the call graph again. A function inside a kernel needs none of it, since the
kernel's own module links its code in and optimises the whole. `INNER_OPTIONS` says so to `numba.njit`,
through the documented `pipeline_class`; where a Numba release has moved the parts this builds on, the options
are plain and compiling only takes longer.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numba
from numba.core import config, event, types
from numba.core.codegen import JITCPUCodegen
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys

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

# no wrappers for calls from Python or C
PLAIN_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def _inner_options() -> dict[str, Any]:
    if os.environ.get("GRAPHSEARCH_PLAIN_JIT"):  # for comparison
        return {}
    try:
        return {**PLAIN_OPTIONS, "pipeline_class": _make_pipeline()}
    except (ImportError, AttributeError):
        return PLAIN_OPTIONS


def _make_pipeline() -> Any:
    from llvmlite.binding import Linkage
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder
    from numba.core.compiler_machinery import register_pass
    from numba.core.typed_passes import NativeLowering

    for name in (
        "_optimize_functions",
        "_optimize_final_module",
        "_finalize_specific",
        "_raise_if_finalized",
        "_get_module_for_linking",
    ):
        getattr(JITCodeLibrary, name)

    class InnerLibrary(JITCodeLibrary):  # type: ignore[misc]
        """Code that is linked into a kernel's, not run itself."""

        def _optimize_functions(self, ll_module: Any) -> None:
            """Leaves the code as it was lowered."""

        def finalize(self) -> None:
            """Leaves the code of callees where it is: linked at every level it would be copied each time."""
            self._raise_if_finalized()
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage == Linkage.external:
                    function.linkage = "linkonce_odr"  # may be inlined, dropped, and be there more than once
            self._finalized = True

        def parts(self) -> list[Any]:
            """Returns this code and all that it reaches, each once, for the kernel that calls it."""
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
            """Returns all parts in one, for callers that Numba compiles in its own way."""
            if self not in whole:
                module, *others = self.parts()
                whole[self] = module.clone()
                for other in others:
                    whole[self].link_in(other, preserve=True)
            return whole[self]

    def _own_module(library: Any) -> Any:
        """Returns a library's code; that of an inner function without its callees."""
        if isinstance(library, InnerLibrary):
            return library._final_module
        return library._get_module_for_linking()

    whole: dict[Any, Any] = {}

    @register_pass(mutates_CFG=True, analysis_only=False)
    class InnerLowering(NativeLowering):  # type: ignore[misc]
        """Lowers a function and registers it for callers, without making it executable."""

        _name = "graphsearch_inner_lowering"

        def run_pass(self, state: Any) -> bool:
            state.flags.no_compile = True
            state.library = InnerLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
            super().run_pass(state)
            # any builtin method will do: callers find the code by its identity, nothing calls it
            entry: Any = [].append
            state.targetctx.insert_user_function(entry, state["cr"].fndesc, [state.library])
            state["cr"] = state["cr"]._replace(cfunc=entry)
            return True

    class InnerCompiler(CompilerBase):  # type: ignore[misc]
        """Numba's nopython pipeline with the lowering above."""

        def define_pipelines(self) -> list[Any]:
            pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
            pipeline.passes = [
                (InnerLowering if step is NativeLowering else step, text)
                for step, text in pipeline.passes
                if step.__name__ not in NEEDLESS
            ]
            pipeline._finalized = False
            pipeline.finalize()
            return [pipeline]

    return InnerCompiler


INNER_OPTIONS = _inner_options()


def dispatcher_inside(function: Callable[..., Any], **options: bool) -> Any:
    """Returns Numba's dispatcher of a function that is typed and lowered alone and optimised in its kernels.

    Args:
      options: of `numba.njit`.
    """
    options = {**INNER_OPTIONS, **options}
    return numba.njit(nogil=True, error_model="numpy", **options)(function)


def offer_runtime() -> None:
    """Makes the functions of Numba's runtime, such as those that allocate arrays, known to loaded code."""
    rtsys.initialize(cpu_target.target_context)


@cache
def codegen_for(level: str) -> Any:
    """Returns the code generator for a level of processors; for an empty one, for the processor at hand."""
    if not level:
        return cpu_target.target_context.codegen()
    before = config.CPU_NAME, config.CPU_FEATURES
    config.CPU_NAME, config.CPU_FEATURES = level, ""
    try:
        return JITCPUCodegen(f"graphsearch.{level}")
    finally:
        config.CPU_NAME, config.CPU_FEATURES = before


def parts_of(library: Any) -> list[Any]:
    """Returns the modules of a compiled function and of all that it calls."""
    return library.parts() if hasattr(library, "parts") else [library._get_module_for_linking()]


def type_of_intrinsic(intrinsic: Any) -> Any:
    """Returns the type of an intrinsic to Numba, and registers it."""
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(intrinsic)


@contextmanager
def typing_remembered() -> Iterator[None]:
    """Lets Numba resolve an operation on numbers once for each kind of them: it tries all overloads."""
    function: Any = types.Function
    resolve = function.get_call_type
    known: dict[Any, Any] = {}

    def remembered(self: Any, context: Any, args: Any, kws: Any) -> Any:
        if kws or not all(isinstance(kind, (types.Number, types.Boolean)) for kind in args):
            return resolve(self, context, args, kws)
        key = self, args
        if key not in known:
            known[key] = resolve(self, context, args, kws)
        return known[key]

    function.get_call_type = remembered
    try:
        yield
    finally:
        function.get_call_type = resolve


class _RareCollections(event.Listener):  # type: ignore[misc]
    """Lets the garbage collector run rarely while kernels compile.

    A cold start of the first search takes some percent less CPU time, for 7 MB. Without any collection it
    takes as long and 200 MB more. Numba compiles in one thread at a time, callees within their caller.
    """

    THRESHOLDS = 30_000, 20, 50  # Python's own are 700, 10, 10

    def __init__(self) -> None:
        self._depth = 0
        self._before = gc.get_threshold()

    def on_start(self, event: Any) -> None:
        if self._depth == 0:
            self._before = gc.get_threshold()
            gc.set_threshold(*self.THRESHOLDS)
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            gc.set_threshold(*self._before)


event.register("numba:compile", _RareCollections())
