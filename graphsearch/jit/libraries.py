"""Code of the functions inside kernels, as modules of LLVM: linked into kernels, and kept in files.

A kernel's module links in the code of all functions that it reaches, and is optimised as a whole. To type and
lower a function takes 20 ms, so its code is kept for the kernels that other processes compile:

    MODULE.NAME-DIGEST.inner   a pickled tuple: symbol, type of the result, files of callees, LLVM's bitcode

The digest covers the types of arguments, the sources, and what the function captured when it was made.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from typing import Any

from llvmlite.binding import Linkage, parse_bitcode
from numba.core import typing
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult, compile_result
from numba.core.funcdesc import ExternalFunctionDescriptor
from numba.core.types import Type
from numba.core.types.containers import BaseNamedTuple

from .bundle_types import BundleType
from .places import LevelFolder
from .sources import label, sources_digest

SUFFIX = ".inner"

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
    """Code that is linked into a kernel's, not run itself.

    Attributes:
      file: the name of its file.
    """

    file: str

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


# ------------------------------------------------------------------ files
class KeptFunction(NullCache):  # type: ignore[misc]
    """The files of one function, each for its kind of arguments."""

    def __init__(self, function: Callable[..., Any], place: LevelFolder) -> None:
        self._function, self._place = function, place

    def load_overload(self, arguments: tuple[Type, ...], context: Any) -> CompileResult | None:
        """Returns the function for arguments of these types, None if a file is missing or invalid."""
        found = _load(self._place, self._file(arguments), context.codegen())
        if found is None:
            return None
        library, symbol, returned = found
        return compile_result(
            signature=typing.signature(returned, *arguments),
            fndesc=ExternalFunctionDescriptor(symbol, returned, arguments),
            library=library,
            entry_point=[].append,
            objectmode=False,
        )

    def save_overload(self, arguments: tuple[Type, ...], result: CompileResult) -> None:
        """Writes the function for arguments of these types."""
        library = result.library
        library.file = self._file(arguments)
        module, calls = library._final_module.clone(), []
        for callee in dict.fromkeys(library._linking_libraries):
            if isinstance(callee, InnerLibrary):
                calls.append(callee.file)
            else:  # Numba's own code, such as that of `max`
                module.link_in(_own_module(callee), preserve=True)
        content = result.fndesc.mangled_name, result.signature.return_type, calls, module.as_bitcode()
        self._place.folder.write(library.file, pickle.dumps(content))

    def _file(self, arguments: tuple[Type, ...]) -> str:
        return f"{label(self._function)}-{digest(self._function, arguments)}{SUFFIX}"


_LOADED: dict[str, tuple[InnerLibrary, str, Type]] = {}  # by file: code, symbol, type of the result


def _load(place: LevelFolder, file: str, codegen: Any) -> tuple[InnerLibrary, str, Type] | None:
    """Returns the content of a file; None if it, or the file of a callee, is missing or invalid."""
    if file not in _LOADED:
        data = place.folder.read(file)
        if data is None:
            return None
        symbol, returned, calls, code = pickle.loads(data)  # noqa: S301 - signed, as machine code is
        callees = [_load(place, call, codegen) for call in calls]
        if None in callees:
            return None
        library = InnerLibrary(codegen, symbol)
        library._final_module = parse_bitcode(code)
        library._linking_libraries += [callee[0] for callee in callees if callee]
        library._finalized, library.file = True, file
        _LOADED[file] = library, symbol, returned
    return _LOADED[file]


def digest(function: Callable[..., Any], arguments: tuple[Type, ...]) -> str:
    """Returns a hash of all that decides the code of a function for arguments of these types."""
    what = _captured(function), list(map(_spelled, arguments))
    return hashlib.sha256(repr(what).encode()).hexdigest()[:16]


def _captured(function: Callable[..., Any]) -> list[Any]:
    """Returns a function's label, the digest of its sources, and the same for functions that it captured."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    captured = [_captured(item.__wrapped__) if hasattr(item, "__wrapped__") else item for item in cells]
    return [label(function), sources_digest(function.__module__), *captured]


def _spelled(kind: Type) -> str:
    """Returns the name of a type with the names and types of its fields."""
    if isinstance(kind, BundleType):
        return f"{kind} {[(name, _spelled(of)) for name, of in kind.fields.items()]}"
    if isinstance(kind, BaseNamedTuple):
        return f"{kind} {kind.fields} {list(map(_spelled, kind))}"
    return str(kind)
