"""Addresses of C functions of the system; kernels call them without the GIL (`call_c`)."""

from __future__ import annotations

import ctypes
import sys
import time
from functools import cache
from typing import Any

MONOTONIC = int(getattr(time, "CLOCK_MONOTONIC", 0))


@cache
def address_of(name: str) -> int:
    """Returns the address of a function of the C library, or of Winsock's; 0 if there is none.

    >>> address_of("send") > 0, address_of("no such function")
    (True, 0)
    """
    try:
        return ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


@cache
def _library() -> Any:
    return ctypes.CDLL("ws2_32") if sys.platform == "win32" else ctypes.CDLL(None)
