"""Values, proofs and ranks of records in columns: a row per position, edge or move, thousands at once.

Sums run in the order of those of a single record, so all numbers are equal to the last bit. Visits rank most
moves; records in which proofs or many visits may change the order are ranked by `store.ranking`, one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..position.board import (
    CLOCK_DRAW,
    CLOCK_END,
    CLOCK_SHIFT,
    META,
    WITHOUT_CLOCK,
    clock_of_words,
    clocks_of,
    legal_moves,
    unpack,
)
from ..position.board_kernel import MATE
from ..position.values import CP_FACTOR, CP_SLOPE, D_SCALE, cp_of
from ..store import record_kernel as rules
from ..store.ranking import LED_BY_VALUE_FROM, known_edges, ranking, resets_of, visits_of
from ..store.record import NodeRecord, RecordBatch
from ..store.record_kernel import CODE, LOWER_SHIFT, UPPER_SHIFT
from .steps import Floats, Ints

_CODES = rules.MOST_CODE + 1
_SIGNS = (-1.0, 0.0, 1.0)  # of q: certain losses, all open values, certain wins
NO_NOTE, WON, DRAWN, LOST = range(4)  # proven results of positions


# ------------------------------------------------------------------ values of edges
@cache
def _edge_rules() -> dict[str, NDArray[np.int16]]:
    """Returns tables of the results of `store.record_kernel` by sign of q and by d, `[3, 1022]` each."""
    found = {name: np.zeros((3, _CODES), np.int16) for name in ("lower", "upper", "share", "mate", "plies")}
    for i, q in enumerate(_SIGNS):
        for d in range(_CODES):
            proof = rules.proof_of(q, d)
            found["lower"][i, d], found["upper"][i, d] = rules.bounds_of(q, d)
            found["share"][i, d] = rules.share_of(q, d)
            found["mate"][i, d] = (proof.moves or 0) if proof else 0
            found["plies"][i, d] = proof.plies if proof else 0
    return found


def _signs(q: NDArray[np.float32]) -> Ints:
    """Returns the index of each q in _SIGNS; all values between -1 and 1 count as 0."""
    return np.where(q == 1.0, 2, np.where(q == -1.0, 0, 1))


class EdgeWorth(NamedTuple):
    """Values of records' edges, `[E]` each, seen by the side to move.

    Attributes:
      q, draw, lower, upper: as `Edge.value`, `Edge.draws` and `Edge.bounds`.
      mates: moves to a mate proven at the clock of the path, 0 without one.
    """

    q: Floats
    draw: Floats
    lower: NDArray[np.int8]
    upper: NDArray[np.int8]
    mates: NDArray[np.int16]


def worth_of_edges(batch: RecordBatch) -> EdgeWorth:
    """Returns the values of records' edges; the records have the clocks of the paths."""
    signs = _signs(batch.q)
    rule = {name: table[signs, batch.edge_d] for name, table in _edge_rules().items()}
    n, r = batch.n.astype(np.int64), batch.r.astype(np.int64)
    visits, valued = np.maximum(n, 1), n > r
    lower, upper = (
        np.where(valued, rule[name], otherwise).astype(np.int8)
        for name, otherwise in (("lower", -1), ("upper", 1))
    )
    holds = valued & (clocks_of(batch.words)[record_of_edges(batch)] + rule["plies"] <= CLOCK_DRAW)
    return EdgeWorth(
        q=(n - r) * batch.q.astype(np.float64) / visits,
        draw=((n - r) * rule["share"] + r * D_SCALE) / visits / D_SCALE,
        lower=lower,
        upper=upper,
        mates=np.where(holds, rule["mate"], 0).astype(np.int16),
    )


def record_of_edges(batch: RecordBatch) -> Ints:
    """Returns the record of each edge, `[E]`."""
    return np.repeat(np.arange(len(batch)), np.diff(batch.edge_offsets))


# ------------------------------------------------------------------ values of positions
class Worth(NamedTuple):
    """Values of records' positions, `[R]` each: as `node_mean` and `NodeRecord.bounds`."""

    q: Floats
    draw: Floats
    lower: NDArray[np.int8]
    upper: NDArray[np.int8]


class Proofs(NamedTuple):
    """Proofs, `[R]`: plies to a mate, negative if mated, 1 where a move mates, 0 without one; notes."""

    mates: Ints
    notes: Ints


def worth_of(batch: RecordBatch) -> Worth:
    """Returns the values of records' positions."""
    edges = worth_of_edges(batch)
    lower, upper = _bounds(batch, edges)
    weighed = (batch.n - batch.r).astype(np.float64) * batch.q
    visits = visits_of(batch)
    q = np.clip(_added(batch, batch.v.astype(np.float64), weighed) / visits, lower, upper)
    drawn = draws_of(batch) + _added(batch, np.zeros(len(batch)), batch.n * edges.draw)
    return Worth(q, np.where(lower == upper, 1.0 - np.abs(q), drawn / visits), lower, upper)


def _bounds(batch: RecordBatch, edges: EdgeWorth) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    flags = batch.flags.astype(np.int8)
    lower, upper = (flags >> LOWER_SHIFT & 3) - 1, (flags >> UPPER_SHIFT & 3) - 1
    sizes = np.diff(batch.edge_offsets)
    some = np.flatnonzero(sizes)
    if len(some):
        begins = batch.edge_offsets[some]
        covers = sizes[some] == np.diff(batch.code_offsets)[some]
        low = np.maximum(lower[some], np.maximum.reduceat(edges.lower, begins))
        high = np.minimum(upper[some], np.where(covers, np.maximum.reduceat(edges.upper, begins), 1))
        sound = low <= high
        lower[some[sound]], upper[some[sound]] = low[sound], high[sound]
    return lower, upper


def _added(batch: RecordBatch, start: Floats, values: Floats) -> Floats:
    """Returns `start` plus the values of each record's edges, added one by one as Python does."""
    total = start.copy()
    np.add.at(total, record_of_edges(batch), values)
    return total


def proofs_of(batch: RecordBatch, clocks: Ints, worth: Worth, marks: NDArray[np.uint8]) -> Proofs:
    """Returns the proofs at the clocks of the paths; `clocks`: of evaluations; `marks`: by `legal_codes`."""
    mates, notes = np.zeros(len(batch), np.int64), np.zeros(len(batch), np.int64)
    exact = worth.lower == worth.upper
    notes[exact] = DRAWN - worth.lower[exact]
    has_moves = np.diff(batch.code_offsets) > 0
    for i in np.flatnonzero(exact & (worth.lower != 0) & has_moves).tolist():
        proof = record_at(batch, i, int(clocks[i])).proof
        if proof and not proof.holds_at(clock_of_words(batch.words[i])):
            notes[i] = NO_NOTE
        elif proof and proof.mate is not None:
            mates[i] = proof.result * proof.mate
    mates[has_moves & (clocks_of(batch.words) < CLOCK_END) & (marks & MATE > 0).any(1)] = 1
    return Proofs(mates, notes)


def record_at(batch: RecordBatch, i: int, clock: int) -> NodeRecord:
    """Returns a record of a batch with the clock of its evaluation."""
    record = batch.record(i)
    words = list(record.words)
    words[META] = words[META] & WITHOUT_CLOCK | clock << CLOCK_SHIFT
    return replace(record, words=tuple(words))


def draws_of(batch: RecordBatch) -> Floats:
    """Returns `v_draw` of records."""
    return np.asarray(_edge_rules()["share"][_signs(batch.v), batch.d] / D_SCALE)


def draws_beside(q: Floats, draw: Floats) -> Floats:
    """Returns the draw probabilities of values, as `draw_beside`."""
    return np.minimum(np.maximum(draw, 0.0), 1.0 - np.abs(q))


def chances_of(worth: Worth) -> tuple[Floats, Floats, Floats]:
    """Returns win, draw and loss of values, as `wdl_from_q`."""
    draw = draws_beside(worth.q, worth.draw)
    win, loss = (np.maximum((1.0 - draw + sign * worth.q) / 2, 0.0) + 0.0 for sign in (1.0, -1.0))
    return win, draw, loss


# ------------------------------------------------------------------ ranks
@dataclass(frozen=True, slots=True)
class Ranked:
    """The moves of some records, best first as in `ranking`.

    Attributes:
      edges: `[E]`, record by record. ranks: `[E]` their ranks among the legal moves, from 1.
      best: `[R]` the best move as its index in canonical order, -1 if none is known.
      by_rules: the rankings by `store.ranking`.
      by_prior: `[R, most moves]` the moves' indices in canonical order by descending P.
    """

    edges: Ints
    ranks: Ints
    best: Ints
    by_rules: Mapping[int, list[int]]
    by_prior: NDArray[np.uint8]

    def of_moves(self, batch: RecordBatch) -> Ints:
        """Returns the rank of every legal move, in canonical order."""
        of = np.repeat(np.arange(len(batch)), np.diff(batch.code_offsets))
        begins, of_edges = batch.code_offsets[of], record_of_edges(batch)[self.edges]
        moves = begins + self.by_prior[of, np.arange(len(of)) - begins]
        ranks = np.arange(1, len(of) + 1) - begins
        ranks[batch.code_offsets[of_edges] + _places(batch)[self.edges]] = self.ranks
        for i, places in self.by_rules.items():
            ranks[batch.code_offsets[i] + np.array(places)] = np.arange(1, len(places) + 1)
        found = np.empty(len(of), np.int64)
        found[moves] = ranks
        return found


