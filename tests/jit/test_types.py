"""The signatures of kernels say which types the compiler finds."""

from __future__ import annotations

import gc
import os
import types
from collections.abc import Iterator
from typing import Any, Protocol, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from graphsearch.graph.arena import Arena
from graphsearch.jit.compiler import Inner
from graphsearch.jit.types import Pointer
from graphsearch.position.board import POSITION_WORDS
from graphsearch.position.tables import load_tables
from graphsearch.search.visit_kernel import complete, is_root_decided
from graphsearch.search.wave_kernel import new_wave

# GRAPHSEARCH_FULL=1 compiles a kernel of three times as many functions
FULL = bool(os.environ.get("GRAPHSEARCH_FULL"))
SCALARS: dict[object, type] = {bool: np.bool_, int: np.int64}


def signatures(kernel: Any) -> Iterator[tuple[Any, Any]]:
    """Yields every function that a compiled kernel is made of, with each of its signatures."""
    waiting, seen = [kernel], set()
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        plain = function.__wrapped__
        yield from ((plain, code.signature) for code in function.dispatcher.overloads.values())
        names, known = plain.__code__.co_names, plain.__globals__
        modules = [known[name] for name in names if isinstance(known.get(name), types.ModuleType)]
        called = [vars(module).get(name) for module in modules for name in names]
        called += [known.get(name) for name in names]
        called += [cell.cell_contents for cell in plain.__closure__ or ()]
        waiting += [other for other in called if isinstance(other, Inner)]


def agrees(hint: Any, found: Any) -> bool:
    """Returns whether an annotation names a type of the compiler."""
    from numba import types as numba

    from graphsearch.jit.build import BundleType

    origin, items = get_origin(hint), get_args(hint)
    if hasattr(origin, "__value__"):  # NDArray, a named type from Python 3.12 on
        return agrees(origin.__value__[items], found)
    if origin in (Union, types.UnionType):
        return any(agrees(item, found) for item in items)
    if origin is Pointer:
        return isinstance(found, numba.CPointer) and agrees(items[0], found.dtype)
    if origin is np.ndarray:
        return isinstance(found, numba.Array) and agrees(get_args(items[1])[0], found.dtype)
    if origin is tuple:
        return len(items) == len(found) and all(map(agrees, items, found))
    if isinstance(found, BundleType):
        hints = get_type_hints(found.of)
        if issubclass(hint, Protocol):
            return all(name in hints for name in vars(hint) if not name.startswith("_"))
        return hint is found.of and all(agrees(hints[name], kind) for name, kind in found.fields.items())
    if isinstance(found, numba.BaseNamedTuple):
        fields = found.instance_class.__annotations__
        if issubclass(hint, Protocol):
            return all(name in fields for name in vars(hint) if not name.startswith("_"))
        return bool(hint is found.instance_class) and all(map(agrees, get_type_hints(hint).values(), found))
    if hint is type(None):
        return bool(found == numba.none)
    if hint is float:  # of a plain function, which kernels compile for either kind
        return isinstance(found, numba.Float)
    plain = numba.unliteral(found)
    return bool(
        np.dtype(SCALARS.get(hint, hint)) == np.dtype("bool" if plain == numba.boolean else str(plain))
    )


def test_signatures_say_which_types_the_compiler_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphsearch.jit.build import KeptFunction, _type_of

    monkeypatch.setattr(KeptFunction, "load_overload", lambda *_: None)  # every function is typed here
    for found in gc.get_objects():
        if isinstance(found, Inner):
            vars(found).pop("dispatcher", None)
    tables, arena = load_tables(), Arena()
    kernel: Any = complete if FULL else is_root_decided
    arguments = (
        tables,
        arena.arrays,
        *((new_wave(8), 1) if FULL else (np.zeros(POSITION_WORDS, np.uint64),)),
    )
    kernel.dispatcher.compile(tuple(map(_type_of, arguments)))
    checked = set()
    for function, found in signatures(kernel):
        hints = get_type_hints(function)
        returned = hints.pop("return")
        names = [name for name, kind in zip(hints, found.args, strict=True) if not agrees(hints[name], kind)]
        assert not names, f"{function.__module__}.{function.__qualname__}: {names}, {found}"
        assert agrees(returned, found.return_type), f"{function.__qualname__} returns {found.return_type}"
        checked.add(function)
    assert len(checked) > 50
