"""Sums and products of rows of weights. The rows of features are 8-bit, their sums and other rows 16-bit."""

from __future__ import annotations

from ...jit.compiler import inner
from ...jit.pointers import adv, as_i8, as_i16
from ...jit.types import Pointer, int8, int16, int32, int64
from .layout import FULL


@inner
def section(weights: Pointer[int64], name: int64) -> Pointer[int16]:
    """Returns a section of the weights as int16; `name`: its word in the header."""
    return as_i16(adv(weights, int64(weights[name])))


@inner
def rows_of(weights: Pointer[int64], name: int64) -> Pointer[int8]:
    """Returns the rows of features of a network; `name`: their word in the header."""
    return as_i8(adv(weights, int64(weights[name])))


@inner
def sum_rows(
    width: int64,
    rows: Pointer[int8],
    bias: Pointer[int16],
    features: Pointer[int64],
    n: int64,
    out: Pointer[int16],
) -> None:
    """Writes the sum of the bias and the rows of n features, int16[width]; adds eight rows per pass."""
    for i in range(width):
        out[i] = bias[i]
    whole = n & ~7
    for j in range(0, whole, 8):
        a, b = adv(rows, features[j] * width), adv(rows, features[j + 1] * width)
        c, d = adv(rows, features[j + 2] * width), adv(rows, features[j + 3] * width)
        e, f = adv(rows, features[j + 4] * width), adv(rows, features[j + 5] * width)
        g, h = adv(rows, features[j + 6] * width), adv(rows, features[j + 7] * width)
        for i in range(width):
            four = int16(a[i]) + int16(b[i]) + int16(c[i]) + int16(d[i])
            out[i] += four + int16(e[i]) + int16(f[i]) + int16(g[i]) + int16(h[i])
    for j in range(whole, n):
        a = adv(rows, features[j] * width)
        for i in range(width):
            out[i] += int16(a[i])


@inner
def activate(width: int64, sums: Pointer[int16], out: Pointer[int16]) -> None:
    """Writes the squares of the sums, clipped to 0..FULL first."""
    for i in range(width):
        x = min(max(sums[i], int16(0)), int16(FULL))
        out[i] = int16(x * x)


@inner
def dot(n: int64, a: Pointer[int16], b: Pointer[int16]) -> int32:
    """Returns the dot product of two int16[n] as int32; `weights.py` checks that it cannot overflow."""
    total = int32(0)
    for i in range(n):
        total += int32(a[i]) * int32(b[i])
    return int32(total)