def ranked(batch: RecordBatch, clocks: Ints, known: Mapping[int, NodeRecord] | None = None) -> Ranked:
    """Returns the moves of records, at the clocks of the paths, best first.

    Args:
      clocks: `[R]` of the evaluations.
      known: records with moves that were searched apart, by index; the batch has their known edges.
    """
    of, k, sizes = record_of_edges(batch), _places(batch), np.diff(batch.edge_offsets)
    visits = batch.n.astype(np.int64)
    values = (visits - batch.r) * batch.q.astype(np.float64) / np.maximum(visits, 1)
    order, ranks = np.lexsort((-values, (of + 1 << 32) - visits)), k + 1  # equal ones stay in order of k
    special = (np.abs(batch.v) == 1.0) | (visits_of(batch) >= LED_BY_VALUE_FROM)
    special[of[(batch.edge_d >= rules.DRAWN) | (np.abs(batch.q) == 1.0)]] = True
    special &= sizes > 0
    has = (np.bincount(of[visits > 0], minlength=len(batch)) > 0) | ((batch.v == 1.0) & (batch.d == 1))
    special[list(known or ())] = has[list(known or ())] = True
    first, by_rules = np.zeros(len(batch), np.int64), dict[int, list[int]]()
    some = np.flatnonzero(sizes)
    first[some] = k[order[batch.edge_offsets[some]]]
    for i in np.flatnonzero(special).tolist():
        places = by_rules[i] = _ranking(batch, i, int(clocks[i]), known)
        begin, end = int(batch.edge_offsets[i]), int(batch.edge_offsets[i + 1])
        own = [(begin + place, rank) for rank, place in enumerate(places, 1) if place < end - begin]
        order[begin:end], ranks[begin:end] = np.array(own, np.int64).reshape(-1, 2).T
        first[i] = places[0]
    best, by_prior = np.full(len(batch), -1, np.int64), _by_prior(batch)
    rows = np.flatnonzero(has & (np.diff(batch.code_offsets) > 0))
    best[rows] = by_prior[rows, first[rows]]
    return Ranked(order, ranks, best, by_rules, by_prior)


def _ranking(batch: RecordBatch, i: int, clock: int, known: Mapping[int, NodeRecord] | None) -> list[int]:
    record, at = record_at(batch, i, clock), clock_of_words(batch.words[i])
    if known and i in known:
        record = replace(known[i], words=record.words)
    resets: Sequence[bool] = ()
    if any(edge.proof and not edge.proof.holds_at(at) for edge in known_edges(record)):
        board = unpack(batch.words[i].tolist())
        resets = resets_of(record, board, legal_moves(board))
    return ranking(record, at, resets)


def _by_prior(batch: RecordBatch) -> NDArray[np.uint8]:
    sizes = np.diff(batch.code_offsets)
    keys = np.full((len(batch), max(1, int(sizes.max(initial=0)))), np.iinfo(np.uint16).max, np.uint16)
    here = np.arange(keys.shape[1])[None] < sizes[:, None]
    keys[here] = (CODE - batch.codes.astype(np.uint16)) << 8 | np.nonzero(here)[1].astype(np.uint16)
    keys.sort(axis=1)
    return np.asarray(keys.astype(np.uint8))


def moves_of_edges(batch: RecordBatch, by_prior: NDArray[np.uint8]) -> Ints:
    """Returns the move of each edge, as an index in `codes`; `by_prior`: of the records' rank."""
    of = record_of_edges(batch)
    return np.asarray(batch.code_offsets[of] + by_prior[of, _places(batch)], np.int64)


def edges_by_move(batch: RecordBatch) -> Ints:
    """Returns the edge of every legal move, in canonical order; -1 for a move without one."""
    found = np.full(len(batch.codes), -1)
    found[moves_of_edges(batch, _by_prior(batch))] = np.arange(len(batch.n))
    return found


def _places(batch: RecordBatch) -> Ints:
    """Returns the place of each edge among those of its record."""
    begins = np.repeat(batch.edge_offsets[:-1], np.diff(batch.edge_offsets))
    return np.asarray(np.arange(len(batch.n)) - begins)


def priors_of(batch: RecordBatch) -> Floats:
    """Returns P of every move, as `priors_from_codes` does."""
    powers, held = batch.codes.astype(np.float64) ** 4, np.diff(batch.code_offsets)
    filled = np.flatnonzero(held)
    sums = np.add.reduceat(powers, batch.code_offsets[filled]) if len(filled) else np.zeros(0)
    return np.asarray(powers / np.repeat(sums, held[filled]))


# ------------------------------------------------------------------ centipawns
NEAR = 1e-6  # distance from a tie; NumPy's tan differs from `math` by less than 1e-10 centipawns


def cps_of(q: Floats) -> Ints:
    """Returns `cp_of` of every value.

    >>> cps_of(np.array([0.0, 0.5, -0.5, 1.0])).tolist()
    [0, 89, -89, 12780]
    """
    scores = CP_FACTOR * np.tan(CP_SLOPE * np.clip(q, -1.0, 1.0))
    found = np.rint(scores).astype(np.int64)
    is_tie = np.abs(np.abs(scores - np.trunc(scores)) - 0.5) < NEAR
    for i in np.flatnonzero(is_tie).tolist():
        found[i] = cp_of(float(q[i]))
    return found
