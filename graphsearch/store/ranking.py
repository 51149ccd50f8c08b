"""Ranks the moves of a record, with those that were searched apart; computes its mean value and visits.

The leading one of the unproven moves is the most visited one at first, later it is chosen by value.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import chain, repeat
from operator import add

import chess
import numpy as np
from numpy.typing import NDArray

from ..position.board import CLOCK_DRAW, clock_of_words, legal_moves
from ..position.values import negate
from .record import Edge, NodeRecord, RecordBatch
from .record_kernel import AS_GOOD_AS_WON, MOST_MATE, Proof

LOST = 3  # the class of the moves ranked last
# From so many visits of a position on, its leading move is chosen by value, among the moves with at least one
# visit for so many of the most visited move: the value less so much over the root of the move's visits.
LED_BY_VALUE_FROM, MOST_TIMES_FEWER, CAUTION = 10_000, 20, 4.0


def known_edges(record: NodeRecord) -> tuple[Edge, ...]:
    """Returns the edges that people see: with moves searched apart, and with a mate known without a visit."""
    edges = record.known or record.edges
    mates = record.v == 1.0 and record.d == 1 and not (edges and edges[0].n)
    return (Edge(0, q=1.0, d=1), *edges[1:]) if mates else edges


def known_leader(record: NodeRecord, open_edges: Sequence[int]) -> int | None:
    """Returns which of the unproven edges leads, as `leader_of`; a move searched apart does if it is better.

    Such a move competes by its value with the move that leads without it, credited with no more visits.
    """
    edges = record.edges
    leader, known = leader_of(record, [k for k in open_edges if k < len(edges)]), record.known
    if not known:
        return leader
    apart = {k for k in open_edges if known[k].apart}
    most = edges[leader].n if leader is not None else 0
    other = leader_of(record, [k for k in open_edges if k < len(edges) and k not in apart])
    rivals = [k for k in (leader, other) if k is not None]
    rivals += sorted(k for k in apart if known[k].n * MOST_TIMES_FEWER >= most)
    rivals = [k for k in rivals if known[k].n]
    if not rivals:
        return leader
    cap = most or max(known[k].n for k in rivals)
    return max(rivals, key=lambda k: cautious_value(known[k].value, min(known[k].n, cap)))


def cautious_value(value: float, visits: float) -> float:
    """Returns the value of a move less its uncertainty; `visits`: above 0, of the move."""
    return value - CAUTION / math.sqrt(visits)


def leader_of(record: NodeRecord, open_edges: Iterable[int]) -> int | None:
    """Returns which of the unproven edges leads: the most visited one, later the one of the best value.

    After LED_BY_VALUE_FROM visits of the position, the move of the highest `value - CAUTION / sqrt(n)` finds
    better moves than the most visited one, before that it does not (docs/contributing/benchmarks.md).
    """
    edges, places = record.edges, list(open_edges)
    most = max(places, key=lambda k: (edges[k].n, edges[k].value), default=None)
    if most is None or not edges[most].n or record.visits < LED_BY_VALUE_FROM:
        return most
    trusted = [most, *(k for k in places if edges[k].n * MOST_TIMES_FEWER >= edges[most].n)]
    return max(trusted, key=lambda k: cautious_value(edges[k].value, edges[k].n))


def edge_of(record: NodeRecord, k: int) -> Edge:
    """Returns the known edge that is k-th in descending P, without visits if it has none."""
    edges = known_edges(record)
    return edges[k] if k < len(edges) else Edge(0)


def ranking(record: NodeRecord, clock: int | None = None, resets: Sequence[bool] = ()) -> list[int]:
    """Returns the edges, as places in descending P, best first.

    Of the known edges proven wins come first (the shortest first), then the leading move (`known_leader`),
    then the others by visits, value and P, and last proven losses (the longest first). Proven draws come
    before the unproven moves if the leading one is worth less. So do moves of value 1, which are tablebase
    wins, unless the leading move is as good as won: evaluators round to 1, too. If the position is mated in a
    known number of plies, the moves that last this long come first.

    Args:
      clock: the halfmove clock of the path; default: the clock at which the record was evaluated.
      resets: whether each move resets the clock, in the order of the edges; default: none does.
    """
    edges = known_edges(record)
    at = clock_of_words(record.words) if clock is None else clock
    zeroing = chain(resets, repeat(False))
    proofs = [proof_at(edge, at, resets=reset) for edge, reset in zip(edges, zeroing, strict=False)]
    leader = known_leader(record, [k for k, proof in enumerate(proofs) if proof is None])
    best = Edge(0) if leader is None else edges[leader]
    draws_lead = best.n == 0 or best.value < 0
    wins_lead = best.value < AS_GOOD_AS_WON
    own = record.proof if any(proofs) else None
    longest = own.mate if own and own.result < 0 else None

    def worth(k: int) -> tuple[int, int, int, float, int]:
        edge, proof = edges[k], proofs[k]
        if proof and proof.result > 0:
            return 0, proof.mate or proof.plies + MOST_MATE, -edge.n, 0.0, k
        if proof and proof.result < 0:
            group = 0 if longest and proof.mate == longest else LOST
            return group, -(proof.mate or proof.plies + MOST_MATE), -edge.n, 0.0, k
        if wins_lead and edge.n and edge.value == 1.0:  # large waves give it few visits
            return 1, 0, -edge.n, 0.0, k
        return 1 if proof and draws_lead else 2, int(k != leader), -edge.n, negate(edge.value), k

    ranked = sorted(range(len(edges)), key=worth)
    lost = bisect_left(ranked, LOST, key=lambda k: worth(k)[0])
    return [*ranked[:lost], *range(len(edges), len(record.codes)), *ranked[lost:]]


def has_best_move(record: NodeRecord) -> bool:
    """Returns whether a move of a position is known to be its best: by visits, or because it mates."""
    return record.visits > 1 or bool(known_edges(record))


def resets_of(record: NodeRecord, board: chess.Board, moves: Sequence[chess.Move]) -> list[bool]:
    """Returns whether the move of each edge resets the clock."""
    known = known_edges(record)
    edges = zip(record.order, known, strict=False) if known else ()
    return [board.is_zeroing(moves[index]) for index, _ in edges]


def proof_at(edge: Edge, clock: int, *, resets: bool) -> Proof | None:
    """Returns the proof of a move at a clock; a move that resets the clock leaves a hundred plies."""
    proof = edge.proof
    if proof is None or proof.result == 0:
        return proof
    if clock >= CLOCK_DRAW:
        return None
    late = resets and proof.mate is not None and proof.mate <= CLOCK_DRAW
    return proof if late or proof.holds_at(clock) else None


def node_mean(record: NodeRecord) -> tuple[float, float]:
    """Returns (Q, D) of a node; Q = clamp(L, H, (V + sum n E) / N) in double precision, D in [0, 1]."""
    lower, upper = record.bounds
    # in stored order; `sum` compensates from Python 3.12 on
    total = reduce(add, ((e.n - e.r) * e.q for e in record.edges), record.v)
    q = min(max(float(total / record.visits), lower), upper)
    if lower == upper:
        return float(q), 1.0 - abs(q)
    drawn = reduce(add, (e.n * e.draws for e in record.edges), 0.0)
    return float(q), (record.v_draw + drawn) / record.visits


def visits_of(batch: RecordBatch) -> NDArray[np.int64]:
    """Returns node N of every record, `[R]`: 1 + the sum of its edges' n."""
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(batch.n, dtype=np.int64)])
    return np.asarray(1 + sums[batch.edge_offsets[1:]] - sums[batch.edge_offsets[:-1]], np.int64)


def best_move(record: NodeRecord, board: chess.Board) -> chess.Move | None:
    """Returns the best move by `ranking`, or None if there are no moves."""
    if not record.codes:
        return None
    moves = legal_moves(board)
    return moves[record.order[ranking(record, board.halfmove_clock, resets_of(record, board, moves))[0]]]
