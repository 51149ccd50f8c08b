"""Records as columns for kernels: the arrays of a `RecordBatch`, pointers to them, and copies of records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import as_u32, ptr
from ...jit.types import Pointer, int64, uint8, uint16, uint32, uint64
from ...position.board_kernel import PW


class Columns(NamedTuple):
    """The arrays of a `RecordBatch`, in its order, words flat; the caller keeps them alive."""

    words: NDArray[np.uint64]
    v: NDArray[np.float32]
    d: NDArray[np.uint16]
    evaluator: NDArray[np.uint8]
    run: NDArray[np.uint32]
    flags: NDArray[np.uint8]
    code_offsets: NDArray[np.int64]
    codes: NDArray[np.uint8]
    edge_offsets: NDArray[np.int64]
    n: NDArray[np.uint32]
    r: NDArray[np.uint32]
    q: NDArray[np.float32]
    edge_d: NDArray[np.uint16]


class Records(NamedTuple):
    """Pointers to `Columns`, in the same order; `v` and `q`, in [-1, 1], as their bits."""

    words: Pointer[uint64]
    v: Pointer[uint32]
    d: Pointer[uint16]
    evaluator: Pointer[uint8]
    run: Pointer[uint32]
    flags: Pointer[uint8]
    code_offsets: Pointer[int64]
    codes: Pointer[uint8]
    edge_offsets: Pointer[int64]
    n: Pointer[uint32]
    r: Pointer[uint32]
    q: Pointer[uint32]
    edge_d: Pointer[uint16]


@inner
def pointers(c: Columns) -> Records:
    """Returns pointers to the columns, values in [-1, 1] as their bits."""
    return Records(
        ptr(c.words, 0),
        as_u32(ptr(c.v, 0)),
        ptr(c.d, 0),
        ptr(c.evaluator, 0),
        ptr(c.run, 0),
        ptr(c.flags, 0),
        ptr(c.code_offsets, 0),
        ptr(c.codes, 0),
        ptr(c.edge_offsets, 0),
        ptr(c.n, 0),
        ptr(c.r, 0),
        as_u32(ptr(c.q, 0)),
        ptr(c.edge_d, 0),
    )


@inner
def copy_edge(c: Records, at: int64, a: Records, e: int64) -> None:
    """Copies an edge to place `at`."""
    c.n[at], c.r[at], c.q[at], c.edge_d[at] = a.n[e], a.r[e], a.q[e], a.edge_d[e]


@inner
def put_empty(c: Records, at: int64) -> None:
    """Writes an edge without visits to place `at`."""
    c.n[at] = c.r[at] = uint32(0)
    c.q[at] = uint32(0)
    c.edge_d[at] = uint16(0)


@inner
def copy_evaluation(c: Records, k: int64, a: Records, i: int64) -> None:
    """Copies a record without its edges to place `k`."""
    for w in range(PW):
        c.words[PW * k + w] = a.words[PW * i + w]
    c.v[k], c.d[k], c.evaluator[k] = a.v[i], a.d[i], a.evaluator[i]
    c.run[k], c.flags[k] = a.run[i], a.flags[i]
    to = c.code_offsets[k]
    for j in range(a.code_offsets[i], a.code_offsets[i + 1]):
        c.codes[to] = a.codes[j]
        to += 1
    c.code_offsets[k + 1] = to


@inner
def copy_whole(c: Records, k: int64, a: Records, i: int64) -> None:
    """Copies a record to place `k`."""
    copy_evaluation(c, k, a, i)
    to = c.edge_offsets[k]
    for e in range(a.edge_offsets[i], a.edge_offsets[i + 1]):
        copy_edge(c, to, a, e)
        to += 1
    c.edge_offsets[k + 1] = to


@kernel
def gather(source: Columns, order: NDArray[np.int64], out: Columns) -> None:
    """Copies records `order` of `source` to `out`, which has room for them; fills its offsets, too."""
    a, c = pointers(source), pointers(out)
    for k in range(len(order)):
        copy_whole(c, int64(k), a, order[k])
