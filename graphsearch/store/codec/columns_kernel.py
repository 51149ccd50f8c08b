"""Records as columns for kernels: the arrays of a `RecordBatch`, and copies of records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.bundles import Bundle
from ...jit.compiler import inner, kernel
from ...jit.types import Items, float32, int64, uint8, uint16, uint32, uint64
from ...position.board_kernel import PW


class Columns(Bundle):
    """The arrays of a `RecordBatch`, words flat; a caller keeps them alive."""

    words: Items[uint64]
    v: Items[float32]
    d: Items[uint16]
    evaluator: Items[uint8]
    run: Items[uint32]
    flags: Items[uint8]
    code_offsets: Items[int64]
    codes: Items[uint8]
    edge_offsets: Items[int64]
    n: Items[uint32]
    r: Items[uint32]
    q: Items[float32]
    edge_d: Items[uint16]
    v_size: int64


@inner
def copy_edge(c: Columns, at: int64, a: Columns, e: int64) -> None:
    """Copies an edge to place `at`."""
    c.n[at], c.r[at], c.q[at], c.edge_d[at] = a.n[e], a.r[e], a.q[e], a.edge_d[e]


@inner
def put_empty(c: Columns, at: int64) -> None:
    """Writes an edge without visits to place `at`."""
    c.n[at] = c.r[at] = uint32(0)
    c.q[at] = float32(0.0)
    c.edge_d[at] = uint16(0)


@inner
def copy_evaluation(c: Columns, k: int64, a: Columns, i: int64) -> None:
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
def copy_whole(c: Columns, k: int64, a: Columns, i: int64) -> None:
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
    for k in range(len(order)):
        copy_whole(out, int64(k), source, order[k])
