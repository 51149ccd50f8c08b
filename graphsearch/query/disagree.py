"""Positions where a second opinion differs most from a file's own evaluator, weighted by visits. Reads only.

by value    weight = N |V - V of the second|
by policy   weight = N TV,  TV = half the sum over the moves of |P - P of the second|, in [0, 1]
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import chess

from ..base.answer import picked
from ..base.errors import InvalidParameterError, StoreError, check_least
from ..position.board import board_of, fen_of, legal_moves
from ..position.values import cp_of
from ..store.record.node import NodeRecord, prior_order, priors_from_codes
from ..store.record.provenance import EvaluatorIdentity
from ..store.record.ranking import best_move
from ..store.sharded.files import open_to_read
from ..store.store import Store
from ..store.tables import opinions as table
from ..store.tables.opinions import BY_POLICY, BY_VALUE, Opinion

LOOKED_AT = 4  # least rows to read, as a multiple of the requested ones: their visits have changed


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A position that two evaluators see differently; values are seen by the side to move.

    Attributes:
      position: FEN. n: node N now.
      q, cp, draw: V of the file's evaluator. best_move: its first choice, in SAN.
      second_q, second_cp, second_draw, second_best_move: those of the second evaluator.
      most_visited: the move that the search has visited most, in SAN.
      difference: of V, or of the priors (total variation). weight: N times that.
    """

    position: str
    n: int
    q: float
    cp: int
    draw: float
    second_q: float
    second_cp: int
    second_draw: float
    best_move: str
    second_best_move: str
    most_visited: str
    difference: float
    weight: float


@dataclass(frozen=True, slots=True)
class Disagreements:
    """The answer of `disagree`.

    Attributes:
      first, second: the file's evaluator, and the evaluator of the opinions.
      opinions: number of positions with one. rows: largest weights first.
      lost: number of positions with an opinion that the file no longer holds.
    """

    by: str
    first: EvaluatorIdentity
    second: EvaluatorIdentity
    opinions: int
    rows: tuple[Disagreement, ...]
    lost: int

    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON object of `graphsearch lab disagree`."""
        names = {"evaluator": self.first.describe(), "second_evaluator": self.second.describe()}
        return {"by": self.by, **names, **picked(self, "opinions lost positions=rows")}


def disagree(
    path: str | os.PathLike[str],
    evaluator: str | None = None,
    *,
    top: int = 20,
    min_visits: int = 1,
    by: str = BY_VALUE,
) -> Disagreements:
    """Returns the positions where a second opinion differs most from a file's evaluator, weighted by visits.

    The table of opinions orders the candidates by the visits at the time of the opinion; the answer uses the
    records as they are now. If a position has got many visits since then, it is found only after its opinion
    is renewed.

    Args:
      path: the graph file; it is only read, also while a search writes it.
      evaluator: number or name of the second evaluator, as far as it is unique; None if there is only one.
      top: most positions. min_visits: least node N.
      by: `value` or `policy`.

    Raises:
      InvalidParameterError: if an argument is out of range, or names no evaluator, or several.
      StoreError: if the file cannot be read, or has no opinions.
    """
    if by not in (BY_VALUE, BY_POLICY):
        raise InvalidParameterError(f"order must be {BY_VALUE} or {BY_POLICY}, not {by!r}")
    check_least(1, top=top, min_visits=min_visits)
    with open_to_read(path) as store, store.snapshot():
        counts = table.counts(store)
        counts.pop(store.evaluator_number, None)
        if not counts:
            raise StoreError(
                f"{store.path} has no second opinions;"
                f" `graphsearch reevaluate {store.path} --second-opinion --evaluator NAME` asks for them"
            )
        number = _chosen(evaluator, {k: store.evaluators()[k] for k in counts})
        found, lost = _largest(store, number, top, min_visits, by)
        second = store.evaluators()[number]
        return Disagreements(
            by=by, first=store.identity, second=second, opinions=counts[number], rows=tuple(found), lost=lost
        )


def _chosen(wanted: str | None, known: Mapping[int, EvaluatorIdentity]) -> int:
    """Returns the evaluator with this number, kind, digest or beginning of a description."""
    fitting = [
        number
        for number, identity in known.items()
        if wanted in (None, str(number), identity.digest) or identity.describe().startswith(str(wanted))
    ]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(f"{number}: {known[number].describe()}" for number in fitting or known)
    what = "several match" if fitting else f"none of them is {wanted!r}"
    raise InvalidParameterError(f"there are opinions of {names}; {what}; give its number")


def _largest(store: Store, number: int, top: int, min_visits: int, by: str) -> tuple[list[Disagreement], int]:
    """Returns the positions of the largest weights, largest first, and the number of lost ones."""
    best: list[tuple[float, int, Disagreement]] = []
    lost = 0
    for place, opinion in enumerate(table.ranked(store, number, by, min_visits)):
        most = opinion.n * (abs(opinion.q - opinion.second_q) if by == BY_VALUE else 1.0)
        if place >= LOOKED_AT * top and len(best) == top and most <= best[0][0]:
            break
        board = board_of(opinion.fen)
        record = store.read(board)
        if record is None or len(record.codes) != len(opinion.policy):
            lost += 1
            continue
        row = _compared(board, record, opinion, by)
        heapq.heappush(best, (row.weight, -place, row))
        if len(best) > top:
            heapq.heappop(best)
    return [row for _, _, row in sorted(best, reverse=True)], lost


def _compared(board: chess.Board, record: NodeRecord, opinion: Opinion, by: str) -> Disagreement:
    """Returns a position with the values of its record and of the opinion."""
    moves = legal_moves(board)
    if by == BY_VALUE:
        difference = abs(record.v - opinion.second_q)
    else:
        difference = total_variation(record.priors, priors_from_codes(opinion.policy))
    visited = best_move(record, board)
    assert visited is not None, "positions without moves get no opinions"
    return Disagreement(
        position=fen_of(board),
        n=record.visits,
        q=record.v,
        cp=cp_of(record.v),
        draw=record.v_draw,
        second_q=opinion.second_q,
        second_cp=cp_of(opinion.second_q),
        second_draw=opinion.second_draw,
        best_move=board.san(moves[record.order[0]]),
        second_best_move=board.san(moves[prior_order(opinion.policy)[0]]),
        most_visited=board.san(visited),
        difference=difference,
        weight=record.visits * difference,
    )


def total_variation(p: list[float], other: list[float]) -> float:
    """Returns half the sum of |P - P'|, in [0, 1].

    >>> total_variation([0.5, 0.5], [1.0, 0.0])
    0.5
    """
    return 0.5 * sum(abs(a - b) for a, b in zip(p, other, strict=True))
