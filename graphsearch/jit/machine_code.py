"""Encodes, decodes and loads machine code, with `llvmlite` alone: importing Numba takes longer.

The bytes are one line of JSON, the description, and an object file. The description has the entry's results
and the external functions that the code calls.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

ENTRY = "graphsearch_entry"
MOST_RESULTS = 8  # words that a kernel returns, at most
SUFFIX = ".code"  # of files
RESULT = re.compile(r"\?7x|f4x|d|Q|q")  # a word of the results
CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)  # releases the GIL

Form: TypeAlias = "int | list[Form] | None"  # of results: 0 a number, a list a tuple, None nothing

_LOADED: list[Any] = []  # engines live as long as the process


@dataclass(frozen=True, slots=True)
class MachineCode:
    """One kernel, compiled for one kind of arguments.

    Attributes:
      code: an object file with the function `ENTRY`: arguments and results as words (`calls.py`).
      results: the format of the results, for `struct`.
      form: the structure of the result: 0 a number, None nothing, a list a tuple.
      outside: functions that the code calls and does not contain.
    """

    code: bytes
    results: str
    form: Form
    outside: tuple[str, ...]

    def to_bytes(self) -> bytes:
        """Returns the code as bytes."""
        head = {"results": self.results, "form": self.form, "outside": self.outside}
        return json.dumps(head).encode() + b"\n" + self.code

    @classmethod
    def from_bytes(cls, data: bytes) -> MachineCode:
        """Returns the code from bytes written by `to_bytes`.

        Raises:
          ValueError: if they are anything else.
        """
        head, _, code = data.partition(b"\n")
        fields = json.loads(head)
        if not isinstance(fields, dict) or fields.keys() != {"results", "form", "outside"}:
            raise ValueError("not the description of machine code")
        results, form, outside = fields["results"], fields["form"], fields["outside"]
        if not isinstance(results, str) or RESULT.sub("", results) or not _fits(form, results):
            raise ValueError(f"no results of a kernel: {results!r}, {form!r}")
        if not isinstance(outside, list) or not all(isinstance(name, str) for name in outside):
            raise ValueError(f"no names of functions: {outside!r}")
        return cls(code, results, form, tuple(outside))


def _fits(form: Form, results: str) -> bool:
    """Returns whether a form is valid and has as many numbers as there are results."""
    waiting, numbers = [form], 0
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif part is not None and (isinstance(part, bool) or part != 0):
            return False
        numbers += part is not None and not isinstance(part, list)
    return numbers == len(RESULT.findall(results)) <= MOST_RESULTS


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
        from .pipeline import offer_functions

        offer_functions()
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
