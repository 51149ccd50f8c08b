"""Ranks the moves of a record; computes its mean value and visits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import reduce
from itertools import chain, repeat
from operator import add

import chess
import numpy as np
from numpy.typing import NDArray

from ...position.board import CLOCK_DRAW, clock_of_words, legal_moves
from ...position.values import negate
from .bounds import AS_GOOD_AS_WON, DRAWN, MOST_MATE, Proof
from .known import CompletedRecord, known_edges, known_leader
from .node import Edge, NodeRecord, RecordBatch, node_value

LOST = 3  # the class of the moves ranked last


def edge_of(record: NodeRecord, k: int) -> Edge:
    """Returns the known edge that is k-th in descending P, without visits if it has none."""
    edges = known_edges(record)
    return edges[k] if k < len(edges) else Edge(0)


def ranking(record: NodeRecord, clock: int | None = None, resets: Sequence[bool] = ()) -> list[int]:
    """Returns the edges, as places in descending P, best first.

    Proven wins come first (the shortest first), then the other moves, the leading one (`known_leader`) before
    all others, those by visits, value and P, and last proven losses (the longest first). Proven draws come
    before the unproven moves if the leading one is worth less. So do moves of value 1, which are tablebase
    wins, unless the leading move is as good as won: evaluators round to 1, too. If the position is mated in a
    known number of plies, the moves that last this long come first. All this is of the known edges.

    Args:
      clock: the halfmove clock of the path; default: the clock at which the record was evaluated.
      resets: whether each move resets the clock, in the order of the edges; default: none does.
    """
    edges = known_edges(record)
    if not may_be_proven(record):
        leader = known_leader(record, range(len(edges)))
        ranked = sorted(
            range(len(edges)), key=lambda k: (k != leader, -edges[k].n, negate(edges[k].value), k)
        )
        return [*ranked, *range(len(edges), len(record.codes))]
    at = clock_of_words(record.words) if clock is None else clock
    zeroing = chain(resets, repeat(False))
    proofs = [proof_at(edge, at, resets=reset) for edge, reset in zip(edges, zeroing, strict=False)]
    leader = known_leader(record, [k for k, proof in enumerate(proofs) if proof is None])
    best = Edge(0) if leader is None else edges[leader]
    draws_lead = best.n == 0 or best.value < 0
    wins_lead = best.value < AS_GOOD_AS_WON
    own = record.proof
    longest = own.mate if own and own.result < 0 else None

    def worth(k: int) -> tuple[int, int, int, float, int]:
        edge, proof = edges[k], proofs[k]
        if proof and proof.result > 0:
            return 0, proof.mate or proof.plies + MOST_MATE, -edge.n, 0.0, k
        if proof and proof.result < 0:
            return (
                0 if longest and proof.mate == longest else LOST,
                -(proof.mate or proof.plies + MOST_MATE),
                -edge.n,
                0.0,
                k,
            )
        if wins_lead and edge.n and edge.value == 1.0:  # large waves give it few visits
            return 1, 0, -edge.n, 0.0, k
        return 1 if proof and draws_lead else 2, int(k != leader), -edge.n, negate(edge.value), k

    ranked = sorted(range(len(edges)), key=worth)
    lost = bisect_left(ranked, LOST, key=lambda k: worth(k)[0])
    return [*ranked[:lost], *range(len(edges), len(record.codes)), *ranked[lost:]]


def may_be_proven(record: NodeRecord) -> bool:
    """Returns whether an edge may be proven or as good as won; otherwise visits rank the moves."""
    return any(edge.d >= DRAWN or abs(edge.q) == 1.0 for edge in known_edges(record))


def has_best_move(record: NodeRecord) -> bool:
    """Returns whether a move of a position is known to be its best: by visits, or because it mates."""
    return record.visits > 1 or isinstance(record, CompletedRecord) or (record.v == 1.0 and record.d == 1)


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
    """Returns (Q, D) of a node; D is a probability."""
    bounds = record.bounds
    q = float(node_value(record.v, record.edges, bounds))
    if bounds[0] == bounds[1]:
        return q, 1.0 - abs(q)
    drawn = reduce(add, (e.n * e.draws for e in record.edges), 0.0)  # `sum` compensates from Python 3.12 on
    draws = record.v_draw + drawn
    return q, draws / record.visits


def visits_of(batch: RecordBatch) -> NDArray[np.int64]:
    """Returns node N of every record, `[R]`: 1 + the sum of its edges' n."""
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(batch.n, dtype=np.int64)])
    return np.asarray(1 + sums[batch.edge_offsets[1:]] - sums[batch.edge_offsets[:-1]], np.int64)


def best_move(record: NodeRecord, board: chess.Board) -> chess.Move | None:
    """Returns the best move by `ranking`, or None if there are no moves."""
    if not record.codes:
        return None
    moves, edges = legal_moves(board), known_edges(record)
    if may_be_proven(record):
        best = ranking(record, board.halfmove_clock, resets_of(record, board, moves))[0]
    else:  # nothing is proven or as good as won
        best = known_leader(record, range(len(edges))) or 0
    return moves[record.order[best]]
