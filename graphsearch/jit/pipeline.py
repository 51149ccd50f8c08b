"""A compiler pipeline for functions that only kernels call: lower them, and leave the rest to the kernel.

Numba finishes every function it compiles: it optimises the function with all it calls and translates that to
machine code, at each level of the call graph again. A function inside a kernel needs none of it, since the
kernel's own module links its code in and optimises the whole. `INNER_OPTIONS` says so to `numba.njit`,
through the documented `pipeline_class`; where a Numba release has moved the parts this builds on, the options
are plain and compiling only takes longer.
"""

from __future__ import annotations

import os
from typing import Any

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
            self._finalized = True

        def _get_module_for_linking(self) -> Any:
            """Returns this code and all that it reaches, each linked once, for the kernel that calls it."""
            if self not in whole:
                module = _own_module(self).clone()
                for library in self._reached():
                    module.link_in(_own_module(library), preserve=True)
                whole[self] = module
            return whole[self]

        def _reached(self) -> list[Any]:
            """Returns the libraries that this one calls, directly or not, itself left out."""
            found: dict[int, Any] = {}
            waiting = list(self._linking_libraries)
            while waiting:
                library = waiting.pop()
                if id(library) not in found and library is not self:
                    found[id(library)] = library
                    if isinstance(library, InnerLibrary):
                        waiting += library._linking_libraries
            return list(found.values())

    def _own_module(library: Any) -> Any:
        """Returns a library's code; that of an inner function without what it calls."""
        if isinstance(library, InnerLibrary):
            return JITCodeLibrary._get_module_for_linking(library)
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
                (InnerLowering if step is NativeLowering else step, text) for step, text in pipeline.passes
            ]
            pipeline._finalized = False
            pipeline.finalize()
            return [pipeline]

    return InnerCompiler


INNER_OPTIONS = _inner_options()
