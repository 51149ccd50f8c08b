"""Stored values of one move: its cost, the best move instead, and the best answer."""

from __future__ import annotations

from dataclasses import dataclass

import chess

from ..position.values import cp_of, negate
from ..store.record.ranking import node_mean
from .source import RecordSource, after, steps_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """A move's value by the records before and behind it, seen by the side that plays it.

    Attributes:
      n: its edge N, 0 without visits; None if the position has no record.
      q, cp: its value: of its edge, else minus that of the position behind it; None if neither is known.
      best, best_q, best_cp: the best move in SAN, and its value; None without visits.
      cost, cost_cp: how much worse it is than the best move, at least 0; None if a value is missing.
      answer: the best answer to it, in SAN; None if the position behind it has no visits.
    """

    n: int | None
    q: float | None
    cp: int | None
    best: str | None
    best_q: float | None
    best_cp: int | None
    cost: float | None
    cost_cp: int | None
    answer: str | None


def worth_of(source: RecordSource, board: chess.Board, move: chess.Move) -> Worth:
    """Returns the stored values of a legal move."""
    record = source.read(board)
    steps = steps_of(record, board) if record else []
    edge = next((step.edge for step in steps if step.move == move), None)
    child = after(board, move)
    behind = source.read(child)
    answers = steps_of(behind, child) if behind else []
    value = (edge.value, edge.draws) if edge else None
    if value is None and behind is not None:
        q, draw = node_mean(behind)
        value = (negate(q), draw)
    best = steps[0] if steps else None
    cp = cp_of(*value) if value else None
    best_cp = cp_of(best.edge.value, best.edge.draws) if best else None
    return Worth(
        n=None if record is None else edge.n if edge else 0,
        q=value[0] if value else None,
        cp=cp,
        best=board.san(best.move) if best else None,
        best_q=best.edge.value if best else None,
        best_cp=best_cp,
        cost=max(0.0, best.edge.value - value[0]) if best and value else None,
        cost_cp=None if cp is None or best_cp is None else max(0, best_cp - cp),
        answer=child.san(answers[0].move) if answers else None,
    )
