"""Machine code, which is pickled in files, and loads with `llvmlite` alone: importing Numba takes longer."""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from typing import Any, NamedTuple

import numpy as np

ENTRY = "graphsearch_entry"
MOST_RESULTS = 8  # words that a kernel returns, at most
SUFFIX = ".code"  # of files
FORMATS: dict[Any, str] = {  # of numbers, by type, for `struct`: each fills 8 bytes, on every platform
    int: "q",
    float: "d",
    bool: "?7x",
    np.bool_: "?7x",
    np.int8: "b7x",
    np.int16: "h6x",
    np.int32: "i4x",
    np.int64: "q",
    np.uint8: "B7x",
    np.uint16: "H6x",
    np.uint32: "I4x",
    np.uint64: "Q",
    np.float32: "f4x",
    np.float64: "d",
}
CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)  # releases the GIL

_LOADED: list[Any] = []  # engines live as long as the process


class MachineCode(NamedTuple):
    """One kernel, compiled for one kind of arguments.

    Attributes:
      code: an object file with the function `ENTRY`: arguments and results as words (`compiler.py`).
      results: the format of the results, for `struct`.
      is_tuple: whether the result is a tuple of them; else it is the only one, or None without one.
      outside: functions that the code calls and does not contain.
    """

    code: bytes
    results: str
    is_tuple: bool
    outside: tuple[str, ...]


@cache
def machine() -> str:
    """Returns a hash of the processor and of everything else that decides which machine code runs here."""
    llvm = _llvm()
    features = llvm.get_host_cpu_features().flatten()
    what = (llvm.get_process_triple(), llvm.get_host_cpu_name(), features, llvm.llvm_version_info)
    return hashlib.sha256(repr((what, object.__basicsize__)).encode()).hexdigest()[:16]


def load(what: MachineCode) -> Any:
    """Loads the code; returns its entry as a C function (words, results) -> int32 status, 0 for success."""
    llvm = _llvm()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target.create_target_machine(jit=True))
    if any(llvm.address_of_symbol(name) is None for name in what.outside):  # the engine finds the process's
        from numba.core.registry import cpu_target  # it brings C functions, such as those of libm on Windows

        cpu_target.target_context.refresh()
    engine.add_object_file(llvm.ObjectFileRef.from_data(what.code))
    engine.finalize_object()
    _LOADED.append(engine)
    return CALL(engine.get_function_address(ENTRY))


def features() -> dict[str, bool]:
    """Returns this processor's features, present and missing, by LLVM's names."""
    return dict(_llvm().get_host_cpu_features())


@cache
def _llvm() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding
