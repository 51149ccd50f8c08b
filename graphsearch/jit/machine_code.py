"""Machine code in files and in memory: `llvmlite` loads it, without Numba, whose import takes longer.

A file is one line of JSON, the description, and an object file. The description says what the entry returns
and what it calls outside.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

ENTRY = "graphsearch_entry"
MOST_RESULTS = 8  # words that a kernel returns, at most
SUFFIX = ".code"  # of files
CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)  # drops Python's lock

_LOADED: list[Any] = []  # engines live as long as the process


@dataclass(frozen=True, slots=True)
class MachineCode:
    """One kernel, compiled for one kind of arguments.

    Attributes:
      code: an object file with the function `ENTRY`: arguments and results as words (`calls.py`).
      results: the format of the results, for `struct`.
      form: how they are put together: 0 a number, None nothing, a list a tuple.
      outside: functions that the code calls and does not contain.
    """

    code: bytes
    results: str
    form: Any
    outside: tuple[str, ...]

    def write(self, path: Path) -> None:
        """Writes a file; it is there whole or not at all."""
        head = asdict(self) | {"code": zlib.crc32(self.code)}
        number, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(json.dumps(head).encode() + b"\n" + self.code)
            Path(name).replace(path)
        except (
            OSError
        ):  # no space; or in use, on Windows, with the same content: it is compiled again some day
            Path(name).unlink(missing_ok=True)


def read(path: Path) -> MachineCode | None:
    """Returns what a file holds, or None if it is not there or damaged."""
    try:
        head, code = path.read_bytes().split(b"\n", 1)
        fields = json.loads(head)
        if fields.pop("code") == zlib.crc32(code):
            return MachineCode(code, fields["results"], fields["form"], tuple(fields["outside"]))
    except (OSError, ValueError, KeyError):
        pass
    return None


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Lets one process at a time make a file, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.with_suffix(".lock").open("w") as file:  # the lock goes with the process, the empty file stays
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def machine() -> str:
    """Returns a hash of the processor and of what else decides which machine code runs here."""
    llvm = _llvm()
    features = llvm.get_host_cpu_features().flatten()
    what = (llvm.get_process_triple(), llvm.get_host_cpu_name(), features, llvm.llvm_version_info)
    return hashlib.sha256(repr((what, object.__basicsize__)).encode()).hexdigest()[:16]


def load(what: MachineCode) -> Any:
    """Returns the entry as a C function: int32 status (0 if all is well) of (words, results)."""
    llvm = _llvm()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target.create_target_machine(jit=True))
    if any(llvm.address_of_symbol(name) is None for name in what.outside):  # the engine knows the process's
        from .pipeline import offer_runtime

        offer_runtime()
    engine.add_object_file(llvm.ObjectFileRef.from_data(what.code))
    engine.finalize_object()
    _LOADED.append(engine)
    return CALL(engine.get_function_address(ENTRY))


@cache
def _llvm() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding
