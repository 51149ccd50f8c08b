"""Computes values and ranks of positions and moves in batches, as `store/record/ranking.py` does in Python.

record i of a batch   edges edge_offsets[i] .. edge_offsets[i + 1], in descending P: edge k, of move order[k]
rank                  edges in the order of `ranking`: group, length, -n, -value, k; least first
move                  place in canonical order, and its edge k, -1 if it was never visited

Every sum runs in the same order as in Python, so all numbers are equal to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..graph.arena_kernel import rank_codes, ranked_move
from ..jit.compiler import inner, kernel
from ..jit.pointers import U, adv, as_f32, ptr
from ..jit.types import Pointer, float64, int16, int64, uint8, uint16
from ..position.board import CLOCK_DRAW, CLOCK_END
from ..position.board_kernel import PW, clock_of, generate_moves
from ..position.legality_kernel import ROOM
from ..position.mates_kernel import mate_in_one
from ..store.codec.batch_kernel import Columns, Records, pointers
from ..store.codec.leading_kernel import UNPROVEN, edge_value, leads_of
from ..store.record.bounds_kernel import MOST_MATE, bounds_of, plies_of, share_of
from ..store.record.node_kernel import lower_in, upper_in

Words: TypeAlias = NDArray[np.uint64]
Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

MOST_MOVES = 256
THOUSAND = 1000.0
NO_MATE = -1  # of a proof: the length of its mate is unknown
WIN, EVEN, OPEN, LOST = 0, 1, 2, 3  # groups of the ranking
NO_NOTE, WON, DRAWN_NOTE, LOST_NOTE = 0, 1, 2, 3  # notes: the proven result at a clock


class Rank(NamedTuple):
    """Scratch arrays for ranking one record's edges, `[MOST_MOVES]` each."""

    order: Pointer[int64]  # edges, best first
    result: Pointer[int64]  # of each edge, at the clock of the path
    group: Pointer[int64]
    length: Pointer[int64]
    worth: Pointer[float64]


class Listed(NamedTuple):
    """Moves of records: the chosen ones, best first, then those never visited in descending P."""

    of: NDArray[np.int64]  # [M], the record
    edge: NDArray[np.int64]  # [M], index in the batch; -1 without one
    place: NDArray[np.int16]  # [M], place in canonical order
    code: NDArray[np.uint16]  # [M], the move


class ListedPointers(NamedTuple):
    """Pointers to the arrays of `Listed`."""

    of: Pointer[int64]
    edge: Pointer[int64]
    place: Pointer[int16]
    code: Pointer[uint16]


@inner
def _draws(c: Records, e: int64) -> float64:
    """Returns the draw probability of all visits of an edge, as `Edge.draws`."""
    n, r = int64(c.n[e]), int64(c.r[e])
    if n == 0:
        return 0.0
    share = (n - r) * share_of(as_f32(c.q)[e], int64(c.edge_d[e])) + r * 1000
    return float64(share) / float64(n) / THOUSAND


@inner
def _edge_bounds(c: Records, e: int64) -> tuple[int64, int64]:
    if c.n[e] == c.r[e]:
        return int64(-1), int64(1)
    return bounds_of(as_f32(c.q)[e], int64(c.edge_d[e]))


@inner
def _bounds(c: Records, i: int64) -> tuple[int64, int64]:
    """Returns the bounds of a record, as `NodeRecord.bounds`."""
    lower, upper = int64(lower_in(int64(c.flags[i]))), int64(upper_in(int64(c.flags[i])))
    begin, end = c.edge_offsets[i], c.edge_offsets[i + 1]
    if begin == end:
        return lower, upper
    low, high = int64(-1), int64(-1)
    for e in range(begin, end):
        one, other = _edge_bounds(c, e)
        low, high = max(low, one), max(high, other)
    if end - begin != c.code_offsets[i + 1] - c.code_offsets[i]:
        high = int64(1)
    low, high = max(lower, low), min(upper, high)
    if low > high:
        return lower, upper
    return low, high


@inner
def _proof(c: Records, i: int64, lower: int64, upper: int64, clock: int64) -> tuple[int64, int64]:
    """Returns (mate, plies) of a record with a proven result, as `store.record.bounds.node_proof`."""
    if lower == 0:
        return int64(NO_MATE), int64(0)
    v = float64(as_f32(c.v)[i])
    known = int64(c.d[i]) if abs(v) == 1.0 else int64(0)
    begin, end = c.edge_offsets[i], c.edge_offsets[i + 1]
    moves = c.code_offsets[i + 1] - c.code_offsets[i]
    least, most, lost, count = int64(1 << 20), int64(0), int64(0), int64(0)
    for e in range(begin, end):
        low, high = _edge_bounds(c, e)
        if low == lower and high == upper:
            d = int64(c.edge_d[e])
            least, most, count = min(least, d), max(most, d), count + 1
            lost = max(lost, int64(plies_of(d)))
    if lower > 0 and known:
        least, count = min(least, known), count + 1
    if lower > 0 and count:
        return (least, least) if least <= MOST_MATE else (int64(NO_MATE), least - MOST_MATE)
    if lower < 0 and count and count == moves:
        if most <= MOST_MATE:
            mate = min(most, known if known else int64(MOST_MATE))
            return mate, mate
        return int64(NO_MATE), lost
    if known or moves == 0:
        return known, known
    return int64(NO_MATE), int64(CLOCK_DRAW) - clock


@inner
def _result(c: Records, e: int64, clock: int64) -> int64:
    """Returns an edge's proven result at a clock, as `store.record.ranking.proof_at`; UNPROVEN if none."""
    low, high = _edge_bounds(c, e)
    if low != high:
        return UNPROVEN
    if low != 0 and clock + plies_of(int64(c.edge_d[e])) > CLOCK_DRAW:
        return UNPROVEN
    return low


@inner
def _classify(c: Records, i: int64, clock: int64, longest: int64, x: Rank) -> None:
    """Fills group, length and worth of a record's edges: their sort keys."""
    begin, end = c.edge_offsets[i], c.edge_offsets[i + 1]
    for e in range(begin, end):
        x.result[e - begin] = _result(c, e, clock)
    draws_lead, wins_lead, leader = leads_of(c, i, x.result)
    for e in range(begin, end):
        k = e - begin
        result, d, value = x.result[k], int64(c.edge_d[e]), edge_value(c, e)
        x.length[k], x.worth[k] = int64(0), 0.0
        if result == 1:
            x.group[k], x.length[k] = int64(WIN), d
        elif result == -1:
            stays = longest > 0 and d <= MOST_MATE and d == longest
            x.group[k], x.length[k] = int64(WIN) if stays else int64(LOST), -d
        elif wins_lead and c.n[e] and value == 1.0:
            x.group[k] = int64(EVEN)
        else:
            x.group[k] = int64(EVEN) if result == 0 and draws_lead else int64(OPEN)
            x.length[k], x.worth[k] = int64(k != leader), 0.0 - value


@inner
def _comes_before(c: Records, begin: int64, x: Rank, a: int64, b: int64) -> bool:
    if x.group[a] != x.group[b]:
        return x.group[a] < x.group[b]
    if x.length[a] != x.length[b]:
        return x.length[a] < x.length[b]
    if c.n[begin + a] != c.n[begin + b]:
        return c.n[begin + a] > c.n[begin + b]
    if x.worth[a] != x.worth[b]:
        return x.worth[a] < x.worth[b]
    return a < b


@inner
def _rank(c: Records, i: int64, clock: int64, own_clock: int64, x: Rank) -> int64:
    """Fills `x.order` with a record's edges, best first; returns their number.

    `clock`: of the path. `own_clock`: of the record's evaluation.
    """
    begin, end = c.edge_offsets[i], c.edge_offsets[i + 1]
    lower, upper = _bounds(c, i)
    longest = int64(0)
    if lower == -1 and upper == -1:
        longest = _proof(c, i, lower, upper, own_clock)[0]
    _classify(c, i, clock, longest, x)
    for k in range(end - begin):
        place = int64(k)
        while place > 0 and _comes_before(c, begin, x, int64(k), x.order[place - 1]):
            x.order[place] = x.order[place - 1]
            place -= 1
        x.order[place] = int64(k)
    return end - begin


@inner
def _list(L: ListedPointers, at: int64, i: int64, e: int64, index: int64, moves: Pointer[uint16]) -> int64:
    L.of[at], L.edge[at], L.place[at], L.code[at] = int64(i), e, int16(index), moves[index]
    return at + 1


