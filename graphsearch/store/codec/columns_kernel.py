"""Loops over whole columns of records that Python is too slow for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import U, mulhi, ptr
from ...jit.types import Pointer, int64, uint8, uint16, uint32, uint64
from ...position.board_kernel import PW
from ..index.bloom import HASHES
from ..index.locate_kernel import bloom_walk, meta_of_identity, sort_key
from .batch_kernel import Columns, Records, pointers


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


@kernel
def add_to_bloom(keys: NDArray[np.uint64], bloom: NDArray[np.uint8]) -> None:
    """Sets the bits of keys in a bloom filter."""
    bits = U(len(bloom)) << U(3)
    for k in range(len(keys)):
        x, step = bloom_walk(keys[k])
        for _ in range(HASHES):
            at = int64(mulhi(x, bits))
            bloom[at >> 3] |= uint8(1 << (at & 7))
            x += step


@kernel
def fill_sort_keys(words: NDArray[np.uint64], keys: NDArray[np.uint64]) -> None:
    """Fills the sort keys of positions, `[10 R]` uint64 flat."""
    for i in range(len(keys)):
        keys[i] = sort_key(ptr(words, PW * i))


@inner
def compared(a: Pointer[uint64], b: Pointer[uint64]) -> int64:
    """Returns -1, 0 or 1: the order in a segment of two positions with the same sort key."""
    for w in range(8):
        if a[w] != b[w]:
            return int64(-1) if a[w] < b[w] else int64(1)
    x, y = meta_of_identity(a), meta_of_identity(b)
    return int64(0) if x == y else int64(-1) if x < y else int64(1)


@kernel
def settle_ties(words: NDArray[np.uint64], keys: NDArray[np.uint64], places: NDArray[np.int64]) -> int64:
    """Puts records with the same sort key in order and drops all but the first of each position.

    Args:
      words: `[10 R]` uint64 flat. keys: `[R]` their sort keys.
      places: int64, the records sorted by key, equal keys in their original order; overwritten.

    Returns:
      the number of places kept, at the front.
    """
    kept, first = int64(0), int64(0)  # `first`: where the records of this key begin among those kept
    for k in range(len(places)):
        i = places[k]
        if kept and keys[places[kept - 1]] != keys[i]:
            first = kept
        at, is_new = kept, True
        while at > first:
            how = compared(ptr(words, PW * places[at - 1]), ptr(words, PW * i))
            if how <= 0:
                is_new = how < 0
                break
            at -= 1
        if is_new:
            for j in range(kept, at, -1):
                places[j] = places[j - 1]
            places[at] = i
            kept += 1
    return kept


@kernel
def pair(
    old: NDArray[np.uint64],
    old_keys: NDArray[np.uint64],
    new: NDArray[np.uint64],
    new_keys: NDArray[np.uint64],
    places: NDArray[np.int64],
) -> int64:
    """Fills the record of `old` with the position of each of `new`, or -1; returns the number found.

    Args:
      old, new: words, `[10 R]` uint64 flat, in the order of a segment, without duplicates.
      old_keys, new_keys: their sort keys.
      places: int64, one for each of `new`.
    """
    at, found = int64(0), int64(0)
    for i in range(len(new_keys)):
        places[i] = -1
        while at < len(old_keys) and old_keys[at] <= new_keys[i]:
            if old_keys[at] == new_keys[i]:
                how = compared(ptr(old, PW * at), ptr(new, PW * i))
                if how == 0:
                    places[i] = at
                    found += 1
                if how >= 0:
                    break
            at += 1
    return found
