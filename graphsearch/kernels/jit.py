"""The compiler's settings, and raw pointers.

Rules that measurements forced (array arguments lost 2.5x to reference counting and index checks):
inner kernels take pointers, outer ones take arrays and keep them alive; every literal and shift count
that meets a `uint64` is a `uint64`, every index an `int64`; no fastmath (cached and fresh code differed);
no recursion (crashed from a warm cache); no explicit signatures; integer literals in calls are wrapped
(`int64(5)`), because each bare one compiles another variant.

With NUMBA_DISABLE_JIT=1 the same code runs as plain Python: a pointer is then an array slice.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic

from .pipeline import INNER_OPTIONS

JIT_OFF = bool(numba.config.DISABLE_JIT)

U = np.uint64
ZERO, ONE = U(0), U(1)
LOW32 = U(0xFFFFFFFF)

_F = TypeVar("_F", bound=Callable[..., Any])


def _sources_digest() -> str:
    """Returns a hash of all kernel sources: Numba's cache does not notice edits in a callee's module."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder() -> Path | None:
    """Returns a writable folder for compiled code, or None if there is none."""
    base = os.environ.get("GRAPHSEARCH_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    own = Path(tempfile.gettempdir()) / f"graphsearch-{getattr(os, 'getuid', lambda: 0)()}"
    for parent in (Path(base), own):
        try:
            parent.expanduser().mkdir(mode=0o700, parents=True, exist_ok=True)
            if parent == own and not _is_private(own):
                continue
            folder = parent.expanduser() / "graphsearch" / f"kernels-{_sources_digest()}"
            folder.mkdir(parents=True, exist_ok=True)
        except (OSError, RuntimeError):  # no right to make it, or no home
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None


def _is_private(folder: Path) -> bool:
    """Returns whether nobody else can put code there: compiled code is run when it is loaded."""
    status = folder.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


CACHE_FOLDER = None if JIT_OFF else _cache_folder()


def kernel(function: _F) -> _F:
    """Compiles a function, cached on disk under a name that changes with any kernel source."""
    if CACHE_FOLDER is None:
        return cast(_F, numba.njit(nogil=True, error_model="numpy")(function))
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(CACHE_FOLDER)
    try:
        return cast(_F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    finally:
        numba.config.CACHE_DIR = before


def inner(function: _F) -> _F:
    """Compiles a function that only kernels call.

    It is typed and lowered alone but optimised, once, inside the kernels that reach it; Numba on its own
    would optimise and translate it again at every level of the call graph (34 s cold instead of 15).
    """
    return cast(_F, numba.njit(nogil=True, error_model="numpy", **INNER_OPTIONS)(function))


def inlined(function: _F) -> _F:
    """Compiles as `inner` does a small function that is to stand in the code of every caller, for speed."""
    options = {**INNER_OPTIONS, "forceinline": True}
    return cast(_F, numba.njit(nogil=True, error_model="numpy", **options)(function))


_MARKED: set[str] = set()  # by this process


def _marker(purpose: str) -> Path | None:
    """Returns the file that says the kernels of a purpose are compiled, for this installation.

    Numba's cache goes by the path and time of a source file, so a new installation compiles anew.
    """
    if CACHE_FOLDER is None:
        return None
    here = Path(__file__).parent
    times = [source.stat().st_mtime_ns for source in sorted(here.glob("*.py"))]
    digest = hashlib.sha256(repr((str(here), sys.version, times)).encode()).hexdigest()[:16]
    return CACHE_FOLDER / f"{purpose}-{digest}"


def is_compiled(purpose: str = "search") -> bool:
    """Returns whether an earlier process compiled the kernels of a purpose, so that this one starts warm."""
    if JIT_OFF:
        return True
    marker = _marker(purpose)
    return marker is not None and marker.exists()


def mark_compiled(purpose: str = "search") -> None:
    """Records that every kernel of a purpose is compiled; once is enough."""
    if JIT_OFF or purpose in _MARKED:
        return
    marker = _marker(purpose)
    if marker is not None:
        marker.touch()
        _MARKED.add(purpose)


def _pointer_as(target: Any, bits: int, *, floating: bool = False) -> Any:
    @intrinsic  # type: ignore[untyped-decorator]
    def cast_pointer(typing_context: Any, p: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir

            word = ir.FloatType() if floating else ir.IntType(bits)
            return builder.bitcast(args[0], word.as_pointer())

        return types.CPointer(target)(p), codegen

    return cast_pointer


def _mulhi_ir(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir

    wide = ir.IntType(128)
    product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
    return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))


def _mum_ir(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    from llvmlite import ir

    wide, word = ir.IntType(128), ir.IntType(64)
    product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
    high = builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), word)
    return builder.xor(builder.trunc(product, word), high)


if JIT_OFF:
    np.seterr(over="ignore")  # 64-bit hashes wrap around, as in compiled code

    def ctz(x: Any) -> int:
        """Returns the index of the lowest set bit."""
        return (int(x) & -int(x)).bit_length() - 1

    def popc(x: Any) -> int:
        """Returns the number of set bits."""
        return int(x).bit_count()

    def ptr(array: Any, i: Any) -> Any:
        """Returns a pointer to `array[i]`; the caller keeps the array alive."""
        return array[int(i) :]

    def adv(p: Any, i: Any) -> Any:
        """Returns `p + i`."""
        return p[int(i) :]

    def as_u8(p: Any) -> Any:
        """Returns the pointer as one to bytes."""
        return p.view(np.uint8)

    def as_u16(p: Any) -> Any:
        """Returns the pointer as one to 16-bit words."""
        return p.view(np.uint16)

    def as_i64(p: Any) -> Any:
        """Returns the pointer as one to int64."""
        return p.view(np.int64)

    def as_u32(p: Any) -> Any:
        """Returns the pointer as one to 32-bit words."""
        return p.view(np.uint32)

    def as_f32(p: Any) -> Any:
        """Returns the pointer as one to float32."""
        return p.view(np.float32)

    def mulhi(a: Any, b: Any) -> Any:
        """Returns the upper 64 bits of a 128-bit product."""
        return U(int(a) * int(b) >> 64)

    def mum(a: Any, b: Any) -> Any:
        """Returns the XOR of both halves of a 128-bit product."""
        product = int(a) * int(b)
        return U((product >> 64) ^ (product & 0xFFFFFFFFFFFFFFFF))

    def prefetch(p: Any, i: Any) -> None:
        """Asks the processor to load `p[i]`."""

else:

    @intrinsic  # type: ignore[untyped-decorator]
    def ctz(typing_context: Any, x: Any) -> Any:
        """Returns the index of the lowest set bit."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir

            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.uint64), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def popc(typing_context: Any, x: Any) -> Any:
        """Returns the number of set bits."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.ctpop(args[0])

        return types.int64(types.uint64), codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def ptr(typing_context: Any, array: Any, i: Any) -> Any:
        """Returns a pointer to `array[i]`; the caller keeps the array alive."""
        signature = types.CPointer(array.dtype)(array, types.intp)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            data = context.make_array(sig.args[0])(context, builder, args[0]).data
            return builder.gep(data, [args[1]])

        return signature, codegen

    @intrinsic  # type: ignore[untyped-decorator]
    def adv(typing_context: Any, p: Any, i: Any) -> Any:
        """Returns `p + i`."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.gep(args[0], [args[1]])

        return p(p, types.intp), codegen

    as_u8 = _pointer_as(types.uint8, 8)
    as_i64 = _pointer_as(types.int64, 64)
    as_u16 = _pointer_as(types.uint16, 16)
    as_u32 = _pointer_as(types.uint32, 32)
    as_f32 = _pointer_as(types.float32, 32, floating=True)

    @intrinsic  # type: ignore[untyped-decorator]
    def mulhi(typing_context: Any, a: Any, b: Any) -> Any:
        """Returns the upper 64 bits of a 128-bit product."""
        return types.uint64(types.uint64, types.uint64), _mulhi_ir

    @intrinsic  # type: ignore[untyped-decorator]
    def mum(typing_context: Any, a: Any, b: Any) -> Any:
        """Returns the XOR of both halves of a 128-bit product."""
        return types.uint64(types.uint64, types.uint64), _mum_ir

    @intrinsic  # type: ignore[untyped-decorator]
    def prefetch(typing_context: Any, p: Any, i: Any) -> Any:
        """Asks the processor to load `p[i]`."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from llvmlite import ir

            byte = ir.IntType(8).as_pointer()
            address = builder.bitcast(builder.gep(args[0], [args[1]]), byte)
            i32 = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
            load = builder.module.declare_intrinsic("llvm.prefetch", (byte,), kind)
            builder.call(load, [address, i32(0), i32(3), i32(1)])
            return context.get_dummy_value()

        return types.void(p, types.intp), codegen
