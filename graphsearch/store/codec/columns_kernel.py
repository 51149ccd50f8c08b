"""Loops over whole columns of records that Python is too slow for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import kernel
from ...jit.pointers import U, mulhi, ptr
from ...jit.types import int64, uint8
from ...position.board_kernel import PW
from ..index.locate_kernel import bloom_walk, sort_key
from .batch_kernel import Columns, pointers


@kernel
def gather(source: Columns, order: NDArray[np.int64], out: Columns) -> None:
    """Copies records `order` of `source` to `out`, whose arrays have the room; its offsets are filled too."""
    a = pointers(source)
    c = pointers(out)
    for k in range(len(order)):
        i = order[k]
        for w in range(PW):
            c.words[PW * k + w] = a.words[PW * i + w]
        c.v[k] = a.v[i]
        c.d[k] = a.d[i]
        c.evaluator[k] = a.evaluator[i]
        c.run[k] = a.run[i]
        c.flags[k] = a.flags[i]
        to = c.code_offsets[k]
        for j in range(a.code_offsets[i], a.code_offsets[i + 1]):
            c.codes[to] = a.codes[j]
            to += 1
        c.code_offsets[k + 1] = to
        to = c.edge_offsets[k]
        for e in range(a.edge_offsets[i], a.edge_offsets[i + 1]):
            c.n[to] = a.n[e]
            c.r[to] = a.r[e]
            c.q[to] = a.q[e]
            c.edge_d[to] = a.edge_d[e]
            to += 1
        c.edge_offsets[k + 1] = to


@kernel
def add_to_bloom(keys: NDArray[np.uint64], bloom: NDArray[np.uint8], hashes: int64) -> None:
    """Sets the bits of keys in a bloom filter (`index/layout.py` defines them)."""
    bits = U(len(bloom)) << U(3)
    for k in range(len(keys)):
        x, step = bloom_walk(keys[k])
        for _ in range(hashes):
            at = int64(mulhi(x, bits))
            bloom[at >> 3] |= uint8(1 << (at & 7))
            x += step


@kernel
def fill_sort_keys(words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
    """Fills the sort keys of positions, `[10 R]` uint64 flat."""
    for i in range(len(keys)):
        keys[i] = sort_key(ptr(words, PW * i))
