"""Numba's settings for kernels: options, code generators, types.

`INNER_OPTIONS` gives functions that only kernels call a shorter pipeline (`inner_pipeline.py`), through the
documented `pipeline_class`. If a Numba release has moved the internals that it uses, they fall back to
`PLAIN_OPTIONS`, and compiling only takes longer.
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

# no wrappers for calls from Python or C
PLAIN_OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def _inner_options() -> dict[str, Any]:
    if os.environ.get("GRAPHSEARCH_PLAIN_JIT"):  # for comparison
        return {}
    try:
        from .inner_pipeline import InnerCompiler
    except (ImportError, AttributeError):
        return PLAIN_OPTIONS
    return {**PLAIN_OPTIONS, "pipeline_class": InnerCompiler}


INNER_OPTIONS = _inner_options()


def dispatcher_inside(function: Callable[..., Any], **options: bool) -> Any:
    """Returns Numba's dispatcher of a function that is typed and lowered alone, and optimised in its kernels.

    Args:
      options: of `numba.njit`.
    """
    options = {**INNER_OPTIONS, **options}
    return numba.njit(nogil=True, error_model="numpy", **options)(function)


def offer_runtime() -> None:
    """Initializes Numba's runtime, so that loaded code can call its functions, such as array allocation."""
    rtsys.initialize(cpu_target.target_context)


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


def parts_of(library: Any) -> list[Any]:
    """Returns the modules of a compiled function and of everything it calls."""
    return library.parts() if hasattr(library, "parts") else [library._get_module_for_linking()]


def type_of_intrinsic(intrinsic: Any) -> Any:
    """Registers an intrinsic with Numba and returns its type."""
    context = cpu_target.typing_context
    context.refresh()
    return context.resolve_value_type(intrinsic)


@contextmanager
def typing_remembered() -> Iterator[None]:
    """Caches how Numba resolves operations on numbers: it tries all overloads for every call."""
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
    """Makes the garbage collector run rarely while kernels compile.

    This saves a few percent of the CPU time of a cold first search, and costs 7 MB. With no collection at all
    it takes as long and 200 MB more. Numba compiles in one thread at a time, callees within their caller.
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
