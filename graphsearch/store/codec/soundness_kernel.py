"""Checks that records are sound: the position is legal, and the other fields fit it and each other.

`decoding_kernel.py` has checked that every number is in the range of its field. These kernels check a record
against chess and the rules of `store.record.node.problems`:

    position   castling rights and the en-passant square fit the men; the side that has moved is not in check
    kind       its terminal kind is that of the position: open, mate, stalemate or dead
    priors     it has one for each legal move, and no more edges than priors
    bounds     they are an interval; those of a finished game are its result
    V, edges   value and draws are a distribution; r <= n; without n - r visits there is no value
    evaluator  its number is one that a file can list

`soundness.py` describes faults in words, and replaces this module where there is no compiler; tests compare
both.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import adv, ptr, zeros
from ...jit.types import Pointer, float32, int64, uint16
from ...position.board_kernel import PW, generate_moves
from ...position.legality_kernel import ROOM, is_legal, kind_of
from ...position.values import D_SCALE
from ...position.words import BoardTable, Position
from ..record.bounds_kernel import bounds_of, share_of
from ..record.node import MAX_EVALUATOR
from ..record.node_layout import BOUND_BITS, KIND_BITS, LOWER_SHIFT, UPPER_SHIFT
from .batch_kernel import Columns


@inner
def _has_bounds(flags: int64, kind: int64) -> bool:
    """Returns whether bounds are an interval; those of a finished game are its result."""
    lower = ((flags >> LOWER_SHIFT) & BOUND_BITS) - 1
    upper = ((flags >> UPPER_SHIFT) & BOUND_BITS) - 1
    if kind:
        result = int64(-1) if kind == 1 else int64(0)
        return lower == result and upper == result
    return lower <= upper and upper <= 1


@inner
def _is_value(q: float32, d: int64) -> bool:
    """Returns whether a value and its draw field are a distribution; d is rounded, by half a unit at most."""
    wide = abs(float(q))
    return wide <= 1.0 and float(share_of(q, d)) <= D_SCALE * (1.0 - wide) + 1.0


@inner
def _is_edge(n: int64, r: int64, q: float32, d: int64) -> bool:
    """Returns whether the numbers of an edge are consistent."""
    if r > n or not _is_value(q, d):
        return False
    lower, upper = bounds_of(q, d)
    if q < lower or q > upper:
        return False
    return n > r or (q == 0.0 and d == 0)


@inner
def _are_edges(c: Columns, begin: int64, end: int64) -> bool:
    for e in range(begin, end):
        if not _is_edge(int64(c.n[e]), int64(c.r[e]), c.q[e], int64(c.edge_d[e])):
            return False
    return True


@inner
def is_sound(T: BoardTable, s: Position, c: Columns, i: int64, out: Pointer[uint16]) -> bool:
    """Returns whether record `i`, of position `s`, is sound."""
    if not is_legal(T, s):
        return False
    moves = generate_moves(T, s, out)
    flags = int64(c.flags[i])
    kind = kind_of(T, s, moves)
    codes = c.code_offsets[i + 1] - c.code_offsets[i]
    begin, end = c.edge_offsets[i], c.edge_offsets[i + 1]
    if flags & KIND_BITS != kind or codes != (int64(0) if kind else moves) or end - begin > codes:
        return False
    if not _has_bounds(flags, kind) or int64(c.evaluator[i]) > MAX_EVALUATOR:
        return False
    return _is_value(c.v[i], int64(c.d[i])) and _are_edges(c, begin, end)


@kernel
def find_unsound(
    T: NDArray[np.uint64], columns: Columns, places: NDArray[np.int64], bad: NDArray[np.bool_]
) -> int64:
    """Marks the unsound records; returns their number.

    Args:
      T: the table of `position/tables.py`.
      columns: `Columns` of decoded records: one king a side, every number in the range of its field.
      places: int64, the records to check. bad: bool, filled for each of them.
    """
    moves = zeros(uint16, ROOM)
    found = int64(0)
    for k in range(len(places)):
        i = places[k]
        s = adv(ptr(columns.words, 0), PW * i)
        bad[k] = not is_sound(ptr(T, 0), s, columns, i, moves)
        found += int64(bad[k])
    return found
