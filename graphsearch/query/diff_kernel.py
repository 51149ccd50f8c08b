"""Values and best moves of many records at once; `store/record/ranking.py` has the same rules in Python."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..graph.arena_kernel import rank_codes, ranked_move
from ..graph.sweeps.sweep_kernel import mean_of
from ..jit.compiler import inner, kernel
from ..jit.pointers import adv, as_f32, ptr
from ..jit.types import Pointer, float32, float64, int64, uint16
from ..position.board import CLOCK_DRAW
from ..position.board_kernel import PW, clock_of, generate_moves
from ..position.legality_kernel import ROOM
from ..position.words import BoardTable, Position
from ..store.codec.batch_kernel import Columns, Records, pointers
from ..store.codec.leading_kernel import UNPROVEN, edge_value, leads_of
from ..store.record.bounds_kernel import (
    DRAWN,
    MOST_MATE,
    bounds_of,
    plies_of,
    resets_clock,
    share_of,
)
from ..store.record.node_kernel import lower_in, upper_in

MOST_MOVES = 256


@inner
def _resets(
    T: BoardTable, s: Position, c: Records, i: int64, k: int64, moves: Pointer[uint16], keys: Pointer[int64]
) -> bool:
    """Returns whether the move of edge `k` of record `i` resets the clock."""
    first = c.code_offsets[i]
    count = c.code_offsets[i + 1] - first
    if generate_moves(T, s, moves) != count:
        return False
    rank_codes(adv(c.codes, first), count, k + 1, keys)
    return resets_clock(s, moves[ranked_move(keys[k])])


@inner
def _result(
    T: BoardTable, s: Position, c: Records, i: int64, k: int64, moves: Pointer[uint16], keys: Pointer[int64]
) -> int64:
    """Returns the proven result of edge `k` at the clock of its record; UNPROVEN if there is none."""
    e = c.edge_offsets[i] + k
    if c.n[e] == c.r[e]:
        return UNPROVEN
    q, d = as_f32(c.q)[e], int64(c.edge_d[e])
    low, high = bounds_of(q, d)
    if low != high:
        return UNPROVEN
    clock = int64(clock_of(s))
    if low == 0 or clock + plies_of(d) <= CLOCK_DRAW:
        return low
    late = d <= CLOCK_DRAW and clock < CLOCK_DRAW and _resets(T, s, c, i, k, moves, keys)
    return low if late else UNPROVEN


@inner
def _place(
    k: int64,
    result: int64,
    n: int64,
    value: float64,
    d: int64,
    longest: int64,
    leads: tuple[bool, bool, int64],
) -> tuple[int64, int64, int64, float64]:
    """Returns the ranking key of edge k, least first: group, length, -n, -value. `leads`: by `leads_of`."""
    draws_lead, wins_lead, leader = leads
    if result == 1:
        return int64(0), d, -n, 0.0
    if result == -1:
        first = longest > 0 and d <= MOST_MATE and d == longest
        return int64(0) if first else int64(3), -d, -n, 0.0
    if wins_lead and n and value == 1.0:
        return int64(1), int64(0), -n, 0.0
    group = int64(1) if result == 0 and draws_lead else int64(2)
    return group, int64(k != leader), -n, 0.0 - value


@inner
def _best_edge(
    T: BoardTable,
    s: Position,
    c: Records,
    i: int64,
    longest: int64,
    results: Pointer[int64],
    moves: Pointer[uint16],
    keys: Pointer[int64],
) -> int64:
    """Returns the edge that ranks first, as an index in descending P."""
    begin = c.edge_offsets[i]
    edges = c.edge_offsets[i + 1] - begin
    for k in range(edges):
        results[k] = _result(T, s, c, i, int64(k), moves, keys)
    leads = leads_of(c, i, results)
    best = int64(edges)  # the first that was not visited, if there is one
    first = (int64(2), int64(1), int64(0), 0.0)
    if edges == c.code_offsets[i + 1] - c.code_offsets[i]:
        first = (int64(4), int64(0), int64(0), 0.0)
    for k in range(edges - 1, -1, -1):
        e = begin + k
        here = _place(
            int64(k), results[k], int64(c.n[e]), edge_value(c, e), int64(c.edge_d[e]), longest, leads
        )
        if here <= first:
            best, first = int64(k), here
    return best


@inner
def _move_at(c: Records, i: int64, k: int64, keys: Pointer[int64]) -> int64:
    """Returns the index in canonical order of the move that is k-th in descending P."""
    first = c.code_offsets[i]
    rank_codes(adv(c.codes, first), c.code_offsets[i + 1] - first, k + 1, keys)
    return ranked_move(keys[k])


@inner
def _share(flags: int64, code: int64, q: float32) -> int64:
    """Returns the draw share per mille of a node by its code."""
    if lower_in(flags) == upper_in(flags) and lower_in(flags) != 0:
        return int64(0)
    return share_of(0.0 if code >= DRAWN else q, code)


@inner
def _are_alike(a: Records, i: int64, b: Records, j: int64) -> bool:
    edges = a.edge_offsets[i + 1] - a.edge_offsets[i]
    if edges != b.edge_offsets[j + 1] - b.edge_offsets[j] or a.flags[i] != b.flags[j]:
        return False
    if a.v[i] != b.v[j] or a.d[i] != b.d[j]:
        return False
    e, f = a.edge_offsets[i], b.edge_offsets[j]
    for k in range(edges):
        if a.n[e + k] != b.n[f + k] or a.r[e + k] != b.r[f + k]:
            return False
        if a.q[e + k] != b.q[f + k] or a.edge_d[e + k] != b.edge_d[f + k]:
            return False
    first, other = a.code_offsets[i], b.code_offsets[j]
    for k in range(a.code_offsets[i + 1] - first):
        if a.codes[first + k] != b.codes[other + k]:
            return False
    return True


@kernel
def worth(
    T: NDArray[np.uint64],
    columns: Columns,
    visits: NDArray[np.int64],
    q: NDArray[np.float32],
    draws: NDArray[np.int64],
    bounds: NDArray[np.int64],
    best: NDArray[np.int64],
) -> int64:
    """Fills the values of records; returns the number of records.

    Args:
      T: the table of `position/tables.py`. columns: a batch of sound records, as `Columns`.
      visits: int64, node N. q: float32, node Q. draws: int64, draw share per mille.
      bounds: int64, `lower * 4 + upper`. best: int64, the best move's index in canonical order, -1 if none is
        known (no visits).
    """
    c = pointers(columns)
    Tp = ptr(T, 0)
    moves, keys = np.zeros(ROOM, np.uint16), np.zeros(MOST_MOVES, np.int64)
    results = np.zeros(MOST_MOVES, np.int64)
    for i in range(len(visits)):
        begin = c.edge_offsets[i]
        s = adv(c.words, PW * i)
        value, code, count, flags = mean_of(c, int64(i), adv(as_f32(c.q), begin), adv(c.edge_d, begin))
        visits[i], q[i], draws[i] = count, value, _share(flags, code, value)
        bounds[i] = lower_in(flags) * 4 + upper_in(flags)
        best[i] = -1
        if count > 1:
            lost = upper_in(flags) == -1 and code <= MOST_MATE
            k = _best_edge(
                Tp,
                s,
                c,
                int64(i),
                code - 1 if lost else int64(0),
                ptr(results, 0),
                ptr(moves, 0),
                ptr(keys, 0),
            )
            best[i] = _move_at(c, int64(i), k, ptr(keys, 0))
        elif c.code_offsets[i + 1] > c.code_offsets[i] and as_f32(c.v)[i] == 1.0 and c.d[i] == 1:
            best[i] = _move_at(c, int64(i), int64(0), ptr(keys, 0))
    return len(visits) + int64((moves[0] & 0) + (keys[0] & 0) + (results[0] & 0))


@kernel
def find_same(old: Columns, new: Columns, places: NDArray[np.int64], same: NDArray[np.bool_]) -> None:
    """Marks the records of `new` that equal their partner of `old` in every number.

    Ignores runs, evaluators and clocks. `places`: from `store.codec.columns_kernel.pair`.
    """
    a, b = pointers(old), pointers(new)
    for j in range(len(places)):
        i = places[j]
        same[j] = i >= 0 and _are_alike(a, i, b, int64(j))
