"""Checks that records are sound: the position is legal, and the other fields fit it and each other.

`decoding_kernel.py` has checked that every number is in the range of its field. These kernels check a record
against chess and `schema/node_record.md`:

    position   castling rights and the en-passant square fit the men; the side that has moved is not in check
    kind       its terminal kind is that of the position: open, mate, stalemate or dead
    priors     it has one for each legal move, and no more edges than priors
    bounds     they are an interval; those of a finished game are its result
    V, edges   value and draws are a distribution; r <= n; without n - r visits there is no value
    evaluator  its number is one that a file can list

A fault is a number from ILLEGAL on; `bulk.fault_text` describes it in words.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...jit.compiler import inner, kernel
from ...jit.pointers import adv, ptr, zeros
from ...jit.types import Pointer, float32, int64, uint16, uint32
from ...position.board_kernel import PW, generate_moves
from ...position.rules_kernel import ROOM, is_legal, kind_of
from ...position.values import D_SCALE
from ...position.words import BoardTable, Position
from ..record.bounds_kernel import bounds_of, share_of
from ..record.node import MAX_EVALUATOR
from ..record.node_layout import BOUND_BITS, KIND_BITS, LOWER_SHIFT, UPPER_SHIFT
from .columns_kernel import Columns

SOUND, ILLEGAL, KIND, PRIORS, RESULT, INTERVAL, EVALUATOR, MORE_EDGES, VALUE, EDGE_VALUE = range(10)
EDGE_PROOF, EDGE_COUNTS, EDGE_EMPTY = range(EDGE_VALUE + 1, EDGE_VALUE + 4)

Fault: TypeAlias = tuple[int64, int64]  # its number, and the expected number or the index of the edge


@inner
def _fault_of_bounds(flags: int64, kind: int64) -> int64:
    """Returns RESULT if the bounds of a finished game are not its result, INTERVAL if others are none."""
    lower = ((flags >> LOWER_SHIFT) & BOUND_BITS) - 1
    upper = ((flags >> UPPER_SHIFT) & BOUND_BITS) - 1
    if kind:
        result = int64(-1) if kind == 1 else int64(0)
        return int64(SOUND) if lower == result and upper == result else int64(RESULT)
    return int64(SOUND) if lower <= upper and upper <= 1 else int64(INTERVAL)


@inner
def _is_value(q: float32, d: int64) -> bool:
    """Returns whether a value and its draw field are a distribution; d is rounded, by half a unit at most."""
    wide = abs(float(q))
    return wide <= 1.0 and float(share_of(q, d)) <= D_SCALE * (1.0 - wide) + 1.0


@inner
def _fault_of_edge(n: uint32, r: uint32, q: float32, d: int64) -> int64:
    """Returns the fault of the numbers of an edge."""
    lower, upper = bounds_of(q, d)
    if q < lower or q > upper:
        return int64(EDGE_PROOF)
    if not _is_value(q, d):
        return int64(EDGE_VALUE)
    if r > n:
        return int64(EDGE_COUNTS)
    return int64(EDGE_EMPTY) if n == r and (q != 0.0 or d != 0) else int64(SOUND)


@inner
def fault_in(T: BoardTable, s: Position, c: Columns, i: int64, out: Pointer[uint16]) -> Fault:
    """Returns the first fault of record `i`, of position `s`, SOUND if there is none."""
    if not is_legal(T, s):
        return int64(ILLEGAL), int64(0)
    moves = generate_moves(T, s, out)
    flags = int64(c.flags[i])
    kind = kind_of(T, s, moves)
    codes = c.code_offsets[i + 1] - c.code_offsets[i]
    begin, end = c.edge_offsets[i], c.edge_offsets[i + 1]
    if flags & KIND_BITS != kind:
        return int64(KIND), int64(kind)
    if codes != (int64(0) if kind else moves):
        return int64(PRIORS), int64(0 if kind else moves)
    fault = _fault_of_bounds(flags, kind)
    if fault != SOUND:
        return fault, int64(0)
    if int64(c.evaluator[i]) > MAX_EVALUATOR:
        return int64(EVALUATOR), int64(MAX_EVALUATOR)
    if end - begin > codes:
        return int64(MORE_EDGES), int64(codes)
    if not _is_value(c.v[i], int64(c.d[i])):
        return int64(VALUE), int64(0)
    for e in range(begin, end):
        fault = _fault_of_edge(c.n[e], c.r[e], c.q[e], int64(c.edge_d[e]))
        if fault != SOUND:
            return fault, int64(e - begin)
    return int64(SOUND), int64(0)


@kernel
def find_faults(
    T: NDArray[np.uint64], columns: Columns, places: NDArray[np.int64], faults: NDArray[np.int64]
) -> int64:
    """Fills the faults of records; returns the number of unsound ones.

    Args:
      T: the table of `position/tables.py`.
      columns: `Columns` of decoded records: one king a side, every number in the range of its field.
      places: int64, the records to check.
      faults: int64, two numbers for each of them, filled with the fault and what belongs to it.
    """
    moves = zeros(uint16, ROOM)
    found = int64(0)
    for k in range(len(places)):
        i = places[k]
        s = adv(columns.words, PW * i)
        faults[2 * k], faults[2 * k + 1] = fault_in(ptr(T, 0), s, columns, i, moves)
        found += int64(faults[2 * k] != SOUND)
    return found