@kernel
def list_choices(
    T: Words, columns: Columns, clocks: Ints, most: Ints, limits: Ints, out: Listed, taken: Ints, counts: Ints
) -> int64:
    """Lists moves of records, best first in the order of `ranking`; returns their number.

    Args:
      T: the table of `position/tables.py`. columns: sound records, as `Columns`, at the clocks of the paths.
      clocks: `[R]` int64, of the evaluations.
      most: `[R]` int64, maximum number of visited moves per record, best first; negative: all.
      limits: int64[2]: the minimum visits of a listed move; then whether unvisited moves follow: 0 never,
        1 in all records, 2 in records that `most` does not limit.
      out: `Listed`, filled; has room for the moves of all records.
      taken: `[R]` int64, filled: number of chosen moves per record.
      counts: int64[2], incremented by the moves with too few visits, and by the moves beyond `most`.
    """
    Tp, c = ptr(T, 0), pointers(columns)
    L = ListedPointers(ptr(out.of, 0), ptr(out.edge, 0), ptr(out.place, 0), ptr(out.code, 0))
    order, result = np.zeros(MOST_MOVES, np.int64), np.zeros(MOST_MOVES, np.int64)
    group = np.zeros(MOST_MOVES, np.int64)
    length, worth = np.zeros(MOST_MOVES, np.int64), np.zeros(MOST_MOVES, np.float64)
    moves, keys = np.zeros(ROOM, np.uint16), np.zeros(MOST_MOVES, np.int64)
    x = Rank(ptr(order, 0), ptr(result, 0), ptr(group, 0), ptr(length, 0), ptr(worth, 0))
    m, K = ptr(moves, 0), ptr(keys, 0)
    at = int64(0)
    for i in range(len(clocks)):
        taken[i] = 0
        edges = c.edge_offsets[i + 1] - c.edge_offsets[i]
        count = c.code_offsets[i + 1] - c.code_offsets[i]
        rest = limits[1] == 1 or (limits[1] == 2 and most[i] < 0)
        if count == 0 or (edges == 0 and not rest):
            continue
        s = adv(c.words, PW * i)
        generate_moves(Tp, s, m)
        rank_codes(adv(c.codes, c.code_offsets[i]), count, count if rest else edges, K)
        begin = c.edge_offsets[i]
        _rank(c, int64(i), clock_of(s), clocks[i], x)
        for place in range(edges):
            k = x.order[place]
            n = int64(c.n[begin + k])
            if n == 0:
                continue
            if n < limits[0]:
                counts[0] += 1
            elif 0 <= most[i] <= taken[i]:
                counts[1] += 1
            else:
                at = _list(L, at, int64(i), begin + k, ranked_move(K[k]), m)
                taken[i] += 1
        for k in range(count if rest else int64(0)):
            if k >= edges or c.n[begin + k] == 0:
                at = _list(L, at, int64(i), int64(-1), ranked_move(K[k]), m)
    return (
        at
        + int64((order[0] + result[0] + group[0] + length[0] + keys[0] + moves[0]) & 0)
        + int64(worth[0] * 0.0)
    )


@inner
def _mean(c: Records, i: int64, lower: int64, upper: int64) -> tuple[float64, float64]:
    """Returns Q and the draw probability of a record, as `store.record.ranking.node_mean`."""
    total, drawn, visits = float64(as_f32(c.v)[i]), 0.0, int64(1)
    for e in range(c.edge_offsets[i], c.edge_offsets[i + 1]):
        n = int64(c.n[e])
        total += float64(n - int64(c.r[e])) * float64(as_f32(c.q)[e])
        drawn += float64(n) * _draws(c, e)
        visits += n
    q = total / float64(visits)
    if float64(lower) > q:
        q = float64(lower)
    if float64(upper) < q:
        q = float64(upper)
    if lower == upper:
        return q, 1.0 - abs(q)
    own = float64(share_of(as_f32(c.v)[i], int64(c.d[i]))) / THOUSAND
    return q, (own + drawn) / float64(visits)


@inner
def _note(lower: int64, upper: int64) -> int64:
    if lower != upper:
        return int64(NO_NOTE)
    return int64(WON) if lower == 1 else int64(DRAWN_NOTE) if lower == 0 else int64(LOST_NOTE)


@kernel
def describe(
    T: Words, columns: Columns, clocks: Ints, q: Floats, draw: Floats, bounds: Ints, mates: Ints, notes: Ints
) -> int64:
    """Fills the values, bounds, mates and proven results of records' positions.

    Args:
      T, columns, clocks: as for `list_choices`.
      q, draw: `[R]` float64, as `node_mean`. bounds: `[2 R]` int64, proven at the clock of the evaluation.
      mates: `[R]` int64, plies to a proven mate, negative if the side to move is mated, 1 where a move mates;
        0 without one. notes: `[R]` int64, the proven result at the clock of the path: NO_NOTE to LOST_NOTE.
        If `mates` is empty, neither is filled.
    """
    Tp, c = ptr(T, 0), pointers(columns)
    moves, replies, child = np.zeros(ROOM, np.uint16), np.zeros(ROOM, np.uint16), np.zeros(PW, np.uint64)
    for i in range(len(clocks)):
        lower, upper = _bounds(c, int64(i))
        q[i], draw[i] = _mean(c, int64(i), lower, upper)
        bounds[2 * i], bounds[2 * i + 1] = lower, upper
        if len(mates) == 0:
            continue
        s = adv(c.words, PW * i)
        mates[i] = int64(0)
        if lower == upper:
            mate, plies = _proof(c, int64(i), lower, upper, clocks[i])
            holds = lower == 0 or clock_of(s) + plies <= CLOCK_DRAW
            if holds and mate > 0:
                mates[i] = lower * mate
            if not holds:
                lower, upper = min(lower, int64(0)), max(upper, int64(0))
        notes[i] = _note(lower, upper)
        if c.code_offsets[i + 1] > c.code_offsets[i] and clock_of(s) < CLOCK_END:
            n = generate_moves(Tp, s, ptr(moves, 0))
            if mate_in_one(Tp, s, ptr(moves, 0), n, ptr(child, 0), ptr(replies, 0)) >= 0:
                mates[i] = int64(1)
    return int64((child[0] & U(0)) + U((moves[0] + replies[0]) & 0))


@kernel
def value_edges(columns: Columns, q: Floats, draw: Floats, mates: Ints, mated: NDArray[np.uint8]) -> None:
    """Fills the values and mates of records' edges, at the clocks of the paths.

    Args:
      columns: as for `list_choices`.
      q, draw: `[E]` float64, as `Edge.value` and `Edge.draws`.
      mates: `[E]` int64, moves to a proven mate. mated: `[E]` uint8, 1 where one is proven.
    """
    c = pointers(columns)
    for i in range(columns.v.size):
        clock = clock_of(adv(c.words, PW * i))
        for e in range(c.edge_offsets[i], c.edge_offsets[i + 1]):
            q[e], draw[e] = edge_value(c, e), _draws(c, e)
            result, d = _result(c, e, clock), int64(c.edge_d[e])
            has = (result == 1 or result == -1) and d <= MOST_MATE
            mated[e] = uint8(1 if has else 0)
            mates[e] = int64(0)
            if has:
                mates[e] = (d + 1) // 2 if result == 1 else -(d // 2)


@kernel
def best_moves(T: Words, columns: Columns, best: Ints, codes: NDArray[np.uint16]) -> int64:
    """Fills the best of all moves of each record, at the clock of its evaluation.

    Args:
      T, columns: as for `list_choices`.
      best: `[R]` int64, place in canonical order; -1 if unknown (`has_best_move`). codes: `[R]` uint16, the
        moves.
    """
    Tp, c = ptr(T, 0), pointers(columns)
    order, result = np.zeros(MOST_MOVES, np.int64), np.zeros(MOST_MOVES, np.int64)
    group = np.zeros(MOST_MOVES, np.int64)
    length, worth = np.zeros(MOST_MOVES, np.int64), np.zeros(MOST_MOVES, np.float64)
    moves, keys = np.zeros(ROOM, np.uint16), np.zeros(MOST_MOVES, np.int64)
    x = Rank(ptr(order, 0), ptr(result, 0), ptr(group, 0), ptr(length, 0), ptr(worth, 0))
    m, K = ptr(moves, 0), ptr(keys, 0)
    for i in range(len(best)):
        best[i], codes[i] = int64(-1), uint16(0)
        begin, end = c.edge_offsets[i], c.edge_offsets[i + 1]
        count = c.code_offsets[i + 1] - c.code_offsets[i]
        visited = False
        for e in range(begin, end):
            visited |= c.n[e] > 0
        if count == 0 or not (visited or (as_f32(c.v)[i] == 1.0 and c.d[i] == 1)):
            continue
        s = adv(c.words, PW * i)
        k = int64(0)
        if end > begin:
            _rank(c, int64(i), clock_of(s), clock_of(s), x)
            k = x.order[0]
            if x.group[k] == LOST and end - begin < count:
                k = end - begin
        generate_moves(Tp, s, m)
        rank_codes(adv(c.codes, c.code_offsets[i]), count, k + 1, K)
        best[i] = ranked_move(K[k])
        codes[i] = m[best[i]]
    return int64((order[0] + result[0] + group[0] + length[0] + keys[0] + moves[0]) & 0) + int64(
        worth[0] * 0.0
    )
